"""People, for site admins, and the personal access tokens of the caller."""

from collections.abc import Iterator
from datetime import datetime

from nearline._http import Http, quoted
from nearline.models import Token, User


class Users:
    """Everybody who may sign in, or might before they were disabled."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self) -> Iterator[User]:
        """Yield everybody, oldest first."""
        return map(User.read, self._http.list_items("/users"))

    def create(self, username: str, *, password: str | None = None, is_site_admin: bool = False) -> User:
        """Add a person; without a password they get in by a sign-in link alone. Raises InvalidRequest."""
        body = {"username": username, "password": password, "is_site_admin": is_site_admin}
        return User.read(self._http.post("/users", body))

    def make_sign_in_link(self, username: str) -> str:
        """Return a link that signs a person in once within 30 minutes. Raises NotFound, and Conflict if disabled."""
        return str(self._http.post("/users" + quoted(username) + "/sign-in-links", {})["url"])

    def disable(self, username: str, *, stop_work: bool = False) -> User:
        """Sign a person out everywhere for good; `work` of the answer is what runs for them. Raises NotFound."""
        return User.read(self._http.post("/users" + quoted(username) + "/disable", {"stop_work": stop_work}))

    def enable(self, username: str) -> User:
        """Let a person sign in again. Raises NotFound."""
        return User.read(self._http.post("/users" + quoted(username) + "/enable", {}))

    def sign_out(self, username: str, *, revoke_tokens: bool = False) -> None:
        """End every session of a person; your own without being an admin. Raises NotFound."""
        self._http.post("/users" + quoted(username) + "/sign-out", {"revoke_tokens": revoke_tokens})


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


def create_token(url: str, person: str, password: str, name: str, *, expires_at: datetime) -> Token:
    """Make a token for a person who has none yet. Raises NotSignedIn, Denied or Throttled."""
    http = Http(url, None, basic=(person, password))
    try:
        return Tokens(http).create(name, expires_at=expires_at)
    finally:
        http.close()
