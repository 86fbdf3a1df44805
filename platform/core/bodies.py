"""What the bodies of requests share."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

from ninja import Schema
from pydantic import ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

_NUMBERS: Mapping[str, Literal["int_type", "float_type"]] = {"int": "int_type", "float": "float_type"}
"""What is said of a value that is none of these numbers, in pydantic's names."""


def _require_number(value: object, *, error: Literal["int_type", "float_type"]) -> object:
    if isinstance(value, bool | str):
        raise PydanticKnownError(error)
    return value


def _with_strict_numbers(part: Any) -> Any:
    """Return a part of a schema of pydantic whose numbers are none but numbers. What is no dict or list stays."""
    if isinstance(part, list):
        return [_with_strict_numbers(each) for each in part]
    if not isinstance(part, dict):
        return part
    strict = {key: value if key == "metadata" else _with_strict_numbers(value) for key, value in part.items()}
    error = _NUMBERS.get(str(part.get("type")))
    if error is None:
        return strict
    return core_schema.no_info_before_validator_function(partial(_require_number, error=error), strict)


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


def raw_body(media_type: str) -> dict[str, Any]:
    """Describe a body of bytes, for a route that reads it itself."""
    content = {media_type: {"schema": {"type": "string", "format": "binary", "contentMediaType": media_type}}}
    return {"requestBody": {"required": True, "content": content}}
