"""What a validator finds wrong with a request, in plain words."""

from collections.abc import Mapping
from typing import Any

from core.units import in_numbers

_NUMBER, _WHOLE, _TEXT = "has to be a number", "has to be a whole number", "has to be a text"
_OBJECT, _LIST, _MOMENT = "has to be an object", "has to be a list", "has to be a moment like 2026-01-31T12:00:00Z"
_WORDS: Mapping[str, str] = {
    "missing": "is missing",
    "extra_forbidden": "is not known",
    "greater_than_equal": "has to be at least {ge}",
    "greater_than": "has to be more than {gt}",
    "less_than_equal": "has to be at most {le}",
    "less_than": "has to be less than {lt}",
    "string_too_short": "has fewer than {min_length} characters",
    "string_too_long": "has more than {max_length} characters",
    "too_short": "has fewer than {min_length} entries",
    "too_long": "has more than {max_length} entries",
    "string_pattern_mismatch": "has to match {pattern}",
    "literal_error": "has to be {expected}",
    "enum": "has to be {expected}",
    "bool_type": "has to be true or false",
    "bool_parsing": "has to be true or false",
    "string_type": _TEXT,
    "string_unicode": _TEXT,
    "list_type": _LIST,
    "dict_type": _OBJECT,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    **dict.fromkeys(("int_type", "int_parsing", "int_parsing_size", "int_from_float"), _WHOLE),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number", "decimal_type", "decimal_parsing"), _NUMBER),
    **dict.fromkeys(("datetime_type", "datetime_parsing", "datetime_from_date_parsing", "timezone_aware"), _MOMENT),
}
"""By the type of Pydantic's error; what is in braces is in its context."""


def describe_fault(kind: str, message: str, context: Mapping[str, Any]) -> str:
    """Return what is wrong with a field, to stand after its name. What has no words here keeps those of Pydantic."""
    words = _WORDS.get(kind)
    if context.get("min_length") == 1:
        return "is empty"
    if words is None:
        return f"is refused: {message.removeprefix('Value error, ').removesuffix('.')}"
    return words.format(**in_numbers(context))
