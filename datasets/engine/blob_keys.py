"""Which texts are keys of a store. One rule for every adapter, so that no key can mean two things or leave its root."""

import re

_PART = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_KEY = re.compile(rf"{_PART}(/{_PART})*")
_PREFIX = re.compile(rf"({_PART}/)*")


def check_key(key: str) -> None:
    """Raise ValueError unless `key` may name an object."""
    if not _KEY.fullmatch(key):
        raise ValueError(f"{key!r} is not a store key")


def check_prefix(prefix: str) -> None:
    """Raise ValueError unless `prefix` may be listed: empty, or whole parts and a slash at the end."""
    if not _PREFIX.fullmatch(prefix):
        raise ValueError(f"{prefix!r} is not a prefix of store keys")
