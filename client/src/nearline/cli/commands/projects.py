"""Teams and what they own."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer

from nearline.cli import formats
from nearline.cli.asking import confirm
from nearline.cli.group import CommandGroup
from nearline.cli.options import Limit, Yes
from nearline.cli.quantities import NONE, read_bytes, read_or_none
from nearline.cli.session import Session, session_of
from nearline.errors import NotFound
from nearline.settings import read_profile, write_profile

if TYPE_CHECKING:
    from nearline.models import DeletedProject, DeletionEffect

app = CommandGroup(help="Teams and what they own.")

_NAMED = 5


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


@app.command("audit")
def list_audit_entries(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A project; else all that you are an admin of.")
    ] = None,
    limit: Limit = 50,
) -> None:
    """List who did what, newest first. For admins."""
    session = session_of(context)
    entries = list(session.client().projects.list_audit_entries(name, limit=limit))
    rows = [
        (formats.ago(entry.created_at), entry.actor_name, entry.action, f"{entry.target_kind} {entry.target_name}")
        for entry in entries
    ]
    session.out.table(entries, ("WHEN", "WHO", "ACTION", "TO"), rows, empty="Nothing has been done yet.")


@app.command("delete")
def delete_project(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A project that you are an admin of.")],
    *,
    for_good: Annotated[
        bool, typer.Option("--for-good", help="It cannot be restored; what it has is removed at once.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Delete a project with its jobs and data.

    What happens to them is told first. Then its work is stopped, and it is hidden.

    It can be restored for some days, which the answer says; then all that it has is removed. Only an admin of it, or a
    site admin, may. With --for-good, where it is deleted already, its time to be restored ends.
    """
    session = session_of(context)
    projects = session.client().projects
    deleted = next((item for item in projects.list_deleted() if item.name == name), None) if for_good else None
    if deleted is not None:
        confirm(f"Delete {name} for good?", yes=yes)
        projects.delete_for_good(name)
        _show_deleted(session, replace(deleted, restore_ends_at=None))
        return
    forecast = projects.foresee_deletion(name)
    can_return = forecast.restore_days and not for_good
    lines = [f"{name} will be deleted.", *chain.from_iterable(map(_describe, forecast.effects))]
    lines.append(
        f"It can be restored for {formats.count(forecast.restore_days, 'day')}."
        if can_return
        else "It cannot be restored."
    )
    session.out.warn("\n".join(lines))
    confirm(f"Delete {name}{' for good' * for_good}?", yes=yes)
    _show_deleted(session, projects.delete(name, for_good=for_good))


@app.command("deleted")
def list_deleted(context: typer.Context) -> None:
    """List the deleted projects that you may restore.

    So are those that are being removed, with what that waits for.
    """
    session = session_of(context)
    projects = list(session.client().projects.list_deleted())
    rows = [
        (
            item.name,
            formats.ago(item.deleted_at),
            item.deleted_by or "-",
            formats.moment(item.restore_ends_at),
            item.waits_for,
        )
        for item in projects
    ]
    headings = ("PROJECT", "DELETED", "BY", "RESTORABLE UNTIL", "REMOVAL")
    session.out.table(projects, headings, rows, empty="There is no deleted project that you may restore.")


@app.command("restore")
def restore_project(
    context: typer.Context, name: Annotated[str, typer.Argument(metavar="NAME", help="The deleted project.")]
) -> None:
    """Restore a deleted project with all that it had.

    What was stopped stays stopped. Its commits can be cached again.
    """
    session = session_of(context)
    project = session.client().projects.restore(name)
    session.out.record(project, [("Restored", project.name)])


def _describe(effect: "DeletionEffect") -> Iterator[str]:
    yield f"  {effect.text}"
    named = effect.items[:_NAMED]
    yield from (f"    {item.name}  {item.text}".rstrip() for item in named)
    if named and effect.count > len(named):
        yield f"    and {effect.count - len(named)} more"


def _show_deleted(session: Session, deleted: "DeletedProject") -> None:
    until = deleted.restore_ends_at
    session.out.record(
        deleted,
        [("Deleted", deleted.name), ("Restorable until", formats.moment(until)) if until else ("Restorable", "no")],
    )
    if until:
        session.out.note(f"`nearline project restore {deleted.name}` brings it back.")


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
    storage = projects.storage(name) if limit is None else projects.limit_storage(name, read_or_none(read_bytes, limit))
    fields = [
        ("Project", storage.project),
        ("Stored", formats.size(storage.used_bytes)),
        ("Limit", NONE if storage.limit_bytes is None else formats.size(storage.limit_bytes)),
        ("Leaving by itself", formats.size(storage.leaving_bytes)),
    ]
    if storage.unused_bytes and storage.freed_at:
        until = formats.moment(storage.freed_at)
        words = f"{formats.size(storage.unused_bytes)} of uploads that no commit uses, freed by {until}"
        fields.insert(2, ("of these", words))
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
