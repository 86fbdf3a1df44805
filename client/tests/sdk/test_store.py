"""Bodies to and from a store: headers, parts, refusals, proxies, certificates, connections, and what breaks off."""

import base64
import json
import threading

import pytest

from client.tests.loopback import Answer, serve, write_certificate
from nearline import errors
from nearline._store import StoreConnections

BODY = bytes(range(256)) * 4096  # several pieces


@pytest.fixture
def store():
    connections = StoreConnections()
    yield connections
    connections.close()


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def allocate(size):
    return memoryview(bytearray(size))


def always(*args, **kwargs):
    return lambda _request: Answer(*args, **kwargs)


def s3(code, message, resource="/bucket/key"):
    """What an S3 server says of a request that it refuses."""
    head = '<?xml version="1.0" encoding="UTF-8"?>'
    return f"{head}<Error><Code>{code}</Code><Message>{message}</Message><Resource>{resource}</Resource></Error>"


def test_a_body_arrives_whole_with_the_signed_headers_and_without_our_token(store):
    with serve(always()) as server:
        store.send("PUT", f"{server.url}/x?signature=1", {"x-check": "1"}, bytearray(BODY))

    [request] = server.requests
    assert (request.method, request.target, request.body) == ("PUT", "/x?signature=1", BODY)
    assert (request.headers["X-Check"], request.headers["Content-Length"]) == ("1", str(len(BODY)))
    assert not {"Authorization", "Transfer-Encoding"} & request.headers.keys()


def test_a_body_may_be_given_in_parts(store):
    with serve(always()) as server:
        store.send("PUT", f"{server.url}/x", {}, BODY, b"", bytearray(b"end"))

    [request] = server.requests
    assert (request.body, request.headers["Content-Length"]) == (BODY + b"end", str(len(BODY) + 3))


def test_a_length_that_was_signed_is_said_once(store):
    with serve(always()) as server:
        store.send("PUT", f"{server.url}/x", {"content-length": "4"}, b"data")

    assert [value for name, value in server.requests[0].headers.items() if name.lower() == "content-length"] == ["4"]


def test_an_object_is_read_into_the_memory_that_was_given(store):
    memory = bytearray(2 * len(BODY))

    with serve(always(body=BODY)) as server:
        content = store.receive("GET", f"{server.url}/x", {}, lambda size: memoryview(memory)[:size])

    assert content == BODY
    assert content.obj is memory


def test_a_part_is_asked_for_and_cut_out_where_the_store_sends_all(store):
    with serve(lambda r: Answer(206, BODY[2:5]) if r.target == "/part" else Answer(200, BODY)) as server:
        part = store.receive("GET", f"{server.url}/part", {}, allocate, byte_range=(2, 3))
        cut = store.receive("GET", f"{server.url}/all", {}, allocate, byte_range=(300_000, 3))

    assert (bytes(part), bytes(cut)) == (BODY[2:5], BODY[300_000:300_003])
    assert [request.headers["Range"] for request in server.requests] == ["bytes=2-4", "bytes=300000-300002"]


def test_a_part_of_an_object_that_is_too_short_is_what_is_there(store):
    with serve(always(206, b"ab")) as server:
        assert bytes(store.receive("GET", f"{server.url}/x", {}, allocate, byte_range=(0, 9))) == b"ab"


def test_an_answer_that_breaks_off_is_worth_another_attempt(store):
    with serve(always(body=b"half", length=8)) as server, pytest.raises(errors.Unavailable) as raised:
        store.receive("GET", f"{server.url}/x", {}, allocate)

    assert raised.value.message.startswith(f"Cannot reach {server.url}: ")


def test_a_store_that_does_not_answer_is_given_up():
    released = threading.Event()

    def wait(_request):
        released.wait(60)
        return Answer()

    with serve(wait) as server:
        with pytest.raises(errors.Unavailable, match="it did not answer in time"):
            StoreConnections(answer_s=0.05).receive("GET", f"{server.url}/x", {}, allocate)
        released.set()


def test_a_store_that_is_not_there_is_named_with_the_reason(store):
    with pytest.raises(errors.Unavailable) as raised:
        store.receive("GET", "http://127.0.0.1:1/x", {}, allocate)

    assert raised.value.message == "Cannot reach http://127.0.0.1:1: Connection refused."


def test_requests_follow_each_other_on_one_connection(store):
    with serve(lambda r: Answer(200, BODY if r.method == "GET" else b"thank you")) as server:
        for _ in range(3):
            store.send("PUT", f"{server.url}/x", {}, BODY)
            store.receive("GET", f"{server.url}/x", {}, allocate)

    assert len({request.connection for request in server.requests}) == 1


