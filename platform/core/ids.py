"""Identifiers: prefixed, so that a log line says what it names, and sorted by their creation."""

import secrets
import threading

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no i, l, o, u
_RANDOM_BITS = 50
# Steps within one millisecond are random too, so that an id does not tell its neighbours.
_STEP_BITS = 30
# Two characters at once: ids are made by the dozen.
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_SHIFTS = range(90, -1, -10)

_guard = threading.Lock()
_last = 0


def new_id(prefix: str, *, now_ms: int) -> str:
    """Return `prefix_` plus 20 characters: 10 of time in milliseconds, 10 random (50 bits).

    Ids of one process sort by their creation, also within a millisecond and while the clock stands still or goes
    back; those of several processes by their milliseconds (the monotonic random method of RFC 9562, 6.2).
    """
    global _last  # noqa: PLW0603 (the order is that of the process)
    with _guard:
        fresh = (now_ms << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS)
        is_later = now_ms > _last >> _RANDOM_BITS
        _last = value = fresh if is_later else _last + 1 + secrets.randbits(_STEP_BITS)
    return f"{prefix}_{''.join([_PAIRS[value >> shift & 1023] for shift in _SHIFTS])}"
