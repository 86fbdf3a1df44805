"""Values that broke something once, or would: numbers beyond every column, half characters, moments of no calendar."""

import base64


def _cursor(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode(errors="surrogatepass")).decode().rstrip("=")


POISON_JSON = [
    "null",
    "true",
    "[]",
    "{}",
    '""',
    "-1",
    "1e50",
    "1e999",
    "-1e308",
    "NaN",
    "Infinity",
    "9" * 400,
    "9" * 5000,
    "9223372036854775807",
    "9223372036854775808",
    "2147483648",
    '"\\ud800"',
    '"a\\u0000b"',
    '"\\u202e\\u0300\\ufeff"',
    '"' + "a" * 3000 + '"',
    '"' + "a" * 200_000 + '"',
    '"0001-01-01T00:00:00+23:59"',
    '"9999-12-31T23:59:59-23:59"',
    '"2026-01-01T00:00:00"',
    '"../../etc/passwd"',
    '"${{ parameters.x }}"',
    "[" * 100 + "]" * 100,
    '{"a": {"b": ["\\udfff"]}}',
]

POISON_CURSORS = [
    _cursor("null"),
    _cursor('"\\ud800"'),
    _cursor("[" * 500 + "]" * 500),
    _cursor("9" * 400),
    _cursor('[1, "a"]'),
    _cursor('{"a": 1}'),
    _cursor('"zz"'),
    _cursor("true"),
]

POISON_TEXTS = [
    "",
    "null",
    "-1",
    "0",
    "1e50",
    "Infinity",
    "9" * 400,
    "9" * 5000,
    "10000000000000000000000",
    "9223372036854775807",
    "\0",
    "²",
    "٣",
    "%",
    "%ff",
    "'\"<>&",
    "a" * 5000,
    "*a" * 30 + "b",
    "((((((((((",
    "a and " * 300 + "b",
    "2026-13-45",
    "0001-01-01T00:00:00+23:59",
    "../../etc/passwd",
    "\u202e\u0300\ufeff",
    *POISON_CURSORS,
]
