"""Whose word about the client's address, scheme and host is taken."""

import asyncio

import pytest
from cryptography.fernet import Fernet

from config import env
from config.proxies import with_proxies

KEYS = {"NEARLINE_SECRET_KEY": "k", "NEARLINE_SECRETS_KEY": Fernet.generate_key().decode()}
PROXY, CLIENT = "10.1.0.9", "203.0.113.5"


def seen_behind(trusted, headers, *, peer=PROXY, scope_type="http", scheme="http"):
    """Return client address, scheme and host as the application sees them."""
    seen = []

    async def application(scope, _receive, _send):
        hosts = [value.decode() for name, value in scope["headers"] if name == b"host"]
        seen.append((scope["client"][0], scope["scheme"], hosts))

    pairs = [(name.lower().encode(), value.encode()) for name, value in [("Host", "inside:8000"), *headers]]
    scope = {"type": scope_type, "client": (peer, 1), "scheme": scheme, "headers": pairs}
    networks = env.read({"NEARLINE_TRUSTED_PROXIES": trusted, **KEYS})
    asyncio.run(with_proxies(application, networks.trusted_proxies)(scope, None, None))
    return seen[0]


FORWARDED = [("X-Forwarded-For", CLIENT), ("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "nearline.example.org")]


def test_nobody_is_believed_by_default_not_even_on_the_same_machine():
    assert seen_behind("", FORWARDED, peer="127.0.0.1") == ("127.0.0.1", "http", ["inside:8000"])


def test_a_trusted_proxy_is_believed():
    assert seen_behind("10.1.0.0/16", FORWARDED) == (CLIENT, "https", ["nearline.example.org"])


@pytest.mark.parametrize("scheme", ["https", "wss"])
def test_a_trusted_proxy_is_believed_of_a_web_socket_too(scheme):
    headers = [*FORWARDED[::2], ("X-Forwarded-Proto", scheme)]

    seen = seen_behind("10.1.0.0/16", headers, scope_type="websocket", scheme="ws")

    assert seen == (CLIENT, "wss", ["nearline.example.org"])


def test_an_address_outside_of_the_trusted_networks_is_not_believed():
    assert seen_behind("10.1.0.0/16", FORWARDED, peer="10.2.0.9") == ("10.2.0.9", "http", ["inside:8000"])


@pytest.mark.parametrize(
    ("chain", "client"),
    [
        (["6.6.6.6, 203.0.113.5"], CLIENT),  # what the client itself wrote stands before
        (["6.6.6.6, 203.0.113.5, 10.1.0.7"], CLIENT),  # two trusted proxies
        (["6.6.6.6", "203.0.113.5"], CLIENT),  # one header line for each
        (["10.1.0.7"], "10.1.0.7"),  # a client inside of the network
        (["nonsense"], PROXY),
        (["nonsense, 203.0.113.5"], CLIENT),
        ([""], PROXY),
    ],
)
def test_the_client_is_the_last_address_that_is_no_trusted_proxy(chain, client):
    assert seen_behind("10.1.0.0/16", [("X-Forwarded-For", line) for line in chain])[0] == client


def test_a_scheme_that_does_not_exist_is_not_believed():
    assert seen_behind("10.1.0.0/16", [("X-Forwarded-Proto", "gopher")])[1] == "http"


def test_networks_that_make_no_sense_end_the_start_with_one_sentence():
    with pytest.raises(SystemExit) as end:
        env.read({"NEARLINE_TRUSTED_PROXIES": "10.0.0.1/8"})

    assert str(end.value) == (
        "NEARLINE_TRUSTED_PROXIES is '10.0.0.1/8', which is not a list of networks such as 10.0.0.0/8."
    )
