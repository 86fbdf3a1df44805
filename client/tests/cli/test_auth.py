"""Signing in and out."""

import base64
import json

import httpx
import pytest

from client.tests.cli.answers import AT, page
from nearline.settings import Profile, read_profile, write_profile

ME = {"name": "ada", "is_site_admin": False, "projects": [{"name": "team", "role": "admin"}]}


@pytest.fixture
def real_login(server, monkeypatch):
    """Let `nearline login` reach the test's server, whichever address it is given."""
    plain = httpx.Client.__init__

    def connect(self, **given):
        plain(self, **{**given, "transport": httpx.MockTransport(server)})

    monkeypatch.setattr(httpx.Client, "__init__", connect)


def test_whoami_names_the_person_and_their_projects(cli, server):
    server.on("GET", "/me", ME)

    done = cli("whoami")

    assert done.stdout.splitlines() == [
        "Name:      ada",
        "Projects:  team (admin)",
        "Server:    http://127.0.0.1:8000",
    ]
    assert json.loads(cli("whoami", "--json").stdout) == ME
    assert cli("whoami", "--quiet").stdout == "ada\n"


def test_login_remembers_the_token_once_the_server_knows_it(cli, server, real_login):
    server.on("GET", "/me", ME)

    done = cli("login", "http://one/", "--token", "fresh")

    assert done.exit_code == 0
    assert read_profile() == Profile(url="http://one", tokens={"http://one": "fresh"})
    assert "fresh" not in done.output


def test_the_token_of_another_server_than_nearline_is_not_remembered(cli, server, real_login):
    server.on("GET", "/me", {"user": "ada"})

    done = cli("login", "http://one", "--token", "fresh")

    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        "✗ http://one answered an object without 'name'. It is not a Nearline server, or one of another version.",
        "hint: Check the address: NEARLINE_URL, or the one given to `nearline login`.",
    ]
    assert read_profile() == Profile()


def test_a_token_can_come_from_stdin(cli, server, real_login):
    server.on("GET", "/me", ME)

    cli("login", "http://one", "--token", "-", stdin="piped\n")

    assert read_profile().tokens == {"http://one": "piped"}


def test_a_token_that_the_server_refuses_is_not_remembered(cli, server, real_login):
    server.refuse("GET", "/me", 401, title="This token is unknown, expired or revoked.")

    done = cli("login", "http://one", "--token", "stale")

    assert done.exit_code == 4
    assert read_profile() == Profile()


def answer_to_ada(request):
    assert request.headers["Authorization"] == f"Basic {base64.b64encode(b'ada:open sesame').decode()}"
    return {"id": "tok_1", "name": "x", "created_at": AT, "expires_at": AT, "last_used_at": None, "secret": "made"}


@pytest.mark.parametrize(
    ("password", "warnings"),
    [("open sesame", 1), ("-", 0)],
)
@pytest.mark.usefixtures("real_login")
def test_a_password_gets_a_token_and_is_kept_nowhere(cli, server, here, password, warnings):
    server.on("POST", "/tokens", answer_to_ada, status=201)
    server.on("GET", "/me", ME)

    done = cli("login", "-d", "http://one", "-e", "ada", "-p", password, stdin="open sesame\n")

    assert done.exit_code == 0
    assert read_profile().tokens == {"http://one": "made"}
    assert done.stderr.count("can be seen in the process list") == warnings
    kept = [path.read_text() for path in here.parent.rglob("*") if path.is_file()]
    assert "sesame" not in done.output + "".join(kept)


def test_a_password_that_is_refused_is_kept_nowhere_either(cli, server, real_login):
    server.refuse("POST", "/tokens", 401, title="The name or the password is not correct.")

    done = cli("login", "http://one", "-e", "ada", "-p", "open sesame")

    assert (done.exit_code, "sesame" in done.output) == (4, False)
    assert read_profile() == Profile()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("-e", "ada@example.org", "-p", "x"), "People sign in with their name here, not with an e-mail address."),
        (("-p", "x"), "A password is given without a name."),
        (("-e", "ada"), "There is no password to sign in with."),
        (("-e", "ada", "-t", "x"), "A token and a password are given."),
        (("-d", "http://two", "-t", "x"), "The address of the server is given twice."),
    ],
)
def test_a_login_that_makes_no_sense_asks_no_server(cli, server, arguments, text):
    done = cli("login", "http://one", *arguments)

    assert done.exit_code == 2
    assert text in done.stderr
    assert server.asked == []


@pytest.mark.parametrize(("name", "exit_code", "project"), [("team", 0, "team"), ("other", 3, None)])
@pytest.mark.usefixtures("real_login")
def test_an_organization_is_the_project_to_use(cli, server, name, exit_code, project):
    server.on("GET", "/me", ME)
    server.on("GET", "/projects", page({"id": "p", "name": "team", "role": "admin", "description": ""}))

    done = cli("login", "-d", "http://one", "-t", "fresh", "-o", name)

    assert done.exit_code == exit_code
    assert read_profile() == Profile(url="http://one", project=project, tokens={"http://one": "fresh"})


def test_logout_forgets_the_token_of_this_server_only(cli):
    write_profile(Profile(url="http://127.0.0.1:8000", tokens={"http://127.0.0.1:8000": "a", "http://other": "b"}))

    assert cli("logout").exit_code == 0

    assert read_profile().tokens == {"http://other": "b"}
