"""What of a file can be shown beside its name: a picture, a player, a text with its lines, the top of a table."""

import csv
import io
import json
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from core import bounds
from datasets.engine import notebooks
from datasets.engine.notebooks import Cell
from datasets.engine.parquet_footer import TAIL_BYTES, NotParquet, footer_size, read_footer
from datasets.engine.text_encodings import UNMARKED, decode_text
from datasets.selectors import dicoms, pictures, volumes
from datasets.selectors.files import FileContent
from datasets.web.kinds import DICOMS, VOLUMES, ending_of, kind_of
from nearline.content.paths import show_path

MAX_TEXT_BYTES = 64 * 1024
MAX_JSON_BYTES = 512 * 1024
MAX_FOOTER_BYTES = 4 * 1024 * 1024
_MAX_LINES = 2000
_TABLES = {".csv": ",;\t|", ".tsv": "\t"}
_MAX_ROWS, _MAX_COLUMNS = 50, 30
_MAX_PARQUET_COLUMNS = 300
# The worst of 4 MB takes seconds and hundreds of megabytes: two at once bound what a web process takes.
PARSING = threading.BoundedSemaphore(2)
_NO_PICTURE = "It holds no picture that can be drawn here, or it is damaged."
_NO_PARQUET = "It is no Parquet file that can be read here: it is damaged, cut short or encrypted."


@dataclass(frozen=True)
class Preview:
    """`kind` is picture, drawn, sound, film, table, text, notebook, link, parquet or none; the rest belongs to some.

    `facts` says more about the file in a few words, and of none `fault` why there is none. `encoding` is that which a
    text was read in where its bytes do not tell, and may be another one.
    """

    kind: str
    lines: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    is_cut: bool = False
    facts: str = ""
    fault: str = ""
    encoding: str = ""


def preview_of(content: FileContent, *, encoding: str = "") -> Preview:
    """Return what can be shown of a file, having read no more of it than that; `encoding` is for what tells none."""
    kind = kind_of(content.entry)
    if kind == "link":
        return Preview("link", lines=[show_path(content.entry.target)])
    if not content.size_bytes:
        return Preview("none", fault="It is empty.")
    if kind == "drawn":
        return _preview_drawn(content)
    if kind in {"picture", "sound", "film"}:
        return Preview(kind, facts=pictures.describe(content) if kind == "picture" else "")
    if ending_of(content.entry.path) == ".parquet":
        return _preview_parquet(content)
    return _preview_text(content, encoding)


def _preview_drawn(content: FileContent) -> Preview:
    ending = ending_of(content.entry.path)
    if ending in VOLUMES:
        volume = volumes.read_header(content)
        facts, fault = ("", _NO_PICTURE) if volume is None else (volume.describe(), volumes.find_fault(content, volume))
    elif ending in DICOMS:
        header = dicoms.read_header(content)
        facts, fault = ("", _NO_PICTURE) if header is None else (header.facts, header.fault)
    else:
        return Preview("drawn", facts=pictures.describe(content))
    return Preview("drawn" if facts and not fault else "none", facts=facts, fault=fault)


def _preview_parquet(content: FileContent) -> Preview:
    size = content.size_bytes
    try:
        tail = b"".join(content.read(max(0, size - TAIL_BYTES)))
        length = footer_size(tail)
        if not 0 < length <= min(MAX_FOOTER_BYTES, size - TAIL_BYTES):
            return Preview("none")
        data = b"".join(content.read(size - TAIL_BYTES - length, length))
        with PARSING:
            footer = read_footer(data)
    except NotParquet:
        return Preview("none", fault=_NO_PARQUET)
    rows = [[column.name, column.type, column.kind] for column in footer.columns[:_MAX_PARQUET_COLUMNS]]
    return Preview(
        "parquet",
        rows=rows,
        is_cut=len(footer.columns) > _MAX_PARQUET_COLUMNS,
        facts=f"{footer.rows:,} rows, {len(footer.columns):,} columns",
    )


def _preview_text(content: FileContent, unmarked: str) -> Preview:
    ending, size = ending_of(content.entry.path), content.size_bytes
    if ending == ".json" and size <= MAX_JSON_BYTES and (laid_out := _as_json(content)):
        return Preview("text", lines=laid_out[:_MAX_LINES], is_cut=len(laid_out) > _MAX_LINES, facts="formatted")
    if ending == ".ipynb" and size <= notebooks.MAX_BYTES:
        data = b"".join(content.read())
        with PARSING:
            notebook_cells = notebooks.read_cells(data)
        if notebook_cells is not None:
            cells, is_cut = notebook_cells
            return Preview("notebook", cells=cells, is_cut=is_cut, facts="notebook")
    decoded = _decode(content, unmarked)
    if decoded is None:
        return Preview("none")
    text, name = decoded
    facts, encoding = ("", name) if name in UNMARKED else (name, "")
    if ending in _TABLES and (rows := _as_rows(text, _TABLES[ending])):
        is_cut = size > MAX_TEXT_BYTES or len(rows) == _MAX_ROWS
        return Preview("table", rows=rows, is_cut=is_cut, facts=facts, encoding=encoding)
    lines = text.splitlines()
    is_cut = size > MAX_TEXT_BYTES or len(lines) > _MAX_LINES
    return Preview("text", lines=lines[:_MAX_LINES], is_cut=is_cut, facts=facts, encoding=encoding)


def read_text(content: FileContent) -> str | None:
    """Return the beginning of a file as text; None when it is none."""
    decoded = _decode(content)
    return None if decoded is None else decoded[0]


def _decode(content: FileContent, unmarked: str = "") -> tuple[str, str] | None:
    head = b"".join(content.read(0, MAX_TEXT_BYTES))
    decoded = decode_text(head, is_whole=len(head) == content.size_bytes, unmarked=unmarked)
    # Half of a character cannot be sent to a browser, and no text has a NUL.
    return None if decoded is None or bounds.text_fault(decoded[0]) else decoded


def _as_json(content: FileContent) -> list[str] | None:
    try:
        document = json.loads(b"".join(content.read()))
        laid_out = "".join(_first_lines(json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(document)))
    except (ValueError, RecursionError):
        return None
    return None if bounds.text_fault(laid_out) else laid_out.splitlines()


def _first_lines(pieces: Iterable[str]) -> Iterator[str]:
    """Yield no more pieces than are shown: what is nested deeply is a thousand times as long when it is laid out."""
    lines = 0
    for piece in pieces:
        yield piece
        lines += piece.count("\n")
        if lines > _MAX_LINES:
            break


def _as_rows(text: str, delimiters: str) -> list[list[str]]:
    # The one that the first line has most of, as spreadsheets of many countries write semicolons.
    delimiter = max(delimiters, key=text.partition("\n")[0].count)
    try:
        # Line breaks within quotes are part of a cell.
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        return [row[:_MAX_COLUMNS] for row in islice(rows, _MAX_ROWS)]
    except csv.Error:
        return []
