"""People, for site admins."""

from typing import Annotated

import typer

from nearline.cli.asking import confirm
from nearline.cli.group import CommandGroup
from nearline.cli.options import Yes
from nearline.cli.session import session_of

app = CommandGroup(help="People, for site admins.")

Username = Annotated[str, typer.Argument(metavar="NAME", help="As `nearline user list` shows it.")]


@app.command("list")
def list_users(context: typer.Context) -> None:
    """List everybody."""
    session = session_of(context)
    users = list(session.client().users.list())
    rows = [
        (user.username, "site admin" if user.is_site_admin else "person", "disabled" if user.is_disabled else "")
        for user in users
    ]
    session.out.table(users, ("NAME", "ROLE", "STATE"), rows, empty="There is nobody.")


@app.command("create")
def create_user(
    context: typer.Context,
    username: Annotated[str, typer.Argument(metavar="NAME", help="With which the person signs in.")],
    *,
    site_admin: Annotated[bool, typer.Option("--site-admin", help="May do everything.")] = False,
) -> None:
    """Add a person, and print a link that signs them in once."""
    session = session_of(context)
    users = session.client().users
    user = users.create(username, is_site_admin=site_admin)
    link = users.make_sign_in_link(username)
    session.out.record({**user.to_json(), "sign_in_link": link}, [("Person", user.username), ("Sign-in link", link)])


@app.command("sign-in-link")
def make_sign_in_link(context: typer.Context, username: Username) -> None:
    """Print a link that signs a person in once within 30 minutes."""
    session = session_of(context)
    link = session.client().users.make_sign_in_link(username)
    session.out.record({"username": username, "url": link}, [("Sign-in link", link)])


@app.command("disable")
def disable_user(
    context: typer.Context,
    username: Username,
    *,
    stop_work: Annotated[bool, typer.Option("--stop-work", help="Cancel their runs and jobs too.")] = False,
    yes: Yes = False,
) -> None:
    """Sign a person out everywhere for good. Their tokens are revoked; their runs and jobs go on."""
    session = session_of(context)
    client = session.client()
    confirm(f"Disable {username}? Their sessions and tokens end at once.", yes=yes)
    user = client.users.disable(username, stop_work=stop_work)
    work = [f"{item['kind']} {item['name']} ({item['project']})" for item in user.work]
    session.out.record(user, [("Disabled", user.username), ("Stopped" if stop_work else "Still running", work or None)])


@app.command("enable")
def enable_user(context: typer.Context, username: Username) -> None:
    """Let a person sign in again. Their old tokens stay revoked."""
    session = session_of(context)
    user = session.client().users.enable(username)
    session.out.record(user, [("Enabled", user.username)])


@app.command("sign-out")
def sign_out_user(
    context: typer.Context,
    username: Username,
    *,
    tokens: Annotated[bool, typer.Option("--tokens", help="Revoke their access tokens too.")] = False,
) -> None:
    """End every session of a person; your own without being an admin."""
    session = session_of(context)
    session.client().users.sign_out(username, revoke_tokens=tokens)
    session.out.done(f"{username} is signed out everywhere.", as_json={"signed_out": username})
