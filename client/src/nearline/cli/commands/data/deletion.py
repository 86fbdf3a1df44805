"""The end of a dataset."""

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

import typer

from nearline.cli import formats
from nearline.cli.commands.data.target import HERE, Ref, target_of
from nearline.cli.confirm import confirm
from nearline.cli.options import Yes
from nearline.cli.session import Session, session_of
from nearline.errors import InvalidRequest

if TYPE_CHECKING:
    from nearline.models import Dataset

_COUNTED = 1000
_NAMED = 5


def delete(context: typer.Context, reference: Ref, *, yes: Yes = False) -> None:
    """Delete a dataset with its whole history and its cached copies.

    It cannot be undone. Only an admin of its project may. Runs that used it keep their records, and folders that are
    linked to it keep their files.
    """
    session = session_of(context)
    delete_dataset(session, reference, yes=yes)


def delete_dataset(session: Session, text: str, *, yes: bool) -> None:
    """Say what is lost, ask, and delete. Raises InvalidRequest where only a part of a dataset is named."""
    target = target_of(session, text)
    if target.ref and text != HERE:
        raise InvalidRequest(
            f"A dataset is deleted as a whole, without '@{target.ref}'.",
            hint="`nearline data branch NAME --delete` deletes a branch, `nearline data tag NAME --delete` a tag.",
        )
    dataset = session.client().datasets.get(target)
    session.out.warn(f"{dataset.reference} will be lost: {_describe_content(session, dataset)}.")
    confirm(f"Delete {dataset.reference} for good?", yes=yes)
    session.client().datasets.delete(dataset.reference)
    session.out.record({"deleted": dataset.reference}, [("Deleted", dataset.reference)])


def _describe_content(session: Session, dataset: "Dataset") -> str:
    client, reference = session.client(), dataset.reference
    commits = sum(1 for _ in islice(client.datasets.list_commits(reference), _COUNTED))
    more = " or more" if commits == _COUNTED else ""
    files = f"{formats.count(dataset.files, 'file')} ({formats.size(dataset.size_bytes)})"
    cached = {copy.site for copy in client.caches.list() if copy.dataset == reference and copy.state != "gone"}
    parts = [
        f"{formats.count(commits, 'commit')}{more} on {dataset.default_branch}, {files} in the newest",
        _names("branches", (branch.name for branch in client.datasets.list_branches(reference))),
        _names("tags", (tag.name for tag in client.datasets.list_tags(reference))),
        _names("queries", (query.name for query in client.datasets.list_queries(reference))),
        _names("cached on", sorted(cached)),
    ]
    return "; ".join(filter(None, parts))


def _names(what: str, names: Iterable[str]) -> str:
    known = list(names)
    more = len(known) - _NAMED
    return f"{what} {', '.join(known[:_NAMED])}" + (f" and {more} more" if more > 0 else "") if known else ""
