"""The one place that reads the environment. docs/reference/settings.md is generated from this module.

Each field names its variable, its unit where it has one, and why it exists.
"""

import contextlib
import logging
import os
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from cryptography.fernet import Fernet

from core import bounds
from core.errors import InvalidInput

_LONGEST_TEXT = 200
# As Django compares them; an address of IPv6 stands in brackets.
_HOST_NAME = re.compile(r"[^\s/:\[\]]*|\[[0-9A-Fa-f:.]+\]")
# What both clients of Redis take, Celery's and our own, and take alike.
_BROKER_PARAMETER = re.compile(
    r"ssl_cert_reqs=(required|none)|ssl_check_hostname=(true|false)|ssl_(ca_certs|certfile|keyfile)=.+"
)
_HOST_ID = re.compile(r"[A-Za-z0-9._-]{0,64}")


class ProjectCreators(StrEnum):
    """Who may create projects."""

    ADMINS = "admins"
    EVERYONE = "everyone"


Networks = tuple[IPv4Network | IPv6Network, ...]


@dataclass(frozen=True)
class Form:
    """What the text of a setting has to be: in words, and as the function that reads it or raises ValueError."""

    words: str
    read: Callable[[str], object]
    may_be_shown: bool = True


def _number(least: int, most: int) -> Form:
    def read(text: str) -> int:
        if not least <= int(text) <= most:
            raise ValueError(text)
        return int(text)

    return Form(f"a number from {least} to {most}", read)


def _address(example: str, *schemes: str, with_path: bool = False) -> Form:
    """Return the form of an address, or nothing. It may hold a password, so errors do not show it."""

    def read(text: str) -> str:
        url = urlsplit(text)
        # `port` raises ValueError where it is no number.
        is_whole = url.path.strip("/") if with_path else url.hostname and url.port != 0
        if text and not (url.scheme in schemes and is_whole):
            raise ValueError(text)
        return text

    return Form(f"an address like {example}", read, may_be_shown=False)


def _as_database(text: str) -> str:
    _address("", "postgresql", "postgres", with_path=True).read(text)
    if text:
        read_connection(text)
    return text


def read_connection(database_url: str) -> dict[str, str]:
    """Return the parameters of libpq that an address names, with those of its query. Raises ValueError."""
    from psycopg import ProgrammingError, conninfo  # noqa: PLC0415 (not loaded where the database is SQLite)

    try:
        return {name: str(value) for name, value in conninfo.conninfo_to_dict(database_url).items()}
    except ProgrammingError as error:
        raise ValueError(database_url) from error


def _as_broker(text: str) -> str:
    """Return the address with what is asked of the certificate: where it says nothing, Celery would take any."""
    url = urlsplit(str(_address("", "redis", "rediss").read(text)))
    query = dict(parse_qsl(url.query, keep_blank_values=True))
    if not all(_BROKER_PARAMETER.fullmatch(f"{name}={value}") for name, value in query.items()):
        raise ValueError(text)
    if url.scheme == "rediss":
        return url._replace(query=urlencode({"ssl_cert_reqs": "required"} | query)).geturl()
    if query:
        raise ValueError(text)
    return text


def _as_store(text: str) -> str:
    for endpoint in parse_qs(urlsplit(text).query).get("endpoint", []):
        _address("", "http", "https").read(endpoint)
    return str(_address("", "s3").read(text))


def _as_host_names(text: str) -> str:
    if not all(_HOST_NAME.fullmatch(part.strip()) for part in text.split(",")):
        raise ValueError(text)
    return text


def _as_host_id(text: str) -> str:
    if not _HOST_ID.fullmatch(text):
        raise ValueError(text)
    return text


def _as_fernet_key(text: str) -> str:
    if text:
        Fernet(text)
    return text


def _as_log_level(text: str) -> str:
    if text.upper() not in logging.getLevelNamesMapping():
        raise ValueError(text)
    return text.upper()


_DAYS = _number(0, 36_500)
_AMOUNT = _number(0, 10**15)


def setting(variable: str, default: str, why: str, form: Form | None = None) -> Any:
    """Declare a field that comes from an environment variable. Without a form, its type says how it is read."""
    return field(metadata={"variable": variable, "default": default, "why": why, "form": form})


