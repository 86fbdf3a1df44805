"""What is wrong with a flow file, each with its place: all problems are reported at once."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

Path = tuple[str | int, ...]

_LONGEST, _LONGEST_MESSAGE = 100, 1000
_LONGEST_WORD, _MOST_KNOWN = 100, 200
_QUOTATION = re.compile(r"'([^']*)'")


@dataclass(frozen=True)
class Problem:
    """One thing to mend, or (with `is_note`) one thing to know.

    `line` and `column` count from 1; None: unknown. `path` is the place in the file as it was written; `step` names the
    step that it is about and is empty for what concerns the whole flow.
    """

    line: int | None
    column: int | None
    path: str
    code: str
    message: str
    is_note: bool = False
    step: str = ""


@dataclass(frozen=True)
class Finding:
    """A problem before its line is known: where in the document, and what.

    `mistaken` is a name that does not exist and those that do: the message ends with the one that was probably meant.
    """

    path: Path
    code: str
    message: str
    is_note: bool = False
    mistaken: tuple[str, Sequence[str]] | None = None


def path_text(path: Path) -> str:
    """Write a place the way people do: `steps[2].grid.lr`. Long keys are cut."""
    text = ""
    for part in path:
        key = part if isinstance(part, int) or len(part) <= _LONGEST else f"{part[:_LONGEST]}…"
        text += f"[{key}]" if isinstance(part, int) else f".{key}" if text else str(key)
    return text


def shorten(message: str) -> str:
    """Cut long texts that a message quotes, so that a long text with a thousand faults is not told a thousand times."""
    text = _QUOTATION.sub(
        lambda quoted: f"'{quoted[1][:_LONGEST]}…'" if len(quoted[1]) > _LONGEST else quoted[0], message
    )
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}…"


def suggest(word: str, known: Sequence[str]) -> str:
    """Return ` Did you mean 'x'?` for a word that is nearly a known one, else nothing."""
    # Comparing two texts takes the product of their lengths: what is no slip of the pen is not looked at.
    close = get_close_matches(word, known[:_MOST_KNOWN], n=1) if len(word) <= _LONGEST_WORD else []
    return f" Did you mean '{close[0]}'?" if close else ""
