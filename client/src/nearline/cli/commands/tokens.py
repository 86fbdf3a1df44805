"""Personal access tokens."""

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from nearline.cli import formats
from nearline.cli.asking import confirm
from nearline.cli.group import CommandGroup
from nearline.cli.options import Yes
from nearline.cli.session import session_of
from nearline.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from nearline.client import Client

_ID = "tok_"

app = CommandGroup(help="Personal access tokens.")


@app.command("list")
def list_tokens(context: typer.Context) -> None:
    """List your tokens. Their secrets are never shown again."""
    session = session_of(context)
    tokens = list(session.client().tokens.list())
    rows = [(t.id, t.name, formats.ago(t.created_at), formats.ago(t.last_used_at), _end(t.expires_at)) for t in tokens]
    session.out.table(tokens, ("TOKEN", "NAME", "MADE", "LAST USED", "ENDS"), rows, empty="You have no token.")


@app.command("create")
def create_token(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is for.")],
    days: Annotated[
        int | None, typer.Option(min=1, max=36_500, help="Days until it ends; never where not given.")
    ] = None,
) -> None:
    """Make a token. Its secret is shown this once."""
    session = session_of(context)
    expires_at = datetime.fromtimestamp(time.time() + days * 86400, UTC) if days else None
    token = session.client().tokens.create(name, expires_at=expires_at)
    session.out.record(
        token, [("Secret", token.secret), ("Token", token.id), ("Name", token.name), ("Ends", _end(token.expires_at))]
    )
    session.out.note("Keep the secret now; it cannot be shown again.")


@app.command("revoke")
def revoke_token(
    context: typer.Context,
    token: Annotated[str, typer.Argument(metavar="NAME|ID", help="As `nearline token list` shows them.")],
    *,
    yes: Yes = False,
) -> None:
    """Make a token worthless."""
    session = session_of(context)
    client = session.client()
    token_id = token if token.startswith(_ID) else _find_id(client, token)
    which = token if token == token_id else f"{token} ({token_id})"
    confirm(f"Revoke the token {which}? Whatever uses it stops working.", yes=yes)
    client.tokens.revoke(token_id)
    session.out.done(f"Revoked {which}.", as_json={"revoked": token_id})


def _find_id(client: "Client", name: str) -> str:
    """Return the id of the caller's only token of that name. Raises NotFound, and InvalidRequest for several."""
    ids = [each.id for each in client.tokens.list() if each.name == name]
    if not ids:
        raise NotFound(f"You have no token called '{name}'.", hint="See `nearline token list`.")
    if len(ids) > 1:
        raise InvalidRequest(f"{len(ids)} of your tokens are called '{name}': {', '.join(ids)}.", hint="Give the ID.")
    return ids[0]


def _end(moment: datetime | None) -> str:
    return formats.ago(moment) if moment else "never"
