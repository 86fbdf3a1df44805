"""Run:AI's `config`."""

from typing import Annotated

import typer

from nearline.cli.commands.projects import remember_project
from nearline.cli.group import CommandGroup
from nearline.cli.session import session_of
from nearline.errors import InvalidRequest

app = CommandGroup(help="Run:AI's settings.")


@app.callback()
def settings() -> None:
    """Keep `config` a command of a group, though it is the only one."""


@app.command("config")
def config(
    context: typer.Context,
    what: Annotated[str, typer.Argument(metavar="project", help="What is set: only the project is.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="One of your projects.")],
) -> None:
    """Choose the project that commands use without -p."""
    if what != "project":
        raise InvalidRequest(
            f"'{what}' cannot be set.", code="client.argument_refused", hint="Write: config project NAME."
        )
    remember_project(session_of(context), name)