def test_what_is_left_of_an_answer_is_not_taken_for_the_next_one(store):
    with serve(lambda r: Answer(200, BODY if r.target == "/long" else b"next")) as server:
        store.receive("GET", f"{server.url}/long", {}, allocate, byte_range=(0, 3))
        assert bytes(store.receive("GET", f"{server.url}/next", {}, allocate)) == b"next"


@pytest.mark.parametrize(
    ("status", "body", "kind", "code"),
    [
        (
            403,
            json.dumps({"title": "Late.", "code": "datasets.signature_expired"}),
            errors.Denied,
            "datasets.signature_expired",
        ),
        (403, "Request has expired", errors.Denied, "datasets.signature_expired"),
        (403, "SignatureDoesNotMatch", errors.Denied, "client.store_refused"),
        (403, s3("AccessDenied", "Request has expired."), errors.Denied, "datasets.signature_expired"),
        (400, s3("ExpiredToken", "The provided token is no good."), errors.Denied, "datasets.signature_expired"),
        (403, s3("AccessDenied", "Access Denied."), errors.Denied, "client.store_refused"),
        (403, s3("AccessDenied", ""), errors.Denied, "client.store_refused"),
        (403, s3("SignatureDoesNotMatch", "", "/expired/key"), errors.Denied, "client.store_refused"),
        (403, s3("RequestTimeTooSkewed", "The difference is too large."), errors.Denied, "client.clock_skew"),
        (403, s3("AccessDenied", "Request is not valid yet"), errors.Denied, "client.clock_skew"),
        (404, "NoSuchKey", errors.NotFound, "client.store_refused"),
        (507, '{"title": "The disk is full.", "code": "core.storage_full"}', errors.ServerFailure, "core.storage_full"),
        (500, "InternalError", errors.Unavailable, "client.store_busy"),
        (503, "SlowDown", errors.Unavailable, "client.store_busy"),
        (302, "", errors.ServerFailure, "client.store_refused"),
    ],
)
def test_a_request_is_tried_once_and_its_refusal_has_a_kind(store, status, body, kind, code):
    with serve(always(status, body.encode(), {"Location": "/elsewhere"})) as server:
        with pytest.raises(errors.NearlineError) as sent:
            store.send("PUT", f"{server.url}/x", {}, b"data")
        with pytest.raises(errors.NearlineError) as received:
            store.receive("GET", f"{server.url}/x", {}, allocate)

    assert [(type(raised.value), raised.value.code) for raised in (sent, received)] == [(kind, code)] * 2
    assert [request.target for request in server.requests] == ["/x", "/x"]


def test_a_proxy_of_the_environment_carries_requests_to_other_machines(store, monkeypatch):
    with serve(always(body=b"by proxy")) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.replace("http://", "http://me:pass%20word@"))

        content = store.receive("GET", "http://127.0.0.2:1/x", {}, allocate)

    [request] = proxy.requests
    assert (bytes(content), request.target) == (b"by proxy", "http://127.0.0.2:1/x")
    assert request.headers["Proxy-Authorization"] == "Basic " + base64.b64encode(b"me:pass word").decode()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
def test_no_proxy_stands_before_this_machine_or_who_is_excepted(store, monkeypatch, host):
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.2")

    with serve(always(body=b"directly"), host=host) as server:
        assert bytes(store.receive("GET", f"{server.url}/x", {}, allocate)) == b"directly"


def test_tls_goes_through_a_proxy_and_is_checked_by_the_certificates_of_the_environment(store, monkeypatch, tmp_path):
    certificate = write_certificate(tmp_path / "store.pem", "127.0.0.2")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))

    with serve(always(body=BODY), host="127.0.0.2", certificate=certificate) as server, serve(always()) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        content = bytes(store.receive("GET", f"{server.url}/x", {}, allocate))
        store.send("PUT", f"{server.url}/x", {}, BODY)

    assert content == BODY
    assert server.requests[1].body == BODY
    assert [(request.method, request.target) for request in proxy.requests] == [
        ("CONNECT", server.url.removeprefix("https://"))
    ]


def test_a_store_whose_certificate_nobody_signed_is_refused_and_not_tried_again(store, tmp_path):
    certificate = write_certificate(tmp_path / "store.pem", "127.0.0.1")

    with (
        serve(always(), certificate=certificate) as server,
        pytest.raises(errors.Failed, match="not trusted") as raised,
    ):
        store.send("PUT", f"{server.url}/x", {}, b"data")

    assert raised.value.code == "client.untrusted_store"
    assert "SSL_CERT_FILE" in raised.value.hint
    assert server.requests == []