@dataclass(frozen=True)
class Settings:
    """Everything that can be set from outside."""

    home: Path = setting("NEARLINE_HOME", ".nearline", "Folder that holds all state of the embedded product.")
    port: int = setting("PORT", "8000", "TCP port of the web process on the loopback interface.", _number(1, 65535))
    public_url: str = setting(
        "NEARLINE_PUBLIC_URL",
        "",
        "Address under which people and jobs reach the product; empty: http://127.0.0.1:PORT.",
        _address("https://nearline.example.org", "http", "https"),
    )
    jobs_url: str = setting(
        "NEARLINE_JOBS_URL",
        "",
        "Address below which each port of a job has a host name of its own, for browsers. A DNS entry for all of them "
        "(*.jobs.example.net) leads here. Empty: http://localhost:PORT where people reach the product on their own "
        "machine, and else none.",
        _address("https://jobs.example.net", "http", "https"),
    )
    database_url: str = setting(
        "DATABASE_URL",
        "",
        "postgresql://user:password@host:port/name, with parameters of libpq where needed, such as "
        "?sslmode=verify-full&sslrootcert=/path; empty: SQLite in the home folder.",
        Form(
            "an address like postgresql://user:password@host:port/name with parameters of libpq",
            _as_database,
            may_be_shown=False,
        ),
    )
    broker_url: str = setting(
        "BROKER_URL",
        "",
        "Address of the message broker: redis://host:port/0, or rediss://host:port/0 with TLS, whose certificate is "
        "checked. Parameters are ssl_ca_certs, ssl_certfile and ssl_keyfile (paths), ssl_check_hostname (true, false) "
        "and ssl_cert_reqs (required, none). Empty: background work in the web process.",
        Form(
            "an address like redis://host:port/0 or rediss://host:port/0?ssl_ca_certs=/path",
            _as_broker,
            may_be_shown=False,
        ),
    )
    store_url: str = setting(
        "NEARLINE_STORE_URL",
        "",
        "Where packs and manifests are kept: s3://bucket/prefix?endpoint=http://host:port; empty: a folder in home.",
        Form("an address like s3://bucket/prefix?endpoint=http://host:port", _as_store, may_be_shown=False),
    )
    store_access_key: str = setting("NEARLINE_STORE_ACCESS_KEY", "", "Access key of the S3 store.")
    store_secret_key: str = setting("NEARLINE_STORE_SECRET_KEY", "", "Secret key of the S3 store.")
    secret_key: str = setting(
        "NEARLINE_SECRET_KEY", "", "Signs sessions and store URLs; empty: made once and kept in the home folder."
    )
    secrets_key: str = setting(
        "NEARLINE_SECRETS_KEY",
        "",
        "Fernet key that encrypts stored secrets; empty: made once and kept in the home.",
        Form("a Fernet key (32 bytes in URL-safe base64)", _as_fernet_key, may_be_shown=False),
    )
    allowed_hosts: str = setting(
        "NEARLINE_ALLOWED_HOSTS",
        "127.0.0.1,localhost",
        "Host names that the web process answers to, comma separated.",
        Form("names without scheme and port, such as nearline.lab,[::1]", _as_host_names),
    )
    trusted_proxies: Networks = setting(
        "NEARLINE_TRUSTED_PROXIES",
        "",
        "Networks (10.0.0.0/8, ::1; comma separated) of reverse proxies whose X-Forwarded-For, -Proto and -Host are "
        "believed; empty: none.",
    )
    requests_at_once: int = setting(
        "NEARLINE_REQUESTS_AT_ONCE",
        "2",
        "Most requests of one caller that a web process works on at once; the others wait for their turn. More make "
        "all of them slower, as Python works on one at a time. One that takes longer than 0.5 s does not count.",
        _number(1, 1000),
    )
    requests_waiting: int = setting(
        "NEARLINE_REQUESTS_WAITING",
        "256",
        "Most requests of one caller that wait for their turn in a web process; more are answered 429, to come later.",
        _number(1, 100_000),
    )
    project_creators: ProjectCreators = setting(
        "NEARLINE_PROJECT_CREATORS",
        "admins",
        "Who may create projects, each of which shares in the GPUs: admins (site admins) or everyone who is signed in.",
    )
    browser_upload_bytes: int = setting(
        "NEARLINE_BROWSER_UPLOAD_BYTES",
        "200000000000",
        "Most bytes that one commit brings through the browser; larger folders go straight to the store by the CLI.",
        _AMOUNT,
    )
    browser_upload_files: int = setting(
        "NEARLINE_BROWSER_UPLOAD_FILES", "500000", "Most files that one commit brings through the browser.", _AMOUNT
    )
    pack_grace_days: int = setting(
        "NEARLINE_PACK_GRACE_DAYS",
        "7",
        "Days that packs which no commit needs stay in the store once that was found; uploads take them up again.",
        _DAYS,
    )
    restore_days: int = setting(
        "NEARLINE_RESTORE_DAYS",
        "7",
        "Days that a deleted dataset or project can be restored; its bytes stay in the store so long. 0: not at all.",
        _DAYS,
    )
    max_grace_period_s: int = setting(
        "NEARLINE_MAX_GRACE_PERIOD_S",
        "300",
        "Seconds: the longest grace period that a job may ask for. So long may a stopped job keep its resources.",
        _number(0, 604_800),
    )
    confine_jobs: bool = setting(
        "NEARLINE_CONFINE_JOBS",
        "1",
        "0: jobs on this machine run without a sandbox, and can read and write what the platform's user can.",
    )
    allow_unconfined_jobs: bool = setting(
        "NEARLINE_ALLOW_UNCONFINED_JOBS",
        "0",
        "1: also people who are not site admins may run jobs where no sandbox keeps them from the platform's files.",
    )
    job_readable_paths: str = setting(
        "NEARLINE_JOB_READABLE_PATHS",
        "",
        "Folders in the home of the platform's user that confined jobs may read, with a colon between them.",
    )
    job_writable_paths: str = setting(
        "NEARLINE_JOB_WRITABLE_PATHS",
        "",
        "Folders that confined jobs may write to besides their own, with a colon between them.",
    )
    job_volumes: str = setting(
        "NEARLINE_JOB_VOLUMES",
        "",
        "Folders of this machine that jobs of all projects may mount by `--volume`, with commas between them; "
        "/srv/scans:ro only to be read.",
    )
    host_id: str = setting(
        "NEARLINE_HOST_ID",
        "",
        "Identity of the host whose folders this home folder is about; empty: made once and kept in the home folder.",
        Form("up to 64 letters, digits, dots, dashes and underscores", _as_host_id),
    )
    in_pod: bool = setting(
        "NEARLINE_IN_POD",
        "0",
        "1: this runs in a pod: its machine is no compute resource and no cache site, and no admin.token is written.",
    )
    this_cluster: Mapping[str, str] = setting(
        "NEARLINE_THIS_CLUSTER",
        "",
        "Settings as JSON with which the cluster of this pod is attached as `this-cluster`, by the pod's own account; "
        "empty: it is not.",
    )
    log_level: str = setting(
        "NEARLINE_LOG_LEVEL",
        "WARNING",
        "Least severe log event that is written.",
        Form("DEBUG, INFO, WARNING, ERROR or CRITICAL", _as_log_level),
    )
    sample: bool = setting("SAMPLE", "1", "0: the first start does not write and train on the sample dataset.")

    @property
    def is_embedded(self) -> bool:
        """Whether one process does everything, without a message broker."""
        return not self.broker_url

    @property
    def url(self) -> str:
        """The address under which the product is reached, without a slash at its end."""
        return (self.public_url or f"http://127.0.0.1:{self.port}").rstrip("/")

    @property
    def cookie_prefix(self) -> str:
        """What names of cookies begin with. With this one a browser takes them from no other host name, over https."""
        return "__Host-" if self.url.startswith("https://") else ""

    @property
    def port_pages_url(self) -> str:
        """The address below which ports of jobs have their host names; empty: they have none.

        Browsers find every name below `localhost` on their own machine (RFC 6761, 6.3).
        """
        url = urlsplit(self.url)
        is_own_machine = url.scheme == "http" and url.hostname in {"127.0.0.1", "localhost", "::1"}
        own = f"http://localhost:{url.port or 80}" if is_own_machine else ""
        return (self.jobs_url or own).rstrip("/")


