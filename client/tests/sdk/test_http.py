"""Authentication, retries, and problems as exceptions."""

import json
from dataclasses import replace
from multiprocessing.context import set_spawning_popen

import httpx
import pytest

from client.tests.loopback import Answer, serve, write_certificate
from nearline import errors
from nearline._http import Http, api_policy, quoted
from nearline.resources.references import Reference
from nearline.resources.storage_routes import SyncRoutes
from nearline.transfer.remote.packing import Upload
from nearline.transfer.remote.server import ObjectKind

URL = "http://server"


class Script:
    """A server that answers what the test says, in order; the last answer is repeated."""

    def __init__(self, *answers) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        headers = answer[2] if len(answer) > 2 else None
        return httpx.Response(answer[0], content=json.dumps(answer[1]), headers=headers)


def connect(script, *, token="secret", waits=None, max_first_attempts=2, **policy) -> Http:
    sleep = [].append if waits is None else waits.append
    return Http(
        URL,
        token,
        transport=httpx.MockTransport(script),
        policy=replace(api_policy(), sleep=sleep, jitter=lambda: 1.0, clock=lambda: 0.0, **policy),
        max_first_attempts=max_first_attempts,
    )


def problem(status, code="some.code", hint="Do this.", **details):
    return (status, {"status": status, "code": code, "title": "It is so.", "hint": hint, "details": details})


def test_every_call_carries_the_token_and_goes_to_the_api():
    script = Script((200, {"a": 1}))

    answer = connect(script).get("/datasets", project="p", q=None)

    assert answer == {"a": 1}
    [request] = script.requests
    assert str(request.url) == "http://server/api/v1/datasets?project=p"
    assert request.headers["Authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    ("status", "kind", "exit_code"),
    [
        (400, errors.InvalidRequest, 2),
        (401, errors.NotSignedIn, 4),
        (403, errors.Denied, 4),
        (404, errors.NotFound, 3),
        (409, errors.Conflict, 5),
        (422, errors.QuotaExceeded, 6),
        (429, errors.Throttled, 7),
        (500, errors.ServerFailure, 1),
        (503, errors.Unavailable, 7),
    ],
)
def test_a_problem_becomes_the_exception_of_its_kind(status, kind, exit_code):
    http = connect(Script(problem(status, head="abc")), max_elapsed_s=0)

    with pytest.raises(errors.NearlineError) as raised:
        http.get("/x")

    error = raised.value
    assert (type(error), error.exit_code) == (kind, exit_code)
    assert (error.message, error.code, error.hint, error.details) == (
        "It is so.",
        "some.code",
        "Do this.",
        {"head": "abc"},
    )


@pytest.mark.parametrize("content", [b"null", b"[]", b"5", b"{}", b'{"items": 5}', b"[" * 100_000, b"9" * 5000, b"<p>"])
def test_an_answer_of_something_else_than_nearline_is_told_in_words(content):
    http = Http(URL, "secret", transport=httpx.MockTransport(lambda request: httpx.Response(200, content=content)))

    with pytest.raises(errors.ServerFailure, match=r"^http://server answered"):
        list(http.list_items("/projects"))


def test_a_failure_that_is_nested_without_end_is_told_in_words():
    answer = httpx.MockTransport(lambda request: httpx.Response(400, content=b"[" * 100_000))

    with pytest.raises(errors.ServerFailure, match="answered 400 in a form that Nearline does not use"):
        Http(URL, "secret", transport=answer).get("/projects")


@pytest.mark.parametrize(
    "url", ["http://[", "http://a\x01b", "http://a..b", "http://xn--a.invalid", f"http://{'a' * 64}"]
)
def test_an_address_that_is_none_is_refused_in_words(url):
    with pytest.raises(errors.InvalidRequest) as refused:
        Http(url, "secret")

    assert refused.value.message.startswith(f"'{url}' is no address of a server: ")


@pytest.mark.parametrize("url", ["http://[::1]:8000", "http://127.0.0.1", "https://é.example", "http://host_1.local."])
def test_addresses_of_all_kinds_are_taken(url):
    assert Http(url, "secret").url == url


