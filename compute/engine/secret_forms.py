"""The forms in which a secret may be printed: as it is, escaped, URL-encoded, as Base64 or hexadecimal digits."""

import base64
import json
from collections.abc import Collection, Iterator
from urllib.parse import quote, quote_plus

MIN_BYTES = 4
"""Shorter values are not masked: they occur by chance in nearly every text."""
_BASE64_LINE_BYTES = 57


def forms_of(values: Collection[str]) -> list[bytes]:
    """Return the byte strings to mask, longest first. Each line of a value of several lines is masked by itself too."""
    forms: set[bytes] = set()
    for value in values:
        for part in {value, *value.splitlines()}:
            plain = part.encode("utf-8", "surrogateescape")
            forms.update(form for form in _forms(part.strip(), plain.strip()) if len(form) >= MIN_BYTES)
    return sorted(forms, key=lambda form: (-len(form), form))


def _forms(text: str, plain: bytes) -> Iterator[bytes]:
    if len(plain) < MIN_BYTES:
        return
    yield plain
    yield from (plain.hex().encode(), plain.hex().upper().encode())
    yield from (escaped[1:-1].encode("utf-8", "surrogateescape") for escaped in _quoted(text))
    for url in (quote(plain, safe=""), quote(plain), quote_plus(plain)):
        yield from (url.encode(), _with_small_digits(url).encode())
    for coded in _base64_forms(plain):
        yield from (coded, coded.translate(bytes.maketrans(b"+/", b"-_")))


def _quoted(text: str) -> Iterator[str]:
    """Return the value as JSON, Python and the shell write it between quotation marks."""
    yield from (json.dumps(text), json.dumps(text, ensure_ascii=False), json.dumps(text).replace("/", "\\/"))
    yield repr(text)
    yield "'" + text.replace("'", "'\"'\"'") + "'"
    yield "'" + text.replace("'", "'\\''") + "'"


def _with_small_digits(url: str) -> str:
    head, *codes = url.split("%")
    return "%".join([head, *(code[:2].lower() + code[2:] for code in codes)])


def _base64_forms(plain: bytes) -> Iterator[bytes]:
    """Return the value's own Base64, also in lines, and those digits of it that stay the same within a longer text."""
    yield base64.b64encode(plain)
    lines = (plain[start : start + _BASE64_LINE_BYTES] for start in range(0, len(plain), _BASE64_LINE_BYTES))
    yield from (base64.b64encode(line) for line in lines if len(line) >= MIN_BYTES)
    for shift in range(3):
        digits = base64.b64encode(bytes(shift) + plain)
        first, last = -(-8 * shift // 6), 8 * (shift + len(plain)) // 6
        yield digits[first:last]
