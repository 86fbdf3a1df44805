"""Identifiers: prefixed, so that a log line says what it names, and sortable by creation time."""

import secrets

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no i, l, o, u


def new_id(prefix: str, *, now_ms: int) -> str:
    """Return `prefix_` plus 20 characters: 10 of time in milliseconds, 10 random (50 bits)."""
    value = (now_ms << 50) | secrets.randbits(50)
    digits = []
    for _ in range(20):
        value, digit = divmod(value, 32)
        digits.append(_ALPHABET[digit])
    return f"{prefix}_{''.join(reversed(digits))}"
