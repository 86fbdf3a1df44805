"""How commands speak: data on stdout, everything else on stderr; JSON, quiet, or for people.

A failure reads as what happened and why, then what to do next; never as a traceback.
Names and logs that come from elsewhere are made harmless before they reach a terminal.
"""

import errno
import json
import os
import re
import shutil
import sys
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

from nearline.errors import Failed, NearlineError, hint_for

GOOD, BAD, NOTE = "✔", "✗", "!"
# So many cells of a sentence, with the gap before it, are shown on any terminal, however narrow.
_LEAST_PROSE = 22
_STEERING = re.compile(r"\x1b(?!\[[0-9;]*m)|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]")


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


def write_log(text: str) -> None:
    """Write a piece of a log: as it is into files and pipes, made harmless on a terminal."""
    sys.stdout.write(harmless(text) if sys.stdout.isatty() else text)
    sys.stdout.flush()


def report(error: NearlineError, *, as_json: bool) -> None:
    """Write a failure to stderr, as JSON when the command speaks JSON."""
    if as_json:
        say(json.dumps(error.to_json(), default=str))
        return
    say(f"{BAD} {printable_lines(error.message)}")
    if error.hint:
        say(f"hint: {printable_lines(error.hint)}")


def failure_of(error: OSError) -> Failed:
    """Return what the system refused, as a failure."""
    reason = error.strerror or str(error)
    # Of two names, as of a link, the second is the one to be made.
    name = error.filename2 or error.filename
    if not name and error.errno == errno.ENOENT:
        # Only what asks for the folder one stands in has no name to give.
        return Failed("The folder that you are in was removed.", hint="Go to one that is there: cd DIR.")
    text, hint = os.fsdecode(name) if isinstance(name, bytes) else name, hint_for(error)
    message = f"'{printable(text)}' cannot be used: {reason}." if text else f"{reason}."
    return Failed(message, code="client.local_file" if text or hint else None, hint=hint)


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


def printable_lines(text: str) -> str:
    """Return text whose line breaks stay and whose other control characters are escaped."""
    return "\n".join(printable(line) for line in text.split("\n"))


def harmless(text: str) -> str:
    """Return a log without what could steer a terminal; colours, tabs and line breaks stay."""
    return _STEERING.sub(lambda match: printable(match[0]), text)


def _escaped(char: str) -> str:
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:02x}"
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(char) or (
        f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"  # noqa: PLR2004 (one byte)
    )
