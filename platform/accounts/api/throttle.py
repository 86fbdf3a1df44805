"""Slows down whoever keeps sending worthless tokens.

Only failures are counted and only failures are refused: one job with a revoked token must not lock out the people
behind the same address, and a token of 256 random bits cannot be found by trying.
"""

from allauth.account.adapter import get_adapter
from django.core.cache import cache
from django.http import HttpRequest

from accounts.errors import TooManyAttempts

_ALLOWED = 20
_WINDOW_S = 300


def note_failure(request: HttpRequest) -> None:
    """Count a worthless token from the caller's address. Raises TooManyAttempts beyond 20 within five minutes."""
    key = f"accounts.worthless_tokens:{get_adapter().get_client_ip(request)}"
    cache.add(key, 0, timeout=_WINDOW_S)
    try:
        failures = cache.incr(key)
    except ValueError:  # the window ended in between
        return
    if failures > _ALLOWED:
        raise TooManyAttempts("Too many requests with a token that is unknown, expired or revoked.")
