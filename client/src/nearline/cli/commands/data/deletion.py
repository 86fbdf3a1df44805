"""The end of a dataset, and its return."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from nearline.cli import formats
from nearline.cli.asking import confirm
from nearline.cli.commands.data.target import HERE, Ref, target_of
from nearline.cli.options import Project, Yes
from nearline.cli.session import Session, session_of
from nearline.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from nearline.models import Dataset, DeletedDataset

_COUNTED = 1000
_NAMED = 5
_ID = "ds_"


ForGood = Annotated[bool, typer.Option("--for-good", help="It cannot be restored; its bytes leave the store at once.")]


def delete(context: typer.Context, reference: Ref, *, for_good: ForGood = False, yes: Yes = False) -> None:
    """Delete a dataset with its whole history and its cached copies.

    It can be restored for some days, which the answer says. Only an admin of its project may. Runs that used it keep
    their records, and folders that are linked to it keep their files. With --for-good, where no dataset has the name,
    a deleted one does; or its id.
    """
    session = session_of(context)
    delete_dataset(session, reference, yes=yes, for_good=for_good)


def delete_dataset(session: Session, text: str, *, yes: bool, for_good: bool = False) -> None:
    """Say what is lost, ask, and delete. Raises InvalidRequest where only a part of a dataset is named."""
    if for_good and text.startswith(_ID):
        _delete_for_good(session, session.client().datasets.get_deleted(text), yes=yes)
        return
    target = target_of(session, text)
    if target.ref and text != HERE:
        raise InvalidRequest(
            f"A dataset is deleted as a whole, without '@{target.ref}'.",
            hint="`nearline data branch NAME --delete` deletes a branch, `nearline data tag NAME --delete` a tag.",
        )
    datasets = session.client().datasets
    try:
        dataset = datasets.get(target)
    except NotFound:
        if not for_good:
            raise
        _delete_for_good(session, datasets.get_deleted(target), yes=yes)
        return
    days = datasets.foresee_deletion(dataset.reference)
    end = f"It can be restored for {formats.count(days, 'day')}." if days and not for_good else "It cannot be restored."
    session.out.warn(f"{dataset.reference} will be deleted: {_describe_content(session, dataset)}. {end}")
    confirm(f"Delete {dataset.reference}{' for good' * for_good}?", yes=yes)
    _show_deleted(session, datasets.delete(dataset.reference, for_good=for_good))


def restore(
    context: typer.Context,
    reference: Annotated[str, typer.Argument(metavar="REF|ID", help="project/dataset as it was called, or its id.")],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="What to call it now, where its name is taken.")
    ] = None,
) -> None:
    """Restore a deleted dataset with its whole history. Its commits can be cached again."""
    session = session_of(context)
    target = reference if reference.startswith(_ID) else target_of(session, reference)
    dataset = session.client().datasets.restore(target, name=name)
    session.out.record(dataset, [("Restored", dataset.reference), ("Page", dataset.url)])


def list_deleted(context: typer.Context, project: Project = None) -> None:
    """List the deleted datasets that you may restore."""
    session = session_of(context)
    datasets = list(session.client().datasets.list_deleted(project=project))
    rows = [
        (
            item.reference,
            item.id,
            formats.size(item.stored_bytes),
            formats.ago(item.deleted_at),
            item.deleted_by or "-",
            formats.moment(item.restore_ends_at),
        )
        for item in datasets
    ]
    headings = ("DATASET", "ID", "STORED", "DELETED", "BY", "RESTORABLE UNTIL")
    session.out.table(datasets, headings, rows, empty="There is no deleted dataset that you may restore.")


def _delete_for_good(session: Session, deleted: "DeletedDataset", *, yes: bool) -> None:
    session.out.warn(
        f"{deleted.reference}, deleted {formats.ago(deleted.deleted_at)}, will be lost: "
        f"{formats.size(deleted.stored_bytes)} in the store."
    )
    confirm(f"Delete {deleted.reference} for good?", yes=yes)
    session.client().datasets.delete_for_good(deleted.id)
    _show_deleted(session, replace(deleted, restore_ends_at=None))


def _show_deleted(session: Session, deleted: "DeletedDataset") -> None:
    until = deleted.restore_ends_at
    rest = ("Restorable until", formats.moment(until)) if until else ("Restorable", "no")
    facts = {"deleted": deleted.reference, "id": deleted.id, "restore_ends_at": until.isoformat() if until else None}
    session.out.record(facts, [("Deleted", deleted.reference), rest])
    if until:
        session.out.note(f"`nearline data restore {deleted.reference}` brings it back.")


def _describe_content(session: Session, dataset: "Dataset") -> str:
    client, reference = session.client(), dataset.reference
    commits = sum(1 for _ in islice(client.datasets.list_commits(reference), _COUNTED))
    more = " or more" if commits == _COUNTED else ""
    files = f"{formats.count(dataset.files, 'file')} ({formats.size(dataset.size_bytes)})"
    copies = [copy for copy in client.caches.list() if copy.dataset == reference and copy.state != "gone"]
    parts = [
        f"{formats.count(commits, 'commit')}{more} on {dataset.default_branch}, {files} in the newest",
        _names("branches", (branch.name for branch in client.datasets.list_branches(reference))),
        _names("tags", (tag.name for tag in client.datasets.list_tags(reference))),
        _names("queries", (query.name for query in client.datasets.list_queries(reference))),
        _names("cached on", sorted({copy.site for copy in copies})),
        _names("in use now:", sorted({user for copy in copies for user in copy.users or ()})),
    ]
    return "; ".join(filter(None, parts))


def _names(what: str, names: Iterable[str]) -> str:
    known = list(names)
    more = len(known) - _NAMED
    return f"{what} {', '.join(known[:_NAMED])}" + (f" and {more} more" if more > 0 else "") if known else ""
