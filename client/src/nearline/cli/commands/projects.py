"""Teams and what they own."""

from dataclasses import replace
from typing import Annotated

import typer

from nearline.cli import formats
from nearline.cli.group import CommandGroup
from nearline.cli.quantities import read_bytes
from nearline.cli.session import Session, session_of
from nearline.errors import NotFound
from nearline.settings import read_profile, write_profile

app = CommandGroup(help="Teams and what they own.")

_NONE = "none"


@app.command("list")
def list_projects(context: typer.Context) -> None:
    """List the projects that you are a member of."""
    session = session_of(context)
    projects = list(session.client().projects.list())
    rows = [(project.name, project.role, project.description or "") for project in projects]
    empty = "You are in no project. A site admin makes one: `nearline project create NAME`."
    session.out.table(projects, ("PROJECT", "ROLE", "DESCRIPTION"), rows, empty=empty)


@app.command("create")
def create_project(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Lower-case letters, digits and dashes.")],
    description: Annotated[str, typer.Option(help="What the team does.")] = "",
) -> None:
    """Make a project whose first admin is you."""
    session = session_of(context)
    project = session.client().projects.create(name, description=description)
    session.out.record(project, [("Project", project.name)])


@app.command("storage")
def show_storage(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="One of your projects.")],
    limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="The most that it may store, such as 10TB, or none. Site admins.")
    ] = None,
) -> None:
    """Show what a project stores and what takes most of it, or limit it."""
    session = session_of(context)
    projects = session.client().projects
    if limit is None:
        storage = projects.storage(name)
    else:
        storage = projects.limit_storage(name, None if limit == _NONE else read_bytes(limit))
    fields = [
        ("Project", storage.project),
        ("Stored", formats.size(storage.used_bytes)),
        ("Limit", _NONE if storage.limit_bytes is None else formats.size(storage.limit_bytes)),
        ("Leaving by itself", formats.size(storage.leaving_bytes)),
    ]
    session.out.record(storage, [*fields, *((part.label, formats.size(part.stored_bytes)) for part in storage.parts)])


@app.command("set")
def set_project(
    context: typer.Context, name: Annotated[str, typer.Argument(metavar="NAME", help="One of your projects.")]
) -> None:
    """Make a project the one that commands use without --project."""
    remember_project(session_of(context), name)


def remember_project(session: Session, name: str) -> None:
    """Note in the profile which project commands use. Raises NotFound for none of the caller's."""
    if name not in {project.name for project in session.client().projects.list()}:
        raise NotFound(f"You are in no project called '{name}'.", hint="List yours with `nearline project list`.")
    write_profile(replace(read_profile(), project=name))
    session.out.done(f"Project {name} has been set as default project.")
