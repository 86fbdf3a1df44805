"""Bringing the commits of one branch to another one."""

from typing import Annotated

import typer

from nearline.cli import formats
from nearline.cli.commands.data.target import DatasetOption, dataset_or_here
from nearline.cli.options import Message
from nearline.cli.output import printable
from nearline.cli.session import Session, session_of
from nearline.errors import Conflict, InvalidRequest
from nearline.resources.references import Reference

_CHOICES = ("ours", "theirs", "both")
_NOTHING = "datasets.nothing_to_merge"


def merge(
    context: typer.Context,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The branch, tag or commit to merge.")],
    into: Annotated[str | None, typer.Option("--into", metavar="BRANCH", help="Else the folder's, or main.")] = None,
    message: Message = "",
    dataset: DatasetOption = None,
    *,
    resolve: Annotated[
        str | None, typer.Option(metavar="ours|theirs|both", help="For all files that both changed.")
    ] = None,
    ours: Annotated[list[str] | None, typer.Option(metavar="PATH", help="Keep the version of the branch.")] = None,
    theirs: Annotated[list[str] | None, typer.Option(metavar="PATH", help="Take the version of SOURCE.")] = None,
    both: Annotated[list[str] | None, typer.Option(metavar="PATH", help="Keep both; theirs as NAME.conflict.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what it would do.")] = False,
    allow_collisions: Annotated[
        bool, typer.Option("--allow-collisions", help="Also names that differ only in case or Unicode form.")
    ] = False,
) -> None:
    """Merge a branch into another one, as one commit.

    Files that both changed stop it, and nothing is merged, until you say whose version stays: for all of them with
    --resolve, or for each with --ours, --theirs and --both.
    """
    session = session_of(context)
    if resolve is not None and resolve not in _CHOICES:
        raise InvalidRequest(f"'{resolve}' is none of {', '.join(_CHOICES)}.")
    target = dataset_or_here(session, dataset, ref=into)
    datasets = session.client().datasets
    try:
        if dry_run:
            _tell_plan(session, target, source)
            return
        choices = {
            path: keep for keep, paths in zip(_CHOICES, (ours, theirs, both), strict=True) for path in paths or ()
        }
        made = datasets.merge(
            target,
            source,
            choices=choices,
            otherwise=resolve,
            message=message,
            allow_collisions=allow_collisions,
        )
    except Conflict as error:
        if error.code != _NOTHING or session.out.is_json:
            raise
        session.out.done(error.message)
        return
    session.out.record(
        made,
        [
            ("Commit", made.short),
            ("Parents", f"{(made.parent or '')[:8]} and {(made.merged or '')[:8]}"),
            ("Change", f"+{made.added} -{made.removed} ~{made.changed}"),
            ("Message", made.message),
        ],
    )


def _tell_plan(session: Session, target: Reference, source: str) -> None:
    plan = session.client().datasets.plan_merge(target, source)
    if session.out.is_json:
        session.out.json(plan)
        return
    for item in plan["items"]:
        path = printable(item["path"])
        sides = " -> ".join(
            formats.size(item[side]["size_bytes"]) if item[side] else "not there" for side in ("base", "ours", "theirs")
        )
        session.out.line(path if session.out.is_quiet else f"! {path}  {sides}")
    session.out.note(
        f"{plan['added']} added, {plan['removed']} removed, {plan['changed']} changed, "
        f"{formats.count(plan['conflicts'], 'file')} changed on both sides"
    )
