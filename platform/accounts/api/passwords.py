"""A name and a password instead of a token, for the one route that makes a token; limited as on the sign-in page."""

import base64

from allauth.account.adapter import get_adapter
from allauth.core.internal import ratelimit
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from accounts.actor import Actor
from accounts.errors import NotSignedIn, PersonDisabled, TooManyAttempts
from accounts.selectors import actor_of
from core import bounds


def check_password(request: HttpRequest, credentials: str) -> Actor:
    """Return whom the credentials of a Basic authorization name.

    Raises NotSignedIn, PersonDisabled or TooManyAttempts.
    """
    name, password = _read(credentials)
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


def _read(credentials: str) -> tuple[str, str]:
    try:
        name, colon, password = base64.b64decode(credentials, validate=True).decode().partition(":")
    except ValueError as error:
        raise NotSignedIn("The Basic authorization cannot be read.") from error
    if not (colon and name.isprintable() and len(name) <= bounds.MAX_NAME and len(password) <= bounds.MAX_LINE):
        raise NotSignedIn("The Basic authorization holds no name and password.")
    return name, password