def test_a_name_that_no_address_can_hold_is_refused_in_words():
    with pytest.raises(errors.InvalidRequest, match="has no possible address: URL too long") as refused:
        Http("http://server", "secret").get("/datasets" + quoted("a" * 100_000))

    assert refused.value.hint.startswith("Use shorter names. ")


def test_reads_are_repeated_while_the_server_is_busy_with_growing_waits():
    waits = []
    script = Script(problem(503), problem(502), (200, {"ok": True}))

    assert connect(script, waits=waits).get("/x") == {"ok": True}
    assert waits == [0.5, 1.0]


def test_the_server_says_itself_how_long_to_wait():
    waits = []
    script = Script((*problem(429), {"Retry-After": "3"}), (200, {}))

    connect(script, waits=waits).get("/x")

    assert waits == [3.0]


def test_what_was_not_taken_up_is_sent_again_until_it_is_even_a_write():
    waits = []
    refused = (*problem(429, "core.too_many_requests"), {"Retry-After": "2"})
    script = Script(*[refused] * 9, (200, {"ok": True}))

    assert connect(script, waits=waits).post("/x", {}) == {"ok": True}
    assert sum(waits) > 30, "longer than a server that is away is waited for"


def test_other_limits_of_a_write_are_not_waited_for():
    script = Script((*problem(429, "accounts.too_many_attempts"), {"Retry-After": "2"}))

    with pytest.raises(errors.Throttled):
        connect(script).post("/x", {})

    assert len(script.requests) == 1


def test_a_write_that_may_have_arrived_is_not_repeated():
    script = Script(problem(503))

    with pytest.raises(errors.Unavailable):
        connect(script).post("/x", {})

    assert len(script.requests) == 1


def test_a_write_that_was_cut_off_is_not_repeated():
    script = Script(httpx.ReadTimeout("slow"))

    with pytest.raises(errors.Unavailable):
        connect(script).post("/x", {})

    assert len(script.requests) == 1


def test_a_write_that_never_left_is_repeated():
    script = Script(httpx.ConnectError("refused"), (201, {"id": "1"}))

    assert connect(script).post("/x", {}) == {"id": "1"}


def test_a_write_that_may_be_sent_twice_is_repeated():
    script = Script(httpx.ReadTimeout("slow"), httpx.ReadTimeout("slow"), (201, {"id": "1"}))

    assert connect(script, max_first_attempts=5).post("/x", {}, may_repeat=True) == {"id": "1"}


def test_a_server_never_heard_of_is_given_up_soon():
    script = Script(httpx.ConnectError("refused"))

    with pytest.raises(errors.Unavailable, match="Cannot reach http://server: refused"):
        connect(script).get("/x")

    assert len(script.requests) == 2


@pytest.mark.parametrize(
    ("has_long_retries", "waits"),
    [(False, [0.5, 1.0, 2.0, 4.0, 8.0]), (True, [0.5, 1.0, 2.0, 4.0, 8.0, *[15.0] * 38])],
)
def test_a_server_that_answered_before_is_waited_for_and_for_longer_by_transfers(has_long_retries, waits):
    slept, told = [], []
    script = Script((200, {}), httpx.ConnectError("refused"))
    http = connect(script, waits=slept, on_wait=told.append)
    http.get("/x")

    with pytest.raises(errors.Unavailable):
        (http.with_long_retries() if has_long_retries else http).get("/x")

    assert slept == waits
    assert {wait.reason for wait in told} == {"Cannot reach http://server: refused."}
    assert {wait.limit_s for wait in told} == {600.0 if has_long_retries else 30.0}
    assert [wait.waited_s for wait in told[:4]] == [0.0, 0.5, 1.5, 3.5]


def test_an_error_page_of_what_stands_before_the_server_is_waited_out():
    answers = [httpx.Response(502, text="<html>nginx</html>"), httpx.Response(200, json={"ok": True})]

    assert connect(lambda _request: answers.pop(0)).get("/x") == {"ok": True}


