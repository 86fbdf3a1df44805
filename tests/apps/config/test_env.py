"""Settings that make no sense end the start with one sentence; none is taken as something else."""

import ssl

import pytest

from config import env, worker
from config.settings import database_of

KEYS = {"NEARLINE_SECRET_KEY": "k", "NEARLINE_HOST_ID": "a"}
FERNET_KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="


DATABASE = "is not an address like postgresql://user:password@host:port/name with parameters of libpq."
BROKER = "is not an address like redis://host:port/0 or rediss://host:port/0?ssl_ca_certs=/path."


def read(**variables: str) -> env.Settings:
    return env.read({**KEYS, "NEARLINE_SECRETS_KEY": FERNET_KEY, **variables})


@pytest.mark.parametrize(
    ("variable", "text", "sentence"),
    [
        ("PORT", "99999", "is '99999', which is not a number from 1 to 65535."),
        ("NEARLINE_PACK_GRACE_DAYS", "-1", "is '-1', which is not a number from 0 to 36500."),
        ("NEARLINE_RESTORE_DAYS", "9" * 12, f"is '{'9' * 12}', which is not a number from 0 to 36500."),
        ("NEARLINE_MAX_GRACE_PERIOD_S", "-5", "is '-5', which is not a number from 0 to 604800."),
        ("NEARLINE_ALLOW_UNCONFINED_JOBS", "never", "is 'never', which is not 0 or 1."),
        ("NEARLINE_LOG_LEVEL", "LOUD", "is 'LOUD', which is not DEBUG, INFO, WARNING, ERROR or CRITICAL."),
        ("NEARLINE_PUBLIC_URL", "nearline.lab", "is not an address like https://nearline.example.org."),
        ("NEARLINE_PUBLIC_URL", "http://a:port", "is not an address like https://nearline.example.org."),
        ("DATABASE_URL", "mysql://n:p@db/n", DATABASE),
        ("DATABASE_URL", "postgresql://db", DATABASE),
        ("DATABASE_URL", "postgresql://n:p@db/n?sslmod=verify-full", DATABASE),
        ("DATABASE_URL", "postgresql://n:p%zz@db/n", DATABASE),
        ("BROKER_URL", "http://redis", BROKER),
        ("BROKER_URL", "redis://redis?ssl_cert_reqs=required", BROKER),
        ("BROKER_URL", "rediss://redis?ssl_cert_reqs=CERT_REQUIRED", BROKER),
        ("BROKER_URL", "rediss://redis?verify=1", BROKER),
        ("NEARLINE_STORE_URL", "s3://", "is not an address like s3://bucket/prefix?endpoint=http://host:port."),
        (
            "NEARLINE_STORE_URL",
            "s3://b?endpoint=foo",
            "is not an address like s3://bucket/prefix?endpoint=http://host:port.",
        ),
        (
            "NEARLINE_ALLOWED_HOSTS",
            "localhost,http://foo/",
            "is 'localhost,http://foo/', which is not names without scheme and port, such as nearline.lab,[::1].",
        ),
        (
            "NEARLINE_HOST_ID",
            "a b/c",
            "is 'a b/c', which is not up to 64 letters, digits, dots, dashes and underscores.",
        ),
        ("NEARLINE_SECRETS_KEY", "short", "is not a Fernet key (32 bytes in URL-safe base64)."),
    ],
)
def test_a_setting_that_makes_no_sense_is_named_with_what_it_has_to_be(variable, text, sentence):
    with pytest.raises(SystemExit) as end:
        read(**{variable: text})

    assert str(end.value) == f"{variable} {sentence}"


@pytest.mark.parametrize("text", ["0", "no", "False", "OFF", ""])
def test_whatever_the_spelling_off_never_opens_the_platform_to_unconfined_jobs(text):
    assert read(NEARLINE_ALLOW_UNCONFINED_JOBS=text).allow_unconfined_jobs is False


def test_addresses_of_a_full_installation_are_taken_as_they_are():
    settings = read(
        DATABASE_URL="postgresql:///nearline",
        BROKER_URL="redis://:p@r:6379/1",
        NEARLINE_STORE_URL="s3://datasets/n?endpoint=http://10.0.0.7:9000&region=eu",
        NEARLINE_ALLOWED_HOSTS="nearline.lab, .example.org,[fd00::1],*,",
    )

    assert settings.database_url == "postgresql:///nearline"
    assert settings.broker_url == "redis://:p@r:6379/1"
    assert settings.store_url == "s3://datasets/n?endpoint=http://10.0.0.7:9000&region=eu"
    assert settings.allowed_hosts == "nearline.lab, .example.org,[fd00::1],*,"


def test_the_database_is_connected_with_the_parameters_of_its_address():
    url = "postgresql://n:p%40@db:5433/n?sslmode=verify-full&sslrootcert=/etc/ca.pem"

    assert database_of(read(DATABASE_URL=url)) == {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "n",
        "USER": "n",
        "PASSWORD": "p@",
        "HOST": "db",
        "PORT": "5433",
        "OPTIONS": {"sslmode": "verify-full", "sslrootcert": "/etc/ca.pem"},
        "CONN_MAX_AGE": 60,
    }


@pytest.mark.parametrize(
    ("query", "certificates"),
    [
        ("", {"ssl_cert_reqs": ssl.CERT_REQUIRED}),
        ("?ssl_ca_certs=/ca.pem", {"ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_ca_certs": "/ca.pem"}),
        ("?ssl_cert_reqs=none", {"ssl_cert_reqs": ssl.CERT_NONE}),
    ],
)
def test_celery_checks_the_certificate_of_the_broker_unless_told_otherwise(query, certificates):
    broker_url = read(BROKER_URL=f"rediss://:p%40@r:6379/1{query}").broker_url

    with worker.make_app(broker_url).connection_for_write() as connection:
        assert connection.ssl == certificates
        assert (connection.password, connection.hostname, connection.virtual_host) == ("p@", "r", "1")


def test_over_https_no_other_host_name_can_set_our_cookies():
    assert read(NEARLINE_PUBLIC_URL="https://nearline.lab").cookie_prefix == "__Host-"
    assert read(NEARLINE_PUBLIC_URL="http://nearline.lab").cookie_prefix == ""
