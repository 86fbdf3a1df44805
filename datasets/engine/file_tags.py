"""Tags of files, as a file of the same commit lists them: which files have all of some tags.

CSV: a header, the column `path` (else the first one) names a file, and each other column is a tag `column=value`; a
value with `|` is several. Parquet: the same, and a list is several values too. YAML: a mapping of files to their tags:
a text, a list, or a mapping, which is `key=value`. A file is named by its path, or by its name alone where no slash is
in it. Lists come from strangers: all are bounded, and YAML has no aliases here.
"""

import csv
import io
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import yaml
from yaml.events import (
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamStartEvent,
)

from datasets.engine.parquet_columns import ParquetTable
from datasets.engine.parquet_pages import UnreadableTable
from nearline.content.paths import to_bytes, to_text

USUAL_PLACES: Final = (b"tags.csv", b"tags.yaml", b"tags.yml", b"tags.parquet")
MAX_TABLE_BYTES: Final = 64 * 2**20
MAX_YAML_BYTES: Final = 256 * 2**10
"""Longer lists are written by programs, as CSV or Parquet."""


_CSV, _PARQUET = _TABLES = (b".csv", b".parquet")


class BadTagList(ValueError):
    """The file is no list of tags; the message says why."""


def check_size(path: bytes, size_bytes: int) -> None:
    """Raise BadTagList for what is neither a table nor YAML, or too large to be read."""
    name = path.lower()
    if not name.endswith((*_TABLES, b".yaml", b".yml")):
        raise BadTagList("Its name ends in none of .csv, .parquet, .yaml and .yml.")
    most = MAX_TABLE_BYTES if name.endswith(_TABLES) else MAX_YAML_BYTES
    if size_bytes > most:
        raise BadTagList(f"It has more than {most:,} bytes; as CSV or Parquet it may have {MAX_TABLE_BYTES:,}.")


def find_tagged(path: bytes, data: bytes, tags: Sequence[str]) -> frozenset[bytes]:
    """Return the files that have all of the tags, as the list at `path` names them. Raises BadTagList."""
    required = frozenset(tags)
    if path.lower().endswith(_PARQUET):
        rows = _read_parquet(data, required)
    else:
        text = to_text(data.removeprefix(b"\xef\xbb\xbf"))
        rows = _read_csv(text) if path.lower().endswith(_CSV) else _read_yaml(text)
    return frozenset(to_bytes(name) for name, row_tags in rows if required <= row_tags)


def _read_csv(text: str) -> Iterator[tuple[str, set[str]]]:
    rows = csv.reader(io.StringIO(text, newline=""))
    try:
        header = next(rows, [])
        if not header:
            raise BadTagList("It has no header.")
        names = header.index("path") if "path" in header else 0
        columns = [(index, f"{key}=") for index, key in enumerate(header) if index != names]
        for row in rows:
            if len(row) > names:
                cells = ((key, row[index]) for index, key in columns if index < len(row) and row[index])
                yield row[names], {key + value for key, cell in cells for value in cell.split("|")}
    except csv.Error as error:
        raise BadTagList(f"Line {rows.line_num} is not CSV: {error}.") from error


def _read_parquet(data: bytes, required: Collection[str]) -> Iterator[tuple[str, set[str]]]:
    """Read the names of files and those columns that one of the wanted tags may stand in."""
    try:
        table = ParquetTable(data)
        first = "path" if "path" in table.names else table.names[0]
        keys = [key for key in table.names if key != first and any(tag.startswith(f"{key}=") for tag in required)]
        for names, *cells in table.read_rows([first, *keys]):
            columns = ((key, value) for key, values in zip(keys, cells, strict=True) for value in values if value)
            tags = {f"{key}={part}" for key, value in columns for part in value.split("|")}
            for name in names:
                yield name, tags
    except UnreadableTable as error:
        raise BadTagList(str(error)) from error


def _read_yaml(text: str) -> Iterator[tuple[str, set[str]]]:
    """Read events, and no more of the file than up to the first that does not belong into a list of tags."""
    events = _events_of(text)
    if not isinstance(next(events, None), MappingStartEvent):
        raise BadTagList("It is not a mapping of files to tags.")
    while isinstance(name := next(events), ScalarEvent):
        yield name.value, set(_read_tags(events))
    if not isinstance(name, MappingEndEvent):
        raise _misplaced(name)


def _events_of(text: str) -> Iterator[Event]:
    try:
        # The events of libyaml: in pure Python a file of this size would take seconds.
        for event in yaml.parse(text, Loader=yaml.CBaseLoader):
            if not isinstance(event, StreamStartEvent | DocumentStartEvent):
                yield event
    except (yaml.YAMLError, ValueError) as error:
        raise BadTagList(f"It is not YAML: {str(error).partition(chr(10))[0]}.") from error


def _read_tags(events: Iterator[Event]) -> Iterator[str]:
    """Read a text, a list of texts, or a mapping to these, whose keys go before."""
    first = next(events)
    if not isinstance(first, MappingStartEvent):
        yield from _read_texts(first, events)
        return
    while not isinstance(key := next(events), MappingEndEvent):
        for text in _read_texts(next(events), events):
            yield f"{_text(key)}={text}"


def _read_texts(first: Event, events: Iterator[Event]) -> Iterator[str]:
    if not isinstance(first, SequenceStartEvent):
        yield _text(first)
        return
    while not isinstance(item := next(events), SequenceEndEvent):
        yield _text(item)


def _text(event: Event) -> str:
    if not isinstance(event, ScalarEvent):
        raise _misplaced(event)
    return str(event.value)


def _misplaced(event: Event) -> BadTagList:
    line = event.start_mark.line + 1  # type: ignore[union-attr]  # events that were parsed have marks
    return BadTagList(f"Line {line} has something else than a text, a list of texts or a mapping to these.")
