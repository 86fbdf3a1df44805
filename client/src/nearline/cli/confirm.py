"""Asking before something is destroyed."""

import sys

import typer

from nearline.errors import Failed, InvalidRequest


def confirm(question: str, *, yes: bool) -> None:
    """Return when the answer is yes. Raises Failed when it is no, InvalidRequest where nobody can be asked."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidRequest(f"{question} Nobody is here to answer.", hint="Add --yes.")
    if not typer.confirm(question, err=True):
        raise Failed("Nothing was changed.", code="client.declined")
