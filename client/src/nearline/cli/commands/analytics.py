"""What happened on the clusters: evictions with their receipts, and what projects consumed."""

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from nearline.cli import formats
from nearline.cli.group import CommandGroup
from nearline.cli.options import Limit, Project
from nearline.cli.output import Output
from nearline.cli.session import session_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nearline.models import Consumption, Eviction

app = CommandGroup(help="What happened on the clusters: evictions, what projects consumed, and idle GPUs.")


@app.command("evictions")
def list_evictions(
    context: typer.Context,
    project: Project = None,
    job: Annotated[str | None, typer.Option("--job", help="Only those of this job.")] = None,
    limit: Limit = 20,
    *,
    weekly: Annotated[bool, typer.Option("--weekly", help="Count them by project and week.")] = False,
) -> None:
    """List evictions with their receipts, newest first."""
    session = session_of(context)
    if not weekly:
        evictions = list(session.client().analytics.list_evictions(job=job, project=project, limit=limit))
        show_evictions(session.out, evictions)
        return
    weeks = list(session.client().analytics.list_eviction_weeks(project=project))
    rows = [
        (week.begins_at.date(), week.project, week.evictions, week.moves, _gpu_time(week.lost_gpu_s)) for week in weeks
    ]
    columns = ("WEEK", "PROJECT", "EVICTIONS", "MOVES", "LOST")
    session.out.table(weeks, columns, rows, empty="There was no eviction.")


@app.command("consumption")
def list_consumption(
    context: typer.Context,
    project: Project = None,
    days: Annotated[float, typer.Option("--days", min=0.01, max=800, help="Of the last so many days.")] = 1,
    *,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print a table for a spreadsheet.")] = False,
) -> None:
    """List what projects consumed.

    GPU hours, and their price where templates have one.
    """
    session = session_of(context)
    since = datetime.fromtimestamp(time.time() - 86400 * days, UTC)
    consumption = list(session.client().analytics.list_consumption(project=project, since=since))
    amounts = [(f"{each.gpu_s / 3600:.2f}", f"{each.price:.2f}") for each in consumption]
    if as_csv:
        session.out.line("project,pool,gpu_hours,price,has_simulated")
        for each, (hours, price) in zip(consumption, amounts, strict=True):
            session.out.line(f"{each.project},{each.pool},{hours},{price},{str(each.has_simulated).lower()}")
        return
    rows = [(each.project, _pool(each.pool, each), *amount) for each, amount in zip(consumption, amounts, strict=True)]
    columns = ("PROJECT", "POOL", "GPU HOURS", "PRICE")
    session.out.table(consumption, columns, rows, empty="Nothing was consumed in this time.")


@app.command("idle")
def list_idle_gpus(context: typer.Context, project: Project = None) -> None:
    """List who holds GPUs that were not used over the last ten minutes.

    Those whose use nobody measures come last.
    """
    session = session_of(context)
    holders = list(session.client().analytics.list_idle_gpus(project=project))
    rows = [
        (
            each.label,
            each.project,
            each.submitted_by,
            f"{each.resource} {each.node}",
            formats.gpus(each.gpu_milli),
            each.text,
        )
        for each in holders
    ]
    columns = ("JOB", "PROJECT", "BY", "WHERE", "GPUS", "USE")
    session.out.table(holders, columns, rows, empty="No GPU is held and idle.")


def show_evictions(out: Output, evictions: "Sequence[Eviction]") -> None:
    """Print receipts, one a row."""
    rows = [
        (
            formats.ago(each.evicted_at),
            each.label,
            each.project,
            _pool(each.pool or "-", each),
            f"{each.claimant_label} of {each.claimant_project}" if each.claimant else each.claimant_label or "-",
            _gpu_time(each.lost_gpu_s),
            "; ".join(f"{other['label']}: {other['why_text']}" for other in each.alternatives) or "-",
            each.rule,
        )
        for each in evictions
    ]
    columns = ("WHEN", "STOPPED", "PROJECT", "POOL", "FOR", "LOST", "INSTEAD OF", "RULE")
    out.table(evictions, columns, rows, empty="There was no eviction.")


def _pool(name: str, record: "Consumption | Eviction") -> str:
    return name + formats.simulated(record.has_simulated)


def _gpu_time(gpu_seconds: float) -> str:
    """Write seconds of one GPU: `40 GPU-s`, `26 GPU-min`, `4.2 GPU-h`."""
    if gpu_seconds < 60:  # noqa: PLR2004
        return f"{gpu_seconds:.2g} GPU-s"
    if gpu_seconds < 2 * 3600:
        return f"{gpu_seconds / 60:.3g} GPU-min"
    return f"{gpu_seconds / 3600:,.1f} GPU-h"
