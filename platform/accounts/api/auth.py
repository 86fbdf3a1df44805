"""Who calls the API: a bearer token, or the session of a page (then with a CSRF token for writes).

For the one route that makes a token, a name and a password will do too; they are limited as on the sign-in page.
"""

import base64

from allauth.account.adapter import get_adapter
from allauth.core.internal import ratelimit
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.middleware.csrf import CsrfViewMiddleware

from accounts.errors import NotSignedIn, PermissionDenied, PersonDisabled, TooManyAttempts
from accounts.permissions import Actor
from accounts.selectors import actor_of
from accounts.services import tokens
from core import bounds

_WORTHLESS_TOKENS, _WINDOW_S = 20, 300


class ApiRequest(HttpRequest):
    """A request whose caller is known."""

    actor: Actor


class _CsrfCheck(CsrfViewMiddleware):
    def _reject(self, _request: HttpRequest, reason: str) -> str:  # the reason, not a page
        return reason


def authenticate(request: HttpRequest) -> Actor:
    """Return the caller and note it on the request as `actor`.

    Raises NotSignedIn, TooManyAttempts or PermissionDenied.
    """
    scheme, secret = _authorization(request)
    if scheme == "bearer":
        actor = _token_holder(request, secret)
    elif request.user.is_authenticated:
        reason = _CsrfCheck(lambda _request: None).process_view(request, None, (), {})  # type: ignore[arg-type]
        if reason is not None:
            raise PermissionDenied(f"This request was not made from one of our pages ({reason}).")
        actor = actor_of(request.user)
    else:
        raise NotSignedIn("This needs a signed-in person or a token.")
    request.actor = actor  # type: ignore[attr-defined]
    return actor


def authenticate_or_check_password(request: HttpRequest) -> Actor:
    """Return the caller as `authenticate` does, or whom a name and a password name.

    Raises also PersonDisabled.
    """
    scheme, credentials = _authorization(request)
    if scheme != "basic":
        return authenticate(request)
    request.actor = _check_password(request, credentials)  # type: ignore[attr-defined]
    return request.actor  # type: ignore[attr-defined,no-any-return]


def note_worthless_token(request: HttpRequest) -> None:
    """Count a worthless token from the caller's address. Raises TooManyAttempts beyond 20 within five minutes.

    Only failures are counted and only failures are refused: one job with a revoked token must not lock out the people
    behind the same address, and a token of 256 random bits cannot be found by trying.
    """
    key = f"accounts.worthless_tokens:{get_adapter().get_client_ip(request)}"
    cache.add(key, 0, timeout=_WINDOW_S)
    try:
        failures = cache.incr(key)
    except ValueError:  # the window ended in between
        return
    if failures > _WORTHLESS_TOKENS:
        raise TooManyAttempts("Too many requests with a token that is unknown, expired or revoked.")


def _authorization(request: HttpRequest) -> tuple[str, str]:
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    return scheme.lower(), secret.strip()


def _token_holder(request: HttpRequest, secret: str) -> Actor:
    try:
        return tokens.authenticate(secret)
    except NotSignedIn:
        note_worthless_token(request)
        raise


def _check_password(request: HttpRequest, credentials: str) -> Actor:
    """Return whom the credentials of a Basic authorization name.

    Raises NotSignedIn, PersonDisabled or TooManyAttempts.
    """
    name, password = _read_credentials(credentials)
    if ratelimit.consume(request, app="allauth.account", action="login") is None:
        raise TooManyAttempts("Too many sign-ins from this address.")
    try:
        user = get_adapter(request).authenticate(request, username=name, password=password)
    except ValidationError as error:  # the adapter's words for its own limits
        raise TooManyAttempts("Too many sign-ins with a wrong password.") from error
    if user is None:
        raise NotSignedIn("The name or the password is not correct.")
    if not user.is_active:
        raise PersonDisabled(f"The account {user.username} is disabled.")
    return actor_of(user)


def _read_credentials(credentials: str) -> tuple[str, str]:
    try:
        name, colon, password = base64.b64decode(credentials, validate=True).decode().partition(":")
    except ValueError as error:
        raise NotSignedIn("The Basic authorization cannot be read.") from error
    if not (colon and name.isprintable() and len(name) <= bounds.MAX_NAME and len(password) <= bounds.MAX_LINE):
        raise NotSignedIn("The Basic authorization holds no name and password.")
    return name, password
