"""Who calls the API: a bearer token, or the session of a page (then with a CSRF token for writes)."""

from django.http import HttpRequest
from django.middleware.csrf import CsrfViewMiddleware

from accounts.actor import Actor
from accounts.api import passwords, throttle
from accounts.errors import NotSignedIn, PermissionDenied
from accounts.selectors import actor_of
from accounts.services import tokens


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
    request.actor = passwords.check_password(request, credentials)  # type: ignore[attr-defined]
    return request.actor  # type: ignore[attr-defined,no-any-return]


def _authorization(request: HttpRequest) -> tuple[str, str]:
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    return scheme.lower(), secret.strip()


def _token_holder(request: HttpRequest, secret: str) -> Actor:
    try:
        return tokens.authenticate(secret)
    except NotSignedIn:
        throttle.note_failure(request)
        raise
