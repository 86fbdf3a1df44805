"""Outputs of pipelines of DVC, which a dvc.lock names.

Only the dvc.yaml beside it says which folder they are in, and which of them no cache keeps.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from nearline.content.errors import BadPath


class StageOutput(NamedTuple):
    """An output as the lock describes it. Its path is below `folder`, which is relative to that of the lock."""

    folder: str
    described: Any
    is_cached: bool


def list_outputs(lock: Mapping[str, Any], pipeline: Mapping[str, Any]) -> Iterator[StageOutput]:
    """Yield the outputs of all stages. Raises BadPath for a folder that only DVC can compute."""
    definitions = _mapping_of(pipeline.get("stages"))
    for name, stage in _mapping_of(lock.get("stages")).items():
        # `foreach` and `matrix` make stages called NAME@ITEM; the keys of the former are below `do`.
        definition = _mapping_of(definitions.get(str(name).partition("@")[0]))
        definition = _mapping_of(definition.get("do", definition))
        folder = str(definition.get("wdir", ""))
        if _is_computed(folder):
            raise BadPath(folder.encode(), f"is the wdir of the stage '{name}', which only DVC can compute")
        uncached = set(_list_uncached(definition))
        may_be_uncached = any(map(_is_computed, uncached))
        for out in _list_of(_mapping_of(stage).get("outs")):
            is_cached = not (may_be_uncached or str(_mapping_of(out).get("path")) in uncached)
            yield StageOutput(folder, out, is_cached)


def _list_uncached(definition: Mapping[str, Any]) -> Iterator[str]:
    for key in ("outs", "metrics", "plots"):
        for out in _list_of(definition.get(key)):
            for path, options in _mapping_of(out).items():
                if _mapping_of(options).get("cache") is False:
                    yield str(path)


def _is_computed(text: str) -> bool:
    return "${" in text


def _mapping_of(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list_of(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