def test_an_answer_that_is_not_ours_says_to_check_the_address():
    def some_page(_request):
        return httpx.Response(404, text="<html>nginx</html>")

    with pytest.raises(errors.ServerFailure, match="answered 404") as raised:
        connect(some_page).get("/x")

    assert "NEARLINE_URL" in raised.value.hint


def test_a_list_is_read_page_by_page():
    pages = {None: ([1, 2], "a"), "a": ([3], None)}

    def answer(request):
        items, following = pages[request.url.params.get("cursor")]
        return httpx.Response(200, json={"items": items, "next_cursor": following})

    assert list(connect(answer).list_items("/x")) == [1, 2, 3]
    assert list(connect(answer).list_items("/x", limit=2)) == [1, 2]


def test_names_cannot_leave_their_place_in_a_path():
    assert quoted("a", "../b c/d") == "/a/..%2Fb%20c%2Fd"


def test_a_broken_stream_is_an_error_and_not_a_short_file():
    class Breaking(httpx.SyncByteStream):
        def __iter__(self):
            yield b"half"
            raise httpx.ReadError("gone")

    http = connect(lambda _request: httpx.Response(200, stream=Breaking()))

    with pytest.raises(errors.Unavailable, match="broke in the middle"), http.stream("/x") as pieces:
        list(pieces)


def test_errors_survive_the_way_between_processes():
    import pickle

    error = errors.Conflict("It moved.", code="datasets.stale_parent", hint="Again.", details={"head": "a"})

    copy = pickle.loads(pickle.dumps(error))

    assert (type(copy), copy.to_json()) == (errors.Conflict, error.to_json())
    assert json.dumps(copy.to_json())


def test_a_server_whose_certificate_nobody_signed_is_refused(tmp_path):
    certificate = write_certificate(tmp_path / "server.pem", "127.0.0.1")

    with (
        serve(lambda _: Answer(), certificate=certificate) as server,
        pytest.raises(errors.Unavailable, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        Http(server.url, "secret", policy=replace(api_policy(), sleep=[].append)).get("/me")

    assert server.requests == []


def test_names_that_are_no_text_travel_as_the_bytes_that_they_are():
    script = Script((200, {"path": "a\udcffb"}))

    answer = connect(script).get("/files" + quoted("a\udcffb"), path="a\udcffb c")

    assert script.requests[0].url.raw_path == b"/api/v1/files/a%FFb?path=a%FFb%20c"
    assert answer["path"] == "a\udcffb"


def test_an_upload_says_the_md5_of_bodies_only_where_the_store_asks_for_it():
    asked = []

    def server(request):
        asked.append(json.loads(request.content))
        if request.url.path.endswith("/uploads"):
            answer = {"id": "up_1", "branch": "main", "head": None, "root": None, "put_proof": "content-md5"}
        else:
            answer = {"items": []}
        return httpx.Response(200, content=json.dumps(answer))

    routes = SyncRoutes(connect(server), Reference("team", "data"))
    upload = Upload(lambda: routes.start_upload("main", "laptop"))
    offer = upload.offer(ObjectKind.PACK, "ab" * 32, b"body")
    routes.offer_packs(upload.id, [offer])
    routes.offer_packs(upload.id, [replace(offer, md5=None)])

    plain = {"sha256": "ab" * 32, "size_bytes": 4}
    assert asked[1:] == [{"packs": [{**plain, "md5": "hBotaJrYa9FhFEdFPCLG/A=="}]}, {"packs": [plain]}]


@pytest.mark.parametrize("token", ["\u00e9", "nl_a\nb", "nl_a\r"])
def test_a_token_that_no_header_can_hold_is_refused_without_being_shown(token):
    with pytest.raises(errors.InvalidRequest) as refused:
        Http(URL, token)

    assert token not in str(refused.value)


def test_only_a_process_that_this_one_starts_gets_the_token():
    http = Http("http://127.0.0.1:1", "secret")

    assert http.pickled() == ("http://127.0.0.1:1", None)
    set_spawning_popen(object())
    try:
        assert http.pickled() == ("http://127.0.0.1:1", "secret")
    finally:
        set_spawning_popen(None)
