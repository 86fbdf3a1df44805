"""Teams and what they own."""

from typing import Annotated

import typer

from nearline.cli.group import CommandGroup
from nearline.cli.session import session_of

app = CommandGroup(help="Teams and what they own.")


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
