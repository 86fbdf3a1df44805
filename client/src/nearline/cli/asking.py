"""What commands ask of people: a yes, and what must not stand in an argument: keys in files, passwords and values."""

import sys
from pathlib import Path

import typer

from nearline.errors import Failed, InvalidRequest, hint_for

_MOST_FILE_BYTES = 64 * 1024


def confirm(question: str, *, yes: bool, can_be_undone: bool = False) -> None:
    """Return when the answer is yes. Raises Failed when it is no, InvalidRequest where nobody can be asked.

    Scripts need not answer what can be undone.
    """
    if yes or (can_be_undone and not sys.stdin.isatty()):
        return
    if not sys.stdin.isatty():
        raise InvalidRequest(f"{question} Nobody is here to answer.", hint="Add --yes.")
    if not typer.confirm(question, err=True):
        raise Failed("Nothing was changed.", code="client.declined")


def read_hidden(what: str) -> str:
    """Return what is typed unseen where somebody can be asked, else all of stdin; without the last end of line.

    Raises InvalidRequest for nothing at all, for what is no text, and for what is longer than any secret.
    """
    if sys.stdin.isatty():
        return str(typer.prompt(what, hide_input=True, err=True))
    data = sys.stdin.buffer.read(_MOST_FILE_BYTES + 1)
    if len(data) > _MOST_FILE_BYTES:
        raise InvalidRequest(f"What came on stdin is longer than {_MOST_FILE_BYTES >> 10} KiB.")
    try:
        # Not through sys.stdin, which passes on what is no text where the locale is C or POSIX.
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest("What came on stdin is no text.") from error
    if not (secret := text.removesuffix("\n").removesuffix("\r")):
        raise InvalidRequest(f"Nothing came on stdin, where the {what.lower()} was to be.")
    return secret


def read_file(path: Path) -> str:
    """Return the text of a small file. Raises InvalidRequest for what is none, also for what never ends."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_FILE_BYTES + 1)
        text = data.decode()
    except OSError as error:
        raise InvalidRequest(f"'{path}' cannot be read: {error.strerror}.", hint=hint_for(error)) from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"'{path}' is no text file.") from error
    if len(data) > _MOST_FILE_BYTES:
        raise InvalidRequest(f"'{path}' is larger than {_MOST_FILE_BYTES >> 10} KiB, which no key or kubeconfig is.")
    if not text.strip():
        raise InvalidRequest(f"'{path}' is empty.")
    return text
