"""Stores that refuse a request that came too late in the same words as one that has no right."""

import pytest

from client.tests.fake_server import FakeServer
from nearline.errors import Denied, Unavailable
from nearline.transfer.remote.retry import Refusals, is_expired
from nearline.transfer.remote.server import SignedRequest

NOW = 1000.0
FRESH = SignedRequest("GET", "http://store/x", {}, expires_at=NOW + 900)
LATE = SignedRequest("GET", "http://store/x", {}, expires_at=NOW - 1)
UNSAID = SignedRequest("GET", "http://store/x", {})


def access_denied():
    return Denied("The store answered 403: AccessDenied: ", code="client.store_refused")


def is_found_late(refusals, name, request, error):
    try:
        with refusals.watch(name, request):
            raise error
    except Denied as raised:
        return is_expired(raised)


@pytest.mark.parametrize("request_", [FRESH, UNSAID])
def test_the_first_refusal_of_an_object_counts_as_late_and_the_second_stands(request_):
    refusals = Refusals(clock=lambda: NOW)

    assert is_found_late(refusals, "a", request_, access_denied())
    assert not is_found_late(refusals, "a", request_, access_denied())
    assert is_found_late(refusals, "b", request_, access_denied())


def test_an_address_that_the_server_signed_with_an_old_key_counts_as_late():
    refusals = Refusals(clock=lambda: NOW)
    refused = Denied("This store address was not signed here.", code="datasets.signature_invalid")

    assert [is_found_late(refusals, "a", FRESH, refused) for _ in range(2)] == [True, False]


def test_every_refusal_after_its_time_counts_as_late():
    refusals = Refusals(clock=lambda: NOW)

    assert [is_found_late(refusals, "a", LATE, access_denied()) for _ in range(3)] == [True] * 3


def test_what_was_let_in_once_may_be_late_again():
    refusals = Refusals(clock=lambda: NOW)
    is_found_late(refusals, "a", FRESH, access_denied())

    with refusals.watch("a", FRESH):
        pass

    assert is_found_late(refusals, "a", FRESH, access_denied())


@pytest.mark.parametrize("error", [Denied("no", code="client.clock_skew"), Unavailable("away")])
def test_other_failures_are_passed_on(error):
    with pytest.raises(type(error)) as raised, Refusals().watch("a", LATE):
        raise error

    assert raised.value is error


class LateStore(FakeServer):
    """Says of late requests what Ceph says."""

    def _send(self, request, body, byte_range):
        try:
            return super()._send(request, body, byte_range)
        except Denied as error:
            raise access_denied() from error


@pytest.fixture
def server(tmp_path):
    return LateStore(tmp_path / "server")


def test_a_sync_goes_on_with_new_requests_where_the_old_ones_are_refused_without_a_reason(folder, make_folder, server):
    def expire():
        server.signature_age += 1

    files = {f"{n:03}": bytes([n]) * 2000 for n in range(200)}
    server.fail("put", None, expire)
    folder.write(files).sync()
    server.fail("get", None, expire)
    other = make_folder("other")
    other.sync()

    assert other.files() == {name.encode(): content for name, content in files.items()}


def test_a_store_that_refuses_everything_ends_the_sync_with_its_refusal(folder, server):
    server.fail("put", *[access_denied() for _ in range(50)])

    with pytest.raises(Denied, match="AccessDenied") as raised:
        folder.write({"a": b"content"}).sync()

    assert raised.value.code == "client.store_refused"
    assert server.calls["put"] == 2