def _as_path(text: str) -> Path:
    return Path(text).expanduser().absolute()


def _as_networks(text: str) -> Networks:
    return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())


def _as_texts(text: str) -> Mapping[str, str]:
    try:
        values = bounds.read_json(text or "{}")
    except InvalidInput as error:
        raise ValueError(text) from error
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        raise ValueError(text)
    return values


def _as_bool(text: str) -> bool:
    # Whoever writes "False" or "off" must not get the opposite: some of these open the platform's files to jobs.
    if (word := text.lower()) in {"1", "yes", "true", "on"}:
        return True
    if word in {"", "0", "no", "false", "off"}:
        return False
    raise ValueError(text)


_FORMS: Mapping[object, Form] = {
    Path: Form("a path", _as_path),
    bool: Form("0 or 1", _as_bool),
    str: Form("a text", str),
    Networks: Form("a list of networks such as 10.0.0.0/8", _as_networks),
    Mapping[str, str]: Form("a JSON object of texts", _as_texts),
    ProjectCreators: Form("admins or everyone", ProjectCreators),
}


def read(environ: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings; keys that are not set are made once and kept in the home folder with mode 0600.

    Raises SystemExit with one sentence for a value that makes no sense and a home that cannot be written.
    """
    values: dict[str, Any] = {}
    for item in fields(Settings):
        text = environ.get(item.metadata["variable"], item.metadata["default"])
        form = item.metadata["form"] or _FORMS[item.type]
        try:
            values[item.name] = form.read(text)
        except ValueError:
            value = f"'{_shortened(text)}', which is " if form.may_be_shown else ""
            raise SystemExit(f"{item.metadata['variable']} is {value}not {form.words}.") from None
    home = values["home"]
    try:
        values["secret_key"] = values["secret_key"] or _stored(home / "secret.key", lambda: secrets.token_urlsafe(48))
        values["secrets_key"] = values["secrets_key"] or _stored(
            home / "secrets.key", lambda: Fernet.generate_key().decode()
        )
        values["host_id"] = values["host_id"] or _stored(home / "host-id", lambda: secrets.token_hex(8))
    except OSError as error:
        raise SystemExit(
            f"The folder {home} cannot be written ({error.strerror}). Choose another with NEARLINE_HOME."
        ) from None
    return Settings(**values)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"


def _stored(path: Path, make: Callable[[], str]) -> str:
    """Return what the file holds; when there is none, make it first, whole or not at all."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(make())
        with contextlib.suppress(FileExistsError):
            os.link(unfinished, path)
        unfinished.unlink()
    return path.read_text()
