"""How commands speak: data on stdout, everything else on stderr; JSON, quiet, or for people.

Names that come from elsewhere are made harmless before they reach a terminal.
"""

import json
import shutil
import sys
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

GOOD, BAD, NOTE = "✔", "✗", "!"
# So many cells of a sentence, with the gap before it, are shown on any terminal, however narrow.
_LEAST_PROSE = 22


class Speaks(Protocol):
    """A thing that can say itself in JSON."""

    def to_json(self) -> Mapping[str, Any]:
        """Return JSON types only."""
        ...


@dataclass
class Output:
    """Where a command puts what it has to say."""

    is_json: bool = False
    is_quiet: bool = False

    def table(
        self,
        items: Sequence[Speaks],
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        *,
        empty: str,
        next_cursor: str | None = None,
        ends_in_prose: bool = False,
    ) -> None:
        """Print many things: all of each in JSON, the first column alone when quiet, else a table.

        Sentences in the last column (`ends_in_prose`) end where the terminal does; where none reads, they are whole.
        """
        if self.is_json:
            self.json({"items": [item.to_json() for item in items], "next_cursor": next_cursor})
            return
        texts = [[printable(cell) for cell in row] for row in rows]
        if self.is_quiet:
            for row in texts:
                write(row[0])
        elif texts:
            shown = [columns, *texts]
            lines = align(shown)
            if ends_in_prose and sys.stdout.isatty():
                before = max(map(width, align([row[:-1] for row in shown])))
                cells = max(shutil.get_terminal_size().columns, before + _LEAST_PROSE)
                lines = [cut(line, cells) for line in lines]
            write("\n".join(lines))
        else:
            self.note(empty)

    def record(self, item: Speaks | Mapping[str, Any], fields: Sequence[tuple[str, object]]) -> None:
        """Print one thing: all of it in JSON, the first field alone when quiet, else a field a line."""
        if self.is_json:
            self.json(item)
        elif self.is_quiet:
            write(printable(fields[0][1]))
        else:
            shown = [[f"{name}:", printable(value)] for name, value in fields if value not in (None, "")]
            write("\n".join(align(shown)))

    def json(self, value: Speaks | Mapping[str, Any] | Sequence[Any]) -> None:
        """Print a value as JSON."""
        plain = value if isinstance(value, Mapping | list | tuple) else value.to_json()  # type: ignore[union-attr]
        write(json.dumps(plain, indent=2, default=str))

    def line(self, text: str) -> None:
        """Print a line of data, unless JSON was asked for."""
        if not self.is_json:
            write(text)

    def done(self, text: str, *, as_json: Speaks | Mapping[str, Any] | None = None) -> None:
        """Say on stderr that something went well; where JSON is asked for, print `as_json` instead, if it is given."""
        if as_json is not None and self.is_json:
            self.json(as_json)
        else:
            self.note(f"{GOOD} {text}")

    def warn(self, text: str) -> None:
        """Say on stderr what the user should know even when quiet."""
        say(f"{NOTE} {text}")

    def note(self, text: str) -> None:
        """Say something on stderr, unless quiet."""
        if not self.is_quiet:
            say(text)


def write(text: str) -> None:
    """Put a line on stdout."""
    sys.stdout.write(text + "\n")


def say(text: str) -> None:
    """Put a line on stderr, after what was written to stdout before."""
    sys.stdout.flush()
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows as lines whose columns start at the same place."""
    columns = max(map(len, rows), default=0)
    widths = [max(width(row[index]) for row in rows if index < len(row)) for index in range(columns)]
    return [
        "  ".join(cell + " " * (widths[index] - width(cell)) for index, cell in enumerate(row)).rstrip() for row in rows
    ]


def width(text: str) -> int:
    """Return how many cells of a terminal the text takes."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def cut(text: str, cells: int) -> str:
    """Return the text, or as much of its beginning as fits so many cells of a terminal, with an ellipsis."""
    if width(text) <= cells:
        return text
    ends = list(accumulate(map(width, text)))
    return text[: bisect_right(ends, cells - 1)] + "…"


def printable(value: object) -> str:
    """Return text for one cell: control characters and bytes that are no text appear as escapes."""
    if value is None:
        return "-"
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:02x}"
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(char) or (
        f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"  # noqa: PLR2004 (one byte)
    )
