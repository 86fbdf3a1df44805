"""Who is calling: sign in, sign out, ask."""

import platform
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from nearline.cli.output import say
from nearline.cli.session import Session, session_of
from nearline.errors import InvalidRequest, NotFound
from nearline.settings import normalize_url, read_profile, write_profile

_PASSWORD_TOKEN_DAYS = 90


def login(
    context: typer.Context,
    url_argument: Annotated[str | None, typer.Argument(metavar="URL", help="Address of the server.")] = None,
    *,
    domain: Annotated[str | None, typer.Option("--domain", "-d", metavar="URL", help="The same, as in cnvrg.")] = None,
    token: Annotated[
        str | None, typer.Option("--token", "-t", help="Access token; asked for when missing. `-` reads stdin.")
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", "--email", "-e", help="Your name, to sign in with a password instead.")
    ] = None,
    password: Annotated[
        str | None, typer.Option("--password", "-p", help="Asked for when missing, which is safer. `-` reads stdin.")
    ] = None,
    organization: Annotated[
        str | None, typer.Option("--project", "--organization", "-o", help="Project to use when none is named.")
    ] = None,
) -> None:
    """Sign in, and remember an access token in the profile.

    With --user the server makes a token for 90 days; the password itself is not kept. A password after -p can be seen
    in the process list of this machine and in the history of the shell.
    """
    from nearline.client import Client  # noqa: PLC0415 (brings the HTTP library, which --help must not wait for)

    session = session_of(context)
    _check_login(url_argument and domain, user=user, password=password, token=token)
    given = url_argument or domain
    url = normalize_url(given) if given else session.settings().url
    if user is not None:
        secret = _token_by_password(session, url, user, password)
    else:
        secret = _read_stdin(token or session.token or _ask_for_token(url))
    with Client(url, secret) as client:
        person = client.whoami()
        projects = {project.name for project in client.projects.list()} if organization else set()
    shown = _fields(person, url)
    profile = read_profile().with_login(url, secret)
    if organization in projects:
        profile = replace(profile, project=organization)
    path = write_profile(profile)
    session.out.record(person, shown)
    session.out.done(f"Signed in. The token is kept in {path}.")
    if organization and organization not in projects:
        raise NotFound(
            f"You are in no project called '{organization}', so no default project was set.",
            hint="What is an organisation in cnvrg is a project here; list yours with `nearline project list`.",
        )


def _check_login(url_twice: str | None, *, user: str | None, password: str | None, token: str | None) -> None:
    if url_twice:
        raise InvalidRequest("The address of the server is given twice.", hint="Leave out -d, or the argument.")
    if token and (user or password):
        raise InvalidRequest("A token and a password are given.", hint="Sign in with one of them.")
    if password and not user:
        raise InvalidRequest("A password is given without a name.", hint="Add -e NAME.")
    if user and "@" in user:
        raise InvalidRequest(
            "People sign in with their name here, not with an e-mail address.",
            hint="Add -e NAME, the name that you type on the sign-in page.",
        )


def _token_by_password(session: Session, url: str, user: str, password: str | None) -> str:
    from nearline.resources.users import create_token  # noqa: PLC0415 (brings the HTTP library)

    if password is None:
        if not sys.stdin.isatty():
            raise InvalidRequest("There is no password to sign in with.", hint="Add `-p -` to read it from stdin.")
        password = str(typer.prompt("Password", hide_input=True, err=True))
    elif password != "-":  # noqa: S105 (means stdin)
        session.out.warn(
            "The password after -p can be seen in the process list and in the history of the shell. "
            "Without -p you are asked for it; `-p -` reads stdin."
        )
    expires_at = datetime.fromtimestamp(time.time() + _PASSWORD_TOKEN_DAYS * 86400, UTC)
    name = f"login on {platform.node() or 'a machine without a name'}"[:100]
    return create_token(url, user, _read_stdin(password), name, expires_at=expires_at).secret or ""


def _read_stdin(secret: str) -> str:
    """Return the secret, which is on stdin where it is a dash."""
    return sys.stdin.readline().rstrip("\r\n") if secret == "-" else secret  # noqa: S105 (means stdin)


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
