"""What happened to a dataset, and names for its commits."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from nearline.cli import formats
from nearline.cli.asking import confirm
from nearline.cli.commands.data.folder import tell_skipped
from nearline.cli.commands.data.target import (
    HERE,
    DatasetOption,
    Ref,
    dataset_or_here,
    get_linked_folder,
    linked_folder,
    target_of,
    tree_of,
)
from nearline.cli.group import accepts
from nearline.cli.options import Message, Yes
from nearline.cli.output import printable
from nearline.cli.progress import progress_of
from nearline.cli.session import Session, session_of
from nearline.errors import InvalidRequest
from nearline.resources.references import TreeReference, is_output

if TYPE_CHECKING:
    from nearline._http import Json
    from nearline.models import Commit

_MARKS = {"added": "+", "removed": "-", "changed": "~"}


def list_commits(
    context: typer.Context,
    reference: Ref = ".",
    limit: Annotated[int | None, typer.Option("--limit", "-l", min=1, help="Show at most so many.")] = None,
    commit: Annotated[str | None, typer.Option("--commit", "-c", help="Start at this commit.")] = None,
) -> None:
    """List the commits of a dataset, newest first."""
    session = session_of(context)
    target = target_of(session, reference, ref=commit)
    commits = list(session.client().datasets.list_commits(target, limit=limit))
    rows = [
        (
            item.short,
            formats.ago(item.created_at),
            item.author,
            formats.count(item.files, "file"),
            formats.size(item.size_bytes),
            f"+{item.added} -{item.removed} ~{item.changed}",
            ", ".join([*item.branches, *item.tags, *(_cached(place) for place in item.cached)]),
            item.message,
        )
        for item in commits
    ]
    columns = ("COMMIT", "MADE", "BY", "FILES", "SIZE", "CHANGE", "WHERE", "MESSAGE")
    session.out.table(commits, columns, rows, empty=f"{target.dataset} has no commit yet.", ends_in_prose=True)


def diff(
    context: typer.Context,
    base: Annotated[str | None, typer.Argument(metavar="A", help="The older state; else what B changed.")] = None,
    other: Annotated[str | None, typer.Argument(metavar="B", help="The newer state; else the newest.")] = None,
    dataset: DatasetOption = None,
) -> None:
    """Show what differs between two states of datasets, or outputs.

    A state is a branch, a tag, a commit, or `.` for the files of this folder. States of other datasets are written as
    project/dataset@ref, and outputs as run:RUN/STEP or job:NAME. Without arguments: what the newest commit changed.
    """
    session = session_of(context)
    datasets = session.client().datasets
    if any(each and is_output(each) for each in (base, other)):
        _show_difference(session, _compare_outputs(session, base, other, dataset))
        return
    if HERE in (base, other):
        _diff_folder(session, base, other)
        return
    first = datasets.parse(base) if base and "/" in base else None
    second = datasets.parse(other) if other and "/" in other else None
    named = second or first
    target = dataset_or_here(session, dataset or (named.dataset if named else None))
    newer = (second.ref if second else other) or target.ref or "latest"
    if first is not None:
        is_near = first.dataset == target.dataset
        base = (first.ref or "latest") if is_near else f"{first.dataset}@{first.ref or 'latest'}"
    if base is None:
        newest = datasets.get_commit(f"{target.dataset}@{newer}")
        if newest.parent is None:
            session.out.note(
                f"{newest.short} is the first commit: all of its {formats.count(newest.files, 'file')} are new."
            )
            if session.out.is_json:
                session.out.json({"added": newest.files, "removed": 0, "changed": 0, "items": [], "next_cursor": None})
            return
        base = newest.parent
    _show_difference(session, datasets.diff(target, base, newer))


def _compare_outputs(session: Session, base: str | None, other: str | None, dataset: str | None) -> "Json":
    """Return what differs between two states of which at least one is an output."""
    if HERE in (base, other):
        raise InvalidRequest(
            "A folder is compared with commits of its dataset, not with outputs.",
            hint="Clone the output, or keep it in the dataset: `nearline run keep`.",
        )
    if base is None or other is None:
        raise InvalidRequest(
            "Name what to compare the output with.", hint="As in `nearline data diff v1 run:RUN/STEP`."
        )

    def name(state: str) -> TreeReference:
        if is_output(state) or "/" in state:
            return tree_of(session, state)
        return dataset_or_here(session, dataset, ref=state)

    return session.client().datasets.compare(name(base), name(other))


def _show_difference(session: Session, answer: "Json") -> None:
    if session.out.is_json:
        session.out.json(answer)
        return
    for item in answer["items"]:
        sizes = f"  {formats.size(item.get('size_before'))} -> {formats.size(item.get('size_after'))}"
        path = printable(item["path"])
        mark = _MARKS.get(item["change"], "?")
        session.out.line(path if session.out.is_quiet else f"{mark} {path}" + (sizes if mark == "~" else ""))
    session.out.note(f"{answer['added']} added, {answer['removed']} removed, {answer['changed']} changed")


def _diff_folder(session: Session, base: str | None, other: str | None) -> None:
    """Show what differs between a commit and the files of this folder."""
    folder = get_linked_folder()
    ref = other if base == HERE else base
    if ref == HERE:
        raise InvalidRequest("A folder does not differ from itself.", hint="Name a branch, tag or commit: v1 .")
    if ref and "/" in ref:
        named = session.client().datasets.parse(ref)
        if named.dataset != folder.reference.dataset:
            raise InvalidRequest(f"This folder is linked to {folder.reference.dataset}, not to {named.dataset}.")
        ref = named.ref
    with progress_of(session.out) as progress:
        comparison = session.client().folders.compare(folder, ref or folder.branch, progress=progress)
    tell_skipped(session, comparison.skipped)
    if session.out.is_json:
        session.out.json(comparison)
        return
    # What only the folder has was added on the way to it, and removed on the way from it.
    is_forward = base != HERE
    more, fewer = (comparison.added, comparison.removed) if is_forward else (comparison.removed, comparison.added)
    for sign, paths in (("+", more), ("~", comparison.changed), ("-", fewer)):
        for path in paths:
            session.out.line(printable(path) if session.out.is_quiet else f"{sign} {printable(path)}")
    session.out.note(f"{len(more)} added, {len(fewer)} removed, {len(comparison.changed)} changed")


@accepts("--verbose/-v")
def revert(
    context: typer.Context,
    reference: Ref,
    commit: Annotated[str, typer.Argument(metavar="COMMIT", help="The commit to revert to.")],
    message: Message = "",
    branch: Annotated[str | None, typer.Option(help="Branch that gets the new commit; else the default one.")] = None,
    *,
    yes: Yes = False,
) -> None:
    """Make a new commit with the files of an older one.

    Nothing is lost: what is there now stays in the history.
    """
    session = session_of(context)
    datasets = session.client().datasets
    target = target_of(session, reference)
    on = branch or target.ref or datasets.get(target).default_branch
    confirm(f"Make {on} of {target.dataset} what it was at {commit}?", yes=yes, can_be_undone=True)
    made = datasets.revert(target, commit, branch=on, message=message)
    session.out.record(made, _commit_fields(made))


def branch(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A branch; without one, all are listed.")] = None,
    dataset: DatasetOption = None,
    *,
    delete: Annotated[bool, typer.Option("--delete", help="Remove the branch.")] = False,
    yes: Yes = False,
) -> None:
    """List the branches, or go to one.

    One that is missing is made at the commit that this folder is at.
    """
    session = session_of(context)
    datasets = session.client().datasets
    target = dataset_or_here(session, dataset)
    branches = datasets.list_branches(target)
    folder = None if dataset else linked_folder()
    if name is None:
        current = folder.branch if folder else None
        rows = [(item.name, (item.head or "-")[:8], "this folder" if item.name == current else "") for item in branches]
        session.out.table(branches, ("BRANCH", "COMMIT", ""), rows, empty="There is no branch yet.")
        return
    if delete:
        confirm(f"Remove the branch {name} of {target.dataset}?", yes=yes)
        datasets.delete_branch(target, name)
        session.out.done(f"Removed the branch {name}.{_what_stays(name, {item.name: item.head for item in branches})}")
        return
    known = next((item for item in branches if item.name == name), None)
    if known is None:
        known = datasets.create_branch(target, name, at=(folder and folder.base) or target.ref or "latest")
    if folder:
        folder.switch_branch(name)
        session.out.note(f"This folder is on {name} now; `nearline data sync` brings both together.")
    session.out.record(known, [("Branch", known.name), ("Commit", known.head)])


def _what_stays(name: str, named: Mapping[str, str | None]) -> str:
    commit = named.get(name)
    return f" Its commit {commit[:8]} stays and can be named again." if commit else ""


def tag(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A tag; without one, all are listed.")] = None,
    commit: Annotated[str | None, typer.Argument(metavar="COMMIT", help="What to tag; else the folder's.")] = None,
    dataset: DatasetOption = None,
    *,
    delete: Annotated[bool, typer.Option("--delete", help="Remove the tag.")] = False,
    yes: Yes = False,
) -> None:
    """List the tags, or give a commit a name that does not move."""
    session = session_of(context)
    datasets = session.client().datasets
    target = dataset_or_here(session, dataset)
    if name is None:
        tags = datasets.list_tags(target)
        rows = [(item.name, item.commit[:8]) for item in tags]
        session.out.table(tags, ("TAG", "COMMIT"), rows, empty="There is no tag yet.")
    elif delete:
        if commit is not None:
            raise InvalidRequest("A tag is removed by its name alone.")
        confirm(f"Remove the tag {name} of {target.dataset}?", yes=yes)
        named = {item.name: item.commit for item in datasets.list_tags(target)}
        datasets.delete_tag(target, name)
        session.out.done(f"Removed the tag {name}.{_what_stays(name, named)}")
    else:
        folder = None if dataset else linked_folder()
        made = datasets.create_tag(target, name, commit=commit or (folder and folder.base) or target.ref or "latest")
        session.out.record(made, [("Tag", made.name), ("Commit", made.commit)])


def damage(
    context: typer.Context,
    reference: Ref = HERE,
) -> None:
    """List the files that are damaged in the store.

    `nearline data sync` or `data put` with a good copy of them sends again what is damaged.
    """
    session = session_of(context)
    target = target_of(session, reference)
    report = session.client().datasets.get_damage(target)
    if session.out.is_json:
        session.out.json(report)
        return
    for path in report["files"]:
        session.out.line(printable(path))
    if not report["packs"]:
        session.out.done("Nothing is known to be damaged.")
        return
    left = report["files_total"] - len(report["files"])
    files = formats.count(report["files_total"], "file") + (f", {left:,} of them not listed," if left else "")
    packs = formats.count(len(report["packs"]), "damaged pack")
    session.out.note(f"{files} of {target} in {packs}. Run `nearline data sync` or `data put` where good copies are.")


def _commit_fields(commit: "Commit") -> list[tuple[str, object]]:
    return [
        ("Commit", commit.short),
        ("Files", formats.count(commit.files, "file")),
        ("Size", formats.size(commit.size_bytes)),
        ("Change", f"+{commit.added} -{commit.removed} ~{commit.changed}"),
        ("Message", commit.message),
    ]


def _cached(place: object) -> str:
    if not isinstance(place, dict):
        return str(place)
    state, percent = place.get("state"), place.get("percent")
    done = f" {percent:.0f} %" if state == "hydrating" and percent is not None else ""
    return f"{'cached on' if state == 'ready' else state} {place.get('site')}{done}"
