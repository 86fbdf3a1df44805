"""Pages that jobs serve at host names of their own: who is let in, what both sides see, and what is refused."""

import asyncio
import json
import re
import threading
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest
import uvicorn
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator
from django.db import OperationalError

from accounts.models import AuditEntry, User
from accounts.services import access
from compute.adapters import job_tokens
from compute.adapters.job_tokens import Claims
from compute.adapters.local.sockets import TcpConnection
from compute.engine.port_hosts import PortHost
from compute.errors import JobNotFound, PortRefused
from compute.models import Job, Resource
from compute.services import connections
from compute.web.port_pages_asgi import with_port_pages
from compute.web.port_site import PortSite, status_for_browser
from tests.factories.api import call

pytestmark = pytest.mark.django_db(transaction=True)

LIMIT_S = 300
JSON = [(b"content-type", b"application/json")]


async def job_server(scope, receive, send):
    """What a job serves: each request told as JSON, and some answers that are harder to carry."""
    if scope["type"] == "websocket":
        await serve_echo(scope, receive, send)
        return
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message["body"]
        if not message["more_body"]:
            break
    headers = {name.decode(): value.decode() for name, value in scope["headers"]}
    said = {"method": scope["method"], "target": (scope["raw_path"] + b"?" + scope["query_string"]).decode()}
    answer = json.dumps({**said, "headers": headers, "body": body.decode()}).encode()
    extra = JSON
    if scope["path"] == "/moved":
        extra = [(b"location", f"http://{headers['host']}/lab?a=1".encode())]
    if scope["path"] == "/cookie":
        extra = [*JSON, (b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")]
    await send({"type": "http.response.start", "status": 302 if scope["path"] == "/moved" else 200, "headers": extra})
    await send({"type": "http.response.body", "body": answer, "more_body": scope["path"] == "/endless"})
    if scope["path"] == "/endless":
        while (await receive())["type"] != "http.disconnect":
            pass


async def serve_echo(scope, receive, send):
    await receive()
    if scope["path"] == "/refused":
        await send({"type": "websocket.close", "code": 1008})
        return
    headers = {name.decode(): value.decode() for name, value in scope["headers"]}
    subprotocol = scope["subprotocols"][0] if scope["subprotocols"] else None
    await send({"type": "websocket.accept", "subprotocol": subprotocol})
    await send({"type": "websocket.send", "text": json.dumps([scope["path"], headers])})
    while (message := await receive())["type"] == "websocket.receive":
        if message.get("text") == "much":
            await send({"type": "websocket.send", "bytes": bytes(40 << 20)})
            continue
        if message.get("text") == "end":
            await send({"type": "websocket.close", "code": 4001})
            return
        await send({**message, "type": "websocket.send"})


@pytest.fixture(scope="module")
def server_port():
    server = uvicorn.Server(uvicorn.Config(job_server, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        thread.join(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join()


@pytest.fixture(autouse=True)
def reached(driver, server_port, monkeypatch):
    """Let every port but 1 lead to the server."""
    refuse = driver.open_port

    async def open_port(name, rank, port):
        if port == 1:
            return await refuse(name, rank, port)
        return TcpConnection(*await asyncio.open_connection("127.0.0.1", server_port))

    monkeypatch.setattr(driver, "open_port", open_port)


async def platform(scope, receive, send):
    """What the platform answers at its own host names."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"the platform", "more_body": False})


PAGES = with_port_pages(platform, "http://jobs.test:8000", "http://platform.test")


@pytest.fixture
def host(running) -> PortHost:
    return PortHost(running.pk, 0, 8888)


@pytest.fixture
def cookie(member, running) -> bytes:
    claims = Claims(member.user_id, running.pk, "train", 0, port=8888)
    return f"theirs=1; nearline-port={job_tokens.sign_pass(claims)}; more=2".encode()


def scope_of(host, path, *, kind="http", method="GET", headers=(), **more) -> dict:
    path, _, query = path.partition("?")
    name = host if isinstance(host, str) else f"{host.label}.jobs.test:8000"
    return {
        "type": kind,
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", name.encode()), *headers],
        "client": ("127.0.0.1", 1),
        **more,
    }


def ask(host, path="/", *, body=b"", pages=PAGES, **facts) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Send a request and return status, headers and body of the answer."""

    async def talk():
        browser = ApplicationCommunicator(pages, scope_of(host, path, **facts))
        await browser.send_input({"type": "http.request", "body": body, "more_body": False})
        begin = await browser.receive_output(LIMIT_S)
        data, has_more = b"", True
        while has_more:
            message = await browser.receive_output(LIMIT_S)
            data, has_more = data + message["body"], message["more_body"]
        await browser.wait(LIMIT_S)
        return begin["status"], begin["headers"], data

    return async_to_sync(talk)()


def see(answer) -> dict:
    status, _, body = answer
    assert status == 200, body
    return json.loads(body)


def test_other_host_names_are_the_platforms():
    for name in ("platform.test", "jobs.test:8000", "8888-0-x.other.test", "", "[", "[::1]:8000", "a:b"):
        assert ask(name)[2] == b"the platform"


def test_without_an_address_ports_have_no_host_names():
    assert with_port_pages(platform, "", "http://platform.test") is platform


def test_a_request_reaches_the_job_as_one_of_its_own_machine(host, cookie):
    headers = [(b"cookie", cookie), (b"authorization", b"token abc"), (b"x-forwarded-for", b"1.2.3.4")]
    headers += [(b"referer", f"http://{host.label}.jobs.test:8000/lab".encode()), (b"connection", b"keep-alive")]

    said = see(ask(host, "/lab/tree/a%2Fb?x=%20y", headers=headers))

    assert (said["method"], said["target"]) == ("GET", "/lab/tree/a%2Fb?x=%20y")
    assert said["headers"] == {
        "host": "localhost:8888",
        "cookie": "theirs=1; more=2",
        "authorization": "token abc",
        "referer": "http://localhost:8888/lab",
        "x-forwarded-host": f"{host.label}.jobs.test:8000",
        "x-forwarded-proto": "http",
        "connection": "close",
    }


LENGTH, CHUNKS = (b"content-length", b"5"), (b"transfer-encoding", b"chunked")


@pytest.mark.parametrize("framing", [[LENGTH], [CHUNKS], [(b"content-length", b"2"), CHUNKS]])
def test_a_body_is_passed_on(host, cookie, framing):
    origin = (b"origin", f"http://{host.label}.jobs.test:8000".encode())

    said = see(ask(host, "/api", method="POST", body=b"hello", headers=[(b"cookie", cookie), origin, *framing]))

    assert (said["method"], said["body"]) == ("POST", "hello")
    assert said["headers"]["origin"] == "http://localhost:8888"


def test_redirects_stay_at_the_host_name_and_all_cookies_are_set(host, cookie):
    status, moved, _ = ask(host, "/moved", headers=[(b"cookie", cookie)])
    _, headers, _ = ask(host, "/cookie", headers=[(b"cookie", cookie)])

    assert (status, dict(moved)[b"location"]) == (302, b"/lab?a=1")
    assert [value for name, value in headers if name == b"set-cookie"] == [b"a=1", b"b=2"]


def test_no_header_of_an_answer_is_for_other_hosts_or_for_the_connection():
    site = PortSite("https", "8888-0-x.jobs.test", 8888, "pass")
    headers = [(b"Clear-Site-Data", b'"cookies"'), (b"Content-Length", b"2"), (b"Transfer-Encoding", b"chunked")]

    assert site.headers_for_browser([*headers, (b"ETag", b"1")]) == [(b"etag", b"1")]


def test_a_status_that_servers_do_not_know_becomes_the_general_one_of_its_class():
    assert [status_for_browser(status) for status in (204, 299, 419, 599, 999)] == [204, 200, 400, 500, 502]


def test_an_answer_without_end_ends_when_the_browser_leaves(host, cookie):
    async def talk():
        browser = ApplicationCommunicator(PAGES, scope_of(host, "/endless", headers=[(b"cookie", cookie)]))
        await browser.send_input({"type": "http.request", "body": b"", "more_body": False})
        assert (await browser.receive_output(LIMIT_S))["status"] == 200
        assert (await browser.receive_output(LIMIT_S))["more_body"]
        await browser.send_input({"type": "http.disconnect"})
        await browser.wait(LIMIT_S)

    async_to_sync(talk)()


def test_a_browser_without_a_pass_is_sent_to_the_platform_and_comes_back_with_one(host, member, client, settings):
    page = [(b"accept", b"text/html"), (b"sec-fetch-dest", b"document"), (b"sec-fetch-site", b"cross-site")]

    status, headers, _ = ask(host, "/lab?a=1&b=2", headers=page)
    client.force_login(User.objects.get(pk=member.user_id))
    ticket = client.get(dict(headers)[b"location"].decode().removeprefix("http://platform.test"))
    entry = urlsplit(ticket["Location"])
    entered, set_headers, _ = ask(host, f"{entry.path}?{entry.query}", headers=page)
    cookie = dict(set_headers)[b"set-cookie"].partition(b";")[0]

    assert (status, ticket.status_code, entered) == (303, 302, 303)
    assert entry.netloc == f"{host.label}.localhost:8000"
    assert dict(set_headers)[b"location"] == b"/lab?a=1&b=2"
    assert b"HttpOnly; SameSite=Lax" in dict(set_headers)[b"set-cookie"]
    assert see(ask(host, "/lab", headers=[*page, (b"cookie", cookie)]))["target"] == "/lab?"
    assert list(AuditEntry.objects.filter(action="compute.open_port").values_list("target_name", flat=True)) == [
        "train"
    ]


def test_what_is_no_page_gets_no_answer_without_a_pass(host):
    assert ask(host, "/api/kernels", method="POST")[0] == 401
    assert ask(host, "/style.css", headers=[(b"accept", b"text/css")])[0] == 401


def test_over_https_the_pass_is_a_cookie_of_this_host_name_alone(host, member, running):
    pages = with_port_pages(platform, "https://jobs.test", "https://platform.test")
    ticket = connections.offer_port(actor=member, job=running, port=8888).text

    _, headers, _ = ask(f"{host.label}.jobs.test", f"/.nearline/enter?ticket={ticket}", pages=pages)

    assert dict(headers)[b"set-cookie"].startswith(b"__Host-nearline-port=")
    assert dict(headers)[b"set-cookie"].endswith(b"; Secure")


@pytest.mark.parametrize("path", ["//evil.test", "/\\evil.test", "http://evil.test", "", "/a\r\nx: y"])
def test_a_ticket_leads_to_no_other_host(host, member, running, path):
    ticket = connections.offer_port(actor=member, job=running, port=8888).text
    quoted = path.replace("\r", "%0d").replace("\n", "%0a")

    _, headers, _ = ask(host, f"/.nearline/enter?ticket={ticket}&path={quoted}")

    assert dict(headers)[b"location"] == b"/"


@pytest.mark.parametrize("end", ["signed out", "new password", "disabled for a while"])
def test_a_pass_ends_with_the_sessions_of_its_person_and_a_ticket_of_a_program_does_not(
    host, member, site_admin, running, end
):
    ticket = connections.offer_port(actor=member, job=running, port=8888).text
    _, headers, _ = ask(host, f"/.nearline/enter?ticket={ticket}")
    cookie = [(b"cookie", dict(headers)[b"set-cookie"].partition(b";")[0])]
    assert ask(host, "/api", headers=cookie)[0] == 200

    if end == "signed out":
        access.sign_out_everywhere(actor=member, username=member.name)
    elif end == "new password":
        user = User.objects.get(pk=member.user_id)
        user.set_password("a new long password")
        user.save()
    else:
        access.disable_person(actor=site_admin, username=member.name)
        access.enable_person(actor=site_admin, username=member.name)

    assert ask(host, "/api", headers=cookie)[0] == 401
    assert connections.redeem(actor=member, claims=job_tokens.read_ticket(ticket))


def test_a_pass_is_for_one_port_alone(running, cookie):
    other = PortHost(running.pk, 0, 8889)

    assert ask(other, "/api", method="POST", headers=[(b"cookie", cookie)])[0] == 401


def test_a_ticket_is_for_one_port_alone_and_is_no_pass(host, member, running):
    ticket = connections.offer_port(actor=member, job=running, port=8889).text
    cookie = (b"cookie", f"nearline-port={ticket}".encode())

    assert ask(host, f"/.nearline/enter?ticket={ticket}")[0] == 401
    assert ask(PortHost(running.pk, 0, 8889), "/api", method="POST", headers=[cookie])[0] == 401


@pytest.mark.parametrize(
    "headers",
    [
        [(b"origin", b"http://evil.test")],
        [(b"origin", b"null")],
        [(b"sec-fetch-site", b"cross-site"), (b"sec-fetch-dest", b"image")],
        [(b"sec-fetch-site", b"same-site"), (b"sec-fetch-dest", b"script")],
        [(b"sec-fetch-site", b"cross-site"), (b"sec-fetch-dest", b"iframe")],
    ],
)
def test_a_page_of_another_host_name_gets_nothing_with_the_pass_of_a_person(host, cookie, headers):
    assert ask(host, "/", headers=[(b"cookie", cookie), *headers])[0] == 403


def test_who_may_not_any_more_gets_nothing(host, cookie, member):
    User.objects.filter(pk=member.user_id).update(is_active=False)

    assert ask(host, headers=[(b"cookie", cookie)])[0] == 401


def test_a_database_that_is_away_is_told_in_words(host, cookie, monkeypatch):
    class Away(Exception):
        sqlstate = None

    def refuse(**_):
        raise OperationalError("connection refused") from Away()

    monkeypatch.setattr(connections, "redeem", refuse)

    status, _, page = ask(host, headers=[(b"cookie", cookie)])

    assert status == 503
    assert b"The server&#x27;s database does not answer." in page


def test_a_job_that_has_ended_says_so(host, cookie, running):
    Job.objects.filter(pk=running.pk).update(state="succeeded")

    status, _, page = ask(host, headers=[(b"cookie", cookie)])

    assert status == 409
    assert b"does not run: it is succeeded" in page
    assert f"http://platform.test/ports/{host.label}/".encode() in page


def test_a_server_that_is_starting_is_looked_for_again(member, running):
    claims = Claims(member.user_id, running.pk, "train", 0, port=1)
    cookie = f"nearline-port={job_tokens.sign_pass(claims)}".encode()

    status, _, page = ask(PortHost(running.pk, 0, 1), headers=[(b"cookie", cookie)])

    assert status == 409
    assert b'http-equiv="refresh"' in page


@pytest.mark.parametrize("label", ["nonsense", "0-0-" + "a" * 20, "70000-0-" + "a" * 20, "8888--" + "a" * 20, "a.b"])
def test_a_host_name_of_no_port_is_the_platforms_to_answer(label):
    assert ask(f"{label}.jobs.test:8000")[2] == b"the platform"


@asynccontextmanager
async def websocket(host, path="/api", *, headers=(), subprotocols=()):
    browser = ApplicationCommunicator(
        PAGES, scope_of(host, path, kind="websocket", headers=headers, subprotocols=list(subprotocols))
    )
    await browser.send_input({"type": "websocket.connect"})
    try:
        yield browser
    finally:
        with suppress(asyncio.CancelledError):
            await browser.send_input({"type": "websocket.disconnect", "code": 1001})
            await browser.wait(LIMIT_S)


def test_messages_of_a_websocket_are_carried_both_ways(host, cookie):
    origin = (b"origin", f"http://{host.label}.jobs.test:8000".encode())
    headers = [(b"cookie", cookie), origin, (b"user-agent", b"Browser"), (b"sec-websocket-key", b"abc")]

    async def talk():
        async with websocket(host, "/api/a%20b?c=d", headers=headers, subprotocols=["v1.kernel"]) as browser:
            accepted = await browser.receive_output(LIMIT_S)
            path, seen = json.loads((await browser.receive_output(LIMIT_S))["text"])
            await browser.send_input({"type": "websocket.receive", "text": "größe"})
            text = await browser.receive_output(LIMIT_S)
            await browser.send_input({"type": "websocket.receive", "bytes": b"\x00" * 3_000_000})
            data = await browser.receive_output(LIMIT_S)
            await browser.send_input({"type": "websocket.receive", "text": "end"})
            return accepted, path, seen, text["text"], len(data["bytes"]), await browser.receive_output(LIMIT_S)

    accepted, path, seen, text, size, closed = async_to_sync(talk)()

    assert accepted["subprotocol"] == "v1.kernel"
    assert (path, text, size) == ("/api/a b", "größe", 3_000_000)
    assert (seen["host"], seen["origin"], seen["user-agent"]) == ("localhost:8888", "http://localhost:8888", "Browser")
    assert seen["cookie"] == "theirs=1; more=2"
    assert (closed["type"], closed["code"]) == ("websocket.close", 4001)


def test_a_message_that_would_fill_the_memory_ends_a_websocket(host, cookie):
    headers = [(b"cookie", cookie), (b"origin", f"http://{host.label}.jobs.test:8000".encode())]

    async def talk():
        async with websocket(host, headers=headers) as browser:
            for _ in range(2):
                await browser.receive_output(LIMIT_S)
            await browser.send_input({"type": "websocket.receive", "text": "much"})
            return await browser.receive_output(LIMIT_S)

    assert async_to_sync(talk)()["type"] == "websocket.close"


@pytest.mark.parametrize("origin", [b"http://evil.test", b"http://jobs.test:8000", None])
def test_a_websocket_from_another_host_name_is_refused(host, cookie, origin):
    headers = [(b"cookie", cookie), *([(b"origin", origin)] if origin else [])]

    async def talk():
        async with websocket(host, headers=headers) as browser:
            return await browser.receive_output(LIMIT_S)

    assert async_to_sync(talk)() == {"type": "websocket.close", "code": 1008, "reason": ""}


@pytest.mark.parametrize("path", ["/refused", "/a#b"])
def test_a_websocket_that_the_job_refuses_or_nobody_can_ask_for_is_not_accepted(host, cookie, path):
    headers = [(b"cookie", cookie), (b"origin", f"http://{host.label}.jobs.test:8000".encode())]

    async def talk():
        async with websocket(host, path, headers=headers) as browser:
            return await browser.receive_output(LIMIT_S)

    assert async_to_sync(talk)()["code"] == 1011


def test_an_address_is_given_to_those_who_may_open_ports(running, member, viewer, make_actor, host):
    url = urlsplit(connections.offer_page(actor=member, host=host, path="/lab"))

    assert (url.scheme, url.netloc, url.path) == ("http", f"{host.label}.localhost:8000", "/.nearline/enter")
    assert parse_qs(url.query)["path"] == ["/lab"]
    with pytest.raises(JobNotFound):
        connections.offer_page(actor=make_actor(None), host=host)
    assert connections.list_port_hosts(actor=viewer, job=running) == {}


def test_a_list_of_jobs_tells_the_addresses_of_ports_to_those_who_may_open_them(running, member, viewer):
    Job.objects.filter(pk=running.pk).update(spec={**running.spec, "ports": [8888]})

    listed = {actor.name: call(actor, "GET", "/compute/jobs")[1]["items"] for actor in (member, viewer)}

    urls = {name: [job["port_urls"] for job in jobs] for name, jobs in listed.items()}
    assert urls == {"member": [{"8888": PortHost(running.pk, 0, 8888).path}], "viewer": [{}]}


def test_what_reaches_a_port_is_copied_from_the_page_of_its_job(running, member, viewer, host, client):
    Job.objects.filter(pk=running.pk).update(spec={**running.spec, "ports": [8888]})
    Resource.objects.update(is_simulated=False)

    def copied_by(actor, host="testserver"):
        client.force_login(User.objects.get(pk=actor.user_id))
        page = client.get("/jobs/train/", headers={"Host": host}).content.decode()
        return re.findall(r'data-copies="([^"]*8888[^"]*)"', page)

    assert copied_by(member) == [f"http://testserver/ports/{host.label}/", "nearline job port-forward train 8888"]
    assert copied_by(viewer) == []

    Job.objects.filter(pk=running.pk).update(spec={**running.spec, "ports": [8888], "jupyter": True})
    assert copied_by(member)[-1].startswith("http://127.0.0.1:8888/lab?token=")
    assert copied_by(member, "127.0.0.1:8000")[-1].startswith("http://localhost:8888/lab?token=")


def test_where_ports_have_no_address_the_other_way_is_told(running, member, host, settings):
    settings.NEARLINE = replace(settings.NEARLINE, public_url="https://nearline.example.org")

    with pytest.raises(PortRefused, match="nearline job port-forward train 8888"):
        connections.offer_page(actor=member, host=host)
