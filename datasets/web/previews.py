"""What of a file can be shown beside its name: a picture, the beginning of a text, the first rows of a table.

Pictures are shown by the browser only if they are plain pixels: a file that could hold a script is never one of them.
"""

import csv
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from datasets.selectors.files import FileContent
from datasets.web.paths import show_path
from nearline.content.manifest import Entry, EntryKind

PIXELS = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".bmp": "image/bmp",
    ".avif": "image/avif",
}
"""Endings of pictures that a page may show, with the type that they are sent as."""

MAX_TEXT_BYTES = 64 * 1024
MAX_PICTURE_BYTES = 20 * 1024 * 1024
_TABLES = {".csv": ",", ".tsv": "\t"}
_MAX_ROWS, _MAX_COLUMNS = 50, 30


@dataclass(frozen=True)
class Preview:
    """`kind` is picture, table, text, link, or none; the other fields belong to one of these."""

    kind: str
    text: str = ""
    rows: list[list[str]] = field(default_factory=list)
    is_cut: bool = False


def picture_type(path: bytes) -> str | None:
    """Return the type as which a file is sent to be shown; None when it is not a plain picture by its name."""
    return PIXELS.get(_ending(path))


def is_picture(entry: Entry) -> bool:
    """Whether a page may show the file as a picture."""
    return entry.kind is EntryKind.FILE and picture_type(entry.path) is not None and entry.size <= MAX_PICTURE_BYTES


def preview_of(content: FileContent) -> Preview:
    """Return what can be shown of a file, having read no more of it than that."""
    entry = content.entry
    if entry.kind is EntryKind.SYMLINK:
        return Preview("link", text=show_path(entry.target))
    if is_picture(entry):
        return Preview("picture")
    head = b"".join(content.read(0, MAX_TEXT_BYTES))
    text = _as_text(head, is_cut=len(head) < entry.size)
    if text is None:
        return Preview("none")
    delimiter = _TABLES.get(_ending(entry.path))
    if delimiter and (rows := _as_rows(text, delimiter)):
        return Preview("table", rows=rows, is_cut=len(head) < entry.size or len(rows) == _MAX_ROWS)
    return Preview("text", text=text, is_cut=len(head) < entry.size)


def _ending(path: bytes) -> str:
    return PurePosixPath(show_path(path)).suffix.lower()


def _as_text(head: bytes, *, is_cut: bool) -> str | None:
    if b"\0" in head:
        return None
    try:
        return head.decode()
    except UnicodeDecodeError as error:
        # The cut may have gone through the middle of a character.
        return head[: error.start].decode() if is_cut and error.start > len(head) - 4 else None


def _as_rows(text: str, delimiter: str) -> list[list[str]]:
    lines = text.splitlines()[:_MAX_ROWS]
    try:
        return [row[:_MAX_COLUMNS] for row in csv.reader(lines, delimiter=delimiter)]
    except csv.Error:
        return []
