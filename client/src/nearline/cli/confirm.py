"""Asking before something is destroyed."""

import sys

import typer

from nearline.errors import Failed, InvalidRequest


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
