"""What the bodies of requests share."""

from typing import Any

from ninja import Schema
from pydantic import ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

_NUMBERS = frozenset({"int", "float"})


def _require_number(value: object) -> object:
    if isinstance(value, bool | str):
        raise ValueError("It is not a number.")  # noqa: TRY004 (pydantic reads a ValueError)
    return value


def _with_strict_numbers(part: Any) -> Any:
    """Return a part of a schema of pydantic whose numbers are none but numbers. What is no dict or list stays."""
    if isinstance(part, list):
        return [_with_strict_numbers(each) for each in part]
    if not isinstance(part, dict):
        return part
    strict = {key: value if key == "metadata" else _with_strict_numbers(value) for key, value in part.items()}
    if part.get("type") not in _NUMBERS:
        return strict
    return core_schema.no_info_before_validator_function(_require_number, strict)


class BodySchema(Schema):
    """A body, or a part of one. A key that it does not know is refused: ignored, it would be taken for done.

    So is a text or a truth value where it has a number: `true` would be taken for 1.
    """

    model_config = ConfigDict(extra="forbid")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return what checks a body, at each of its numbers."""
        schema: CoreSchema = _with_strict_numbers(handler(source))
        return schema
