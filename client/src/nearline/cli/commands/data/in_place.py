"""Files that a dataset refers to where they lie: imported, listed, checked, and promoted into the store."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearline.cli import formats
from nearline.cli.commands.data.target import HERE, Ref, target_of
from nearline.cli.session import Session, session_of
from nearline.errors import Failed, NotFound
from nearline.resources.references import Reference

if TYPE_CHECKING:
    from nearline.models import Import

ImportId = Annotated[str, typer.Option("--import", metavar="ID", help="Only this import.")]
_WORTH_IT = {"referenced", "promoting"}


def import_in_place(
    session: Session, target: Reference, source: str, path: Path, *, directory: str, message: str
) -> None:
    """Import a folder of a source in place, wait until it is done, and say what was read and written."""
    client = session.client()
    source_row = next((each for each in client.sources.list() if each.name == source), None)
    if source_row is None:
        raise NotFound(
            f"There is no source called '{source}' that you may import from.", hint="List them: `nearline source list`."
        )
    prefix = "" if path == Path() else path.as_posix()
    try:
        client.datasets.get(target)
    except NotFound:
        # A dataset is not made for what cannot be imported. Only a pod of its cluster can look into a site.
        if source_row.kind != "site":
            client.sources.preview(source, target.project, prefix)
        client.folders.ensure(target)
    asked = client.datasets.import_in_place(target, source, prefix, directory=directory, message=message)
    session.out.note(f"The server reads {source}:{prefix or '.'} (import {asked.id}).")
    record = client.sources.wait(asked.id)
    if record.state in {"failed", "cancelled"}:
        raise Failed(f"Nothing was imported: {record.error or 'it was cancelled.'}", code=record.error_code)
    for line in record.skipped:
        session.out.note(f"Left out: {line}")
    _show(session, record)


def list_imports(
    context: typer.Context,
    reference: Ref = HERE,
    *,
    check: Annotated[bool, typer.Option("--check", help="Compare with the sources first.")] = False,
) -> None:
    """List what was imported in place, and what changed in the source."""
    session = session_of(context)
    client, target = session.client(), target_of(session, reference)
    imports = list(client.datasets.list_imports(target))
    if check:
        imports = [client.sources.check(one.id) if one.state in _WORTH_IT else one for one in imports]
    rows = [
        (
            one.id,
            f"{one.source}:{one.prefix}",
            formats.state(one.state),
            formats.count(one.files, "file"),
            formats.size(one.referenced_bytes),
            str(one.changed_files or ""),
            formats.ago(one.checked_at),
        )
        for one in imports
    ]
    headings = ("ID", "FROM", "STATE", "FILES", "IN THE SOURCE", "CHANGED", "CHECKED")
    session.out.table(imports, headings, rows, empty="Nothing was imported in place.")
    for one in imports:
        for path in one.changed:
            session.out.note(f"Changed in {one.source}: {path}")
        if one.error:
            session.out.note(f"{one.id}: {one.error}")


def promote(context: typer.Context, reference: Ref = HERE, *, only: ImportId = "") -> None:
    """Copy what was imported in place into the store. Then nothing depends on the source any more."""
    session = session_of(context)
    client, target = session.client(), target_of(session, reference)
    ready = [one for one in client.datasets.list_imports(target) if one.state in _WORTH_IT and only in {"", one.id}]
    for one in ready:
        client.sources.promote(one.id)
    done = [client.sources.wait(one.id) for one in ready]
    if not done:
        session.out.done("There is nothing to promote.")
    for one in done:
        _show(session, one)
    if left := [one for one in done if one.state != "promoted"]:
        raise Failed(
            f"{formats.size(sum(one.referenced_bytes for one in left))} were not promoted: "
            + (left[0].error or f"{formats.count(left[0].changed_files, 'file')} changed in the source."),
            code=left[0].error_code or "datasets.source_file_changed",
            hint="`nearline data imports` names them.",
        )


def cancel(context: typer.Context, reference: Ref = HERE, *, only: ImportId = "") -> None:
    """Stop imports in place that are under way, or their promotion. What is in the store by then stays."""
    session = session_of(context)
    client, target = session.client(), target_of(session, reference)
    working = [one for one in client.datasets.list_imports(target) if one.is_working and only in {"", one.id}]
    for one in working:
        client.sources.cancel(one.id)
    for one in working:
        _show(session, client.sources.wait(one.id))
    if not working:
        session.out.done("There is nothing to cancel.")


def _show(session: Session, one: "Import") -> None:
    fields = [
        ("Import", one.id),
        ("From", f"{one.source}:{one.prefix}"),
        ("State", formats.state(one.state)),
        ("Commit", one.commit),
        ("Files", f"{one.files:,} ({formats.size(one.size_bytes)})"),
        ("Read", formats.size(one.read_bytes)),
        ("Written", formats.size(one.written_bytes)),
        ("In the source", formats.size(one.referenced_bytes)),
    ]
    session.out.record(one, fields)
