"""Who is calling: sign in, sign out, ask."""

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from nearline.cli.output import say
from nearline.cli.session import session_of
from nearline.errors import InvalidRequest
from nearline.settings import normalize_url, read_profile, write_profile


def login(
    context: typer.Context,
    url_argument: Annotated[str | None, typer.Argument(metavar="URL", help="Address of the server.")] = None,
    token: Annotated[str | None, typer.Option(help="Access token; asked for when missing. `-` reads stdin.")] = None,
) -> None:
    """Sign in with an access token and remember it in the profile."""
    from nearline.client import Client  # noqa: PLC0415 (brings the HTTP library, which --help must not wait for)

    session = session_of(context)
    url = normalize_url(url_argument) if url_argument else session.settings().url
    secret = token or session.token or _ask_for_token(url)
    if secret == "-":  # noqa: S105 (means stdin)
        secret = sys.stdin.readline().strip()
    with Client(url, secret) as client:
        person = client.whoami()
    shown = _fields(person, url)
    path = write_profile(read_profile().with_login(url, secret))
    session.out.record(person, shown)
    session.out.done(f"Signed in. The token is kept in {path}.")


def logout(context: typer.Context) -> None:
    """Forget the token of the server. It stays valid until it is revoked."""
    session = session_of(context)
    url = session.settings().url
    profile = read_profile()
    if url in profile.tokens:
        write_profile(profile.without_login(url))
        session.out.done(f"Signed out of {url}. To make the token worthless: `nearline token revoke`.")
    else:
        session.out.note(f"You were not signed in to {url}.")


def whoami(context: typer.Context) -> None:
    """Say who the server takes you for."""
    session = session_of(context)
    person = session.client().whoami()
    session.out.record(person, _fields(person, session.settings().url))


COMMANDS = {"login": login, "logout": logout, "whoami": whoami}


def _fields(person: Mapping[str, Any], url: str) -> list[tuple[str, object]]:
    teams = [f"{project['name']} ({project['role']})" for project in person.get("projects", [])]
    role = "site admin" if person.get("is_site_admin") else None
    return [("Name", person["name"]), ("Role", role), ("Projects", ", ".join(teams)), ("Server", url)]


def _ask_for_token(url: str) -> str:
    if not sys.stdin.isatty():
        raise InvalidRequest("There is no token to sign in with.", hint="Add --token, or set NEARLINE_TOKEN.")
    say(f"Make a token on {url}/settings/tokens/ and paste it here.")
    return str(typer.prompt("Token", hide_input=True, err=True)).strip()
