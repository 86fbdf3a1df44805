"""The members of a project."""

from enum import StrEnum
from typing import Annotated

import typer

from nearline.cli import formats
from nearline.cli.asking import confirm
from nearline.cli.group import CommandGroup
from nearline.cli.options import Project, Yes
from nearline.cli.session import session_of

app = CommandGroup(help="Members of a project and their roles: list, set, remove.")

Person = Annotated[str, typer.Argument(metavar="NAME", help="The name with which the person signs in.")]


class Role(StrEnum):
    """What a member may do."""

    VIEWER = "viewer"
    MEMBER = "member"
    ADMIN = "admin"


@app.command("list")
def list_members(context: typer.Context, project: Project = None) -> None:
    """List the members of a project, oldest first."""
    session = session_of(context)
    members = list(session.client().members.list(session.project(project)))
    rows = [(member.username, member.role, formats.ago(member.created_at)) for member in members]
    session.out.table(members, ("NAME", "ROLE", "SINCE"), rows, empty="The project has no member.")


@app.command("set")
def set_role(
    context: typer.Context,
    username: Person,
    role: Annotated[Role, typer.Argument(help="Viewers read, members work, admins manage members and secrets too.")],
    project: Project = None,
) -> None:
    """Make a person a member, or change a member's role. For admins of the project."""
    session = session_of(context)
    project = session.project(project)
    member = session.client().members.set(project, username, role.value)
    session.out.record(member, [("Member", member.username), ("Role", member.role), ("Project", project)])


@app.command("remove")
def remove_member(context: typer.Context, username: Person, project: Project = None, *, yes: Yes = False) -> None:
    """End a person's membership. For admins of the project."""
    session = session_of(context)
    project, client = session.project(project), session.client()
    confirm(f"Remove {username} from {project}? What {username} has running there goes on.", yes=yes)
    client.members.remove(project, username)
    session.out.done(f"{username} is no member of {project} now.", as_json={"removed": username, "project": project})
