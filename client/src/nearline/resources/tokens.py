"""Personal access tokens of the caller."""

from collections.abc import Iterator
from datetime import datetime

from nearline._http import Http, quoted
from nearline.models import Token


def create_with_password(url: str, person: str, password: str, name: str, *, expires_at: datetime) -> Token:
    """Make a token for a person who has none yet. Raises NotSignedIn, Denied or Throttled."""
    http = Http(url, None, basic=(person, password))
    try:
        return Tokens(http).create(name, expires_at=expires_at)
    finally:
        http.close()


class Tokens:
    """The caller's own tokens."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self) -> Iterator[Token]:
        """Yield the tokens that are not revoked, newest first. Their secrets are never shown again."""
        return map(Token.read, self._http.list_items("/tokens"))

    def create(self, name: str, *, expires_at: datetime | None = None) -> Token:
        """Make a token; `secret` of the answer is shown this once."""
        body = {"name": name, "expires_at": expires_at.isoformat() if expires_at else None}
        return Token.read(self._http.post("/tokens", body))

    def revoke(self, token_id: str) -> None:
        """Make a token worthless. Raises NotFound."""
        self._http.delete("/tokens" + quoted(token_id))
