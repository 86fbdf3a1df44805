"""Personal access tokens."""

import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from nearline.cli import formats
from nearline.cli.confirm import confirm
from nearline.cli.group import CommandGroup
from nearline.cli.options import Yes
from nearline.cli.session import session_of

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
    token_id: Annotated[str, typer.Argument(metavar="ID", help="As `nearline token list` shows it.")],
    *,
    yes: Yes = False,
) -> None:
    """Make a token worthless."""
    session = session_of(context)
    client = session.client()
    confirm(f"Revoke the token {token_id}? Whatever uses it stops working.", yes=yes)
    client.tokens.revoke(token_id)
    session.out.done(f"Revoked {token_id}.", as_json={"revoked": token_id})


def _end(moment: datetime | None) -> str:
    return formats.ago(moment) if moment else "never"
