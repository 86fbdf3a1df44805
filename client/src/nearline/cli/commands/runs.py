"""Executions of flows."""

from typing import Annotated

import typer

from nearline.cli import formats
from nearline.cli.asking import confirm
from nearline.cli.following import check_success, follow_run, show_run
from nearline.cli.group import CommandGroup
from nearline.cli.options import Limit, Project, Timeout, Wait, Yes
from nearline.cli.output import printable, write_log
from nearline.cli.session import Session, session_of
from nearline.resources.steps import find_labelled, find_step, parse_step

app = CommandGroup(help="Executions of flows: show, logs, cancel, retry, delete.")

RunId = Annotated[str, typer.Argument(metavar="RUN", help="As it is shown: an id, flow#1 or 'project/flow #1'.")]
From = Annotated[
    str,
    typer.Option(
        "--from", metavar="STEP", help="Retry this step, succeeded or not, and all after it: `train`, 'train C=10'."
    ),
]


@app.command("list")
def list_runs(
    context: typer.Context,
    project: Project = None,
    flow: Annotated[str | None, typer.Option(help="Only runs of this flow.")] = None,
    state: Annotated[str | None, typer.Option(help="Only runs in this state.")] = None,
    limit: Limit = 20,
) -> None:
    """List runs, newest first."""
    session = session_of(context)
    runs = list(session.client().runs.list(project=project, flow=flow, state=state, limit=limit))
    rows = [
        (
            run.id,
            f"{run.project}/{run.flow} #{run.number}",
            formats.state(run.state),
            formats.ago(run.created_at),
            formats.duration(run.raw.get("total_s")),
            run.created_by,
            (run.reason or "").partition("\n")[0],
        )
        for run in runs
    ]
    session.out.table(
        runs,
        ("RUN", "FLOW", "STATE", "STARTED", "TOTAL", "BY", "WHY"),
        rows,
        empty="There is no run.",
        ends_in_prose=True,
    )


@app.command("show")
def show(context: typer.Context, run_id: RunId, *, wait: Wait = False, timeout: Timeout = None) -> None:
    """Show a run and its steps."""
    session = session_of(context)
    if wait:
        follow_run(session, run_id, timeout_s=timeout)
    else:
        show_run(session, session.client().runs.get(run_id))


@app.command("logs")
def logs(
    context: typer.Context,
    run_id: RunId,
    step: Annotated[
        str | None, typer.Argument(metavar="STEP", help="As `train`, 'train C=10' or 'train[1]'; else all.")
    ] = None,
    attempt: Annotated[int | None, typer.Option(min=1, help="Which try; else the newest.")] = None,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the end.")] = False,
) -> None:
    """Print what a step, or each step, has written."""
    session = session_of(context)
    run = session.client().runs.get(run_id)
    steps = [find_step(run, step)] if step else list(run.steps)
    texts = []
    for item in steps:
        if len(steps) > 1:
            session.out.note(f"--- {item.label}")
        pieces = session.client().runs.follow_log(
            run.id, item.key, index=item.index, attempt=attempt, is_following=follow
        )
        text = ""
        for piece in pieces:
            if session.out.is_json:
                text += piece
            else:
                write_log(piece)
        texts.append({"step": item.key, "index": item.index, "text": text})
    if session.out.is_json:
        session.out.json({"items": texts})
    if follow:
        _check_end(session, run.id)


@app.command("cancel")
def cancel(context: typer.Context, run_id: RunId) -> None:
    """Stop what runs and start nothing more."""
    session = session_of(context)
    show_run(session, session.client().runs.cancel(run_id))


@app.command("retry")
def retry(
    context: typer.Context, run_id: RunId, *, start: From = "", wait: Wait = False, timeout: Timeout = None
) -> None:
    """Try the failed steps again; or one step and all after it. The rest is kept."""
    session = session_of(context)
    runs = session.client().runs
    labelled = find_labelled(runs.get(run_id), start) if start else None
    step, index = (labelled.key, labelled.index) if labelled is not None else parse_step(start)
    run = runs.retry(run_id, step=step, index=index)
    if wait:
        follow_run(session, run.id, timeout_s=timeout)
    else:
        show_run(session, run)


@app.command("delete")
def delete_run(context: typer.Context, run_id: RunId, *, yes: Yes = False) -> None:
    """Delete a run that has ended, with all that it left. It cannot be restored.

    Its steps, logs, outputs and experiments go. Dataset versions that were kept of its outputs stay. Who started it may
    delete it, and admins of its project.
    """
    session = session_of(context)
    runs = session.client().runs
    run = runs.get(run_id)
    effects = runs.foresee_deletion(run.id)
    session.out.warn(printable(" ".join([f"{run.project}/{run.flow} #{run.number} will be deleted.", *effects])))
    confirm(f"Delete {run.flow} #{run.number}?", yes=yes)
    runs.delete(run.id)
    session.out.record({"deleted": run.id}, [("Deleted", run.id)])


@app.command("keep")
def keep(
    context: typer.Context,
    run_id: RunId,
    step: Annotated[str, typer.Argument(metavar="STEP", help="As `train`, 'train C=10' or 'train[1]'.")],
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="A dataset of the run's project.")],
    *,
    message: Annotated[str, typer.Option("--message", "-m", help="What the version is.")] = "",
    create: Annotated[bool, typer.Option("--create", help="Create the dataset if there is none.")] = False,
    allow_collisions: Annotated[
        bool, typer.Option("--allow-collisions", help="Allow names that differ only in case or Unicode form.")
    ] = False,
) -> None:
    """Keep the output of a step as the newest version of a dataset. Nothing is copied."""
    session = session_of(context)
    runs = session.client().runs
    run = runs.get(run_id)
    step_record = find_step(run, step)
    commit = runs.keep(
        run.id,
        step_record.key,
        dataset,
        index=step_record.index,
        message=message,
        create=create,
        allow_collisions=allow_collisions,
    )
    session.out.record(
        commit,
        (
            ("dataset", commit.dataset),
            ("branch", commit.branch),
            ("commit", commit.commit),
            ("files", f"{commit.files:,}"),
            ("size", formats.size(commit.size_bytes)),
        ),
    )


def _check_end(session: Session, run_id: str) -> None:
    run = session.client().runs.get(run_id)
    if run.is_finished:
        check_success(run)
