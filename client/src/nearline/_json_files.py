"""JSON files of the client's own, which people may edit by hand."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_ANY = re.compile(".+")


class Malformed(Exception):
    """A file holds something else than the client writes; the text says what, naming the key."""


def read_object(path: Path) -> Mapping[str, Any]:
    """Return the object that a file holds. Raises OSError, and Malformed."""
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise Malformed("it is not JSON") from error
    if not isinstance(document, dict):
        raise Malformed("it is no JSON object")
    return document


def find_text(document: Mapping[str, Any], key: str, form: re.Pattern[str] = _ANY) -> str | None:
    """Return the text under a key; None where there is none. Raises Malformed for anything else."""
    value = document.get(key)
    if value is None:
        return None
    if not isinstance(value, str):
        raise Malformed(f"'{key}' is no text")
    if not (value.isprintable() and form.fullmatch(value)):
        raise Malformed(f"'{key}' is not valid")
    return value


def get_text(document: Mapping[str, Any], key: str, form: re.Pattern[str] = _ANY) -> str:
    """Return the text under a key. Raises Malformed where there is none, and for anything else."""
    value = find_text(document, key, form)
    if value is None:
        raise Malformed(f"'{key}' is missing")
    return value


def get_texts(document: Mapping[str, Any], key: str) -> Mapping[str, str]:
    """Return the texts under a key by their names; none where the key is missing. Raises Malformed."""
    values = document.get(key) or {}
    if not isinstance(values, dict):
        raise Malformed(f"'{key}' is no JSON object")
    return {name: get_text(values, name) for name in values}
