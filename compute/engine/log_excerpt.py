"""Why a job failed, by its own words: the last lines of its log that tell something, and the one that tells most."""

import re
from dataclasses import dataclass

_MOST_LINES, _LONGEST_LINE = 12, 300
_TRACEBACK = "Traceback (most recent call last):"
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PROTOCOL = ("::nearline ", "cnvrg_tag_", "cnvrg_linechart_")


@dataclass(frozen=True)
class Excerpt:
    """`headline` is the line that says most, empty without any; `lines` are the last ones, up to it or to the end."""

    headline: str
    lines: tuple[str, ...]


def find_excerpt(log_end: str) -> Excerpt:
    """Read the end of a log. Lines for the platform and empty ones are left out; of a progress bar its last state.

    The headline is the exception of the last Python traceback, else the last line.
    """
    lines = [line for raw in log_end.split("\n") if (line := _clean(raw)).strip() and not line.startswith(_PROTOCOL)]
    if not lines:
        return Excerpt("", ())
    place = _exception_in(lines)
    end = len(lines) - 1 if place is None else place
    return Excerpt(_cut(lines[end].strip()), tuple(map(_cut, lines[max(0, end + 1 - _MOST_LINES) : end + 1])))


def _exception_in(lines: list[str]) -> int | None:
    """Return where the exception of the last traceback stands: the first line after it that is not indented."""
    begins = [number for number, line in enumerate(lines) if line.endswith(_TRACEBACK)]
    if not begins:
        return None
    # A launcher may put the same in front of every line, such as `[rank0]: `.
    prefix = lines[begins[-1]].removesuffix(_TRACEBACK)
    for number in range(begins[-1] + 1, len(lines)):
        message = lines[number].removeprefix(prefix)
        if not message.startswith((" ", "\t")):
            return number
    return None


def _clean(line: str) -> str:
    shown = _COLOUR.sub("", line.rstrip("\r")).rpartition("\r")[2]
    return "".join(char for char in shown if char.isprintable() or char == "\t").rstrip()


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"
