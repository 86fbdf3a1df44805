"""Signing in and out."""

import json

import httpx
import pytest

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


def test_logout_forgets_the_token_of_this_server_only(cli):
    write_profile(Profile(url="http://127.0.0.1:8000", tokens={"http://127.0.0.1:8000": "a", "http://other": "b"}))

    assert cli("logout").exit_code == 0

    assert read_profile().tokens == {"http://other": "b"}
