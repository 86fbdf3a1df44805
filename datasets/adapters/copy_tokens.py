"""Tokens for who works on a copy or an import, or reads a copy: each names one, and holds no right of its own."""

from datetime import timedelta

from django.core import signing

LIFETIME = timedelta(days=1)
_SALT = "datasets.copy"
_READER_SALT = "datasets.early_reading"
_IMPORT_SALT = "datasets.import"


def sign_copy(copy_id: str) -> str:
    """Return a token for a copy. What it is good for is read from the database when it is used."""
    return signing.dumps(copy_id, salt=_SALT)


def read_copy(secret: str) -> str | None:
    """Return the copy that a token names; None for what we have not signed, and for what is too old."""
    return _read(secret, _SALT)


def sign_import(import_id: str) -> str:
    """Return a token for the pods of an import in place."""
    return signing.dumps(import_id, salt=_IMPORT_SALT)


def read_import(secret: str) -> str | None:
    """Return the import that a token names; None for what we have not signed, and for what is too old."""
    return _read(secret, _IMPORT_SALT)


def sign_reader(copy_id: str, holder: str) -> str:
    """Return a token for a job that reads a copy while it is filled; it is good as long as `holder` holds the copy."""
    return signing.dumps([copy_id, holder], salt=_READER_SALT)


def read_reader(secret: str) -> tuple[str, str] | None:
    """Return the copy and the holder that a reader's token names; None for what we have not signed.

    Tokens that jobs got from earlier versions name no holder: empty.
    """
    try:
        named = signing.loads(secret, salt=_READER_SALT)
        copy_id, holder = (named, "") if isinstance(named, str) else named
        return str(copy_id), str(holder)
    except (signing.BadSignature, ValueError, TypeError):
        return None


def _read(secret: str, salt: str) -> str | None:
    try:
        return str(signing.loads(secret, salt=salt, max_age=LIFETIME))
    except (signing.BadSignature, ValueError, TypeError):
        return None
