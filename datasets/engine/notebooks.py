"""The cells of a Jupyter notebook as text. What a notebook holds is never run or rendered."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from core import bounds

MAX_BYTES = 4 * 1024 * 1024
_MAX_CELLS = 100
_MAX_CELL_CHARACTERS = 8000


@dataclass(frozen=True)
class Cell:
    """A cell, or what one printed. `kind`: code, text or output."""

    kind: str
    text: str


def read_cells(data: bytes) -> tuple[list[Cell], bool] | None:
    """Return the first cells of a notebook, and whether there are more; None when it is none."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    cells = document.get("cells") if isinstance(document, Mapping) else None
    if not isinstance(cells, list) or bounds.value_fault(document):
        return None
    readable = [cell for raw in cells[:_MAX_CELLS] for cell in _read(raw)]
    return readable, len(cells) > _MAX_CELLS


def _read(raw: object) -> Iterator[Cell]:
    if not isinstance(raw, Mapping):
        return
    is_code = raw.get("cell_type") == "code"
    yield Cell("code" if is_code else "text", _join(raw.get("source")))
    outputs = raw.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        if isinstance(output, Mapping):
            data = output.get("data")
            plain = data.get("text/plain") if isinstance(data, Mapping) else None
            text = _join(output.get("text") or plain or output.get("evalue"))
            pictures = [kind for kind in data if kind.startswith("image/")] if isinstance(data, Mapping) else []
            if text or pictures:
                yield Cell("output", text + "".join(f"\n[{kind}]" for kind in pictures))


def _join(source: object) -> str:
    lines = source if isinstance(source, list) else [source]
    return "".join(line for line in lines if isinstance(line, str))[:_MAX_CELL_CHARACTERS]
