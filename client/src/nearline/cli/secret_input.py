"""Reading what must not stand in an argument: keys from files, passwords and values from stdin."""

import sys
from pathlib import Path

import typer

from nearline.errors import InvalidRequest

_MOST_FILE_BYTES = 64 * 1024


def read_hidden(what: str) -> str:
    """Return what is typed unseen where somebody can be asked, else all of stdin; without the last end of line."""
    text = typer.prompt(what, hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.read()
    return str(text).removesuffix("\n").removesuffix("\r")


def read_file(path: Path) -> str:
    """Return the text of a small file. Raises InvalidRequest for what is none, also for what never ends."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_FILE_BYTES + 1)
        text = data.decode()
    except OSError as error:
        raise InvalidRequest(f"'{path}' cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"'{path}' is no text file.") from error
    if len(data) > _MOST_FILE_BYTES:
        raise InvalidRequest(f"'{path}' is larger than {_MOST_FILE_BYTES >> 10} KiB, which no key or kubeconfig is.")
    if not text.strip():
        raise InvalidRequest(f"'{path}' is empty.")
    return text
