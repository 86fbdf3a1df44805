"""What is wrong with a flow file, each with its place: all problems are reported at once."""

from collections.abc import Sequence
from dataclasses import dataclass

Path = tuple[str | int, ...]


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
    """Write a place the way people do: `steps[2].grid.lr`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
