"""Writing logs: as they are into files and pipes, made harmless on a terminal."""

import re
import sys

from nearline.cli.output import printable

_STEERING = re.compile(r"\x1b(?!\[[0-9;]*m)|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]")


def write_log(text: str) -> None:
    """Write a piece of a log: as it is into files and pipes, made harmless on a terminal."""
    sys.stdout.write(harmless(text) if sys.stdout.isatty() else text)
    sys.stdout.flush()


def harmless(text: str) -> str:
    """Return a log without what could steer a terminal; colours, tabs and line breaks stay."""
    return _STEERING.sub(lambda match: printable(match[0]), text)
