"""What commands that send code say of it."""

from collections.abc import Mapping, Sequence

from nearline.cli.output import Output

_NAMED = 5


def note_left_out(out: Output, left_out: Mapping[str, Sequence[str]]) -> None:
    """Say which files were not sent, by reason."""
    for why, names in left_out.items():
        named = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
        out.note(f"Left out of the code, {why}: {named}")
