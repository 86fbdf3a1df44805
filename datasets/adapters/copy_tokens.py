"""Tokens for the pods that fill and verify cached copies: each names one copy, and holds no right of its own."""

from datetime import timedelta

from django.core import signing

LIFETIME = timedelta(days=1)
_SALT = "datasets.copy"


def sign_copy(copy_id: str) -> str:
    """Return a token for a copy. What it is good for is read from the database when it is used."""
    return signing.dumps(copy_id, salt=_SALT)


def read_copy(secret: str) -> str | None:
    """Return the copy that a token names; None for what we have not signed, and for what is too old."""
    try:
        return str(signing.loads(secret, salt=_SALT, max_age=LIFETIME))
    except (signing.BadSignature, ValueError, TypeError):
        return None
