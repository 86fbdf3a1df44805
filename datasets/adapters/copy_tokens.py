"""Tokens for who fills, verifies or reads cached copies: each names one copy, and holds no right of its own."""

from datetime import timedelta

from django.core import signing

LIFETIME = timedelta(days=1)
_SALT = "datasets.copy"
_READER_SALT = "datasets.early_reading"


def sign_copy(copy_id: str) -> str:
    """Return a token for a copy. What it is good for is read from the database when it is used."""
    return signing.dumps(copy_id, salt=_SALT)


def read_copy(secret: str) -> str | None:
    """Return the copy that a token names; None for what we have not signed, and for what is too old."""
    try:
        return str(signing.loads(secret, salt=_SALT, max_age=LIFETIME))
    except (signing.BadSignature, ValueError, TypeError):
        return None


def sign_reader(copy_id: str) -> str:
    """Return a token for a job that reads a copy while it is filled; it is good as long as something holds the copy."""
    return signing.dumps(copy_id, salt=_READER_SALT)


def read_reader(secret: str) -> str | None:
    """Return the copy that a reader's token names; None for what we have not signed."""
    try:
        return str(signing.loads(secret, salt=_READER_SALT))
    except (signing.BadSignature, ValueError, TypeError):
        return None
