"""Runs on the terminal: shown as they are, and followed to their end."""

from typing import TYPE_CHECKING

from nearline.cli import formats
from nearline.cli.session import Session
from nearline.errors import Failed

if TYPE_CHECKING:
    from nearline.models import Run, Step


def show_run(session: Session, run: "Run") -> None:
    """Print a run and its steps."""
    out = session.out
    if out.is_json or out.is_quiet:
        out.record(run, [("Run", run.id)])
        return
    fields = [
        ("Run", run.id),
        ("Flow", f"{run.project}/{run.flow} #{run.number}"),
        ("State", formats.state(run.state)),
        ("Why", run.reason),
        ("Parameters", ", ".join(f"{key}={value}" for key, value in (run.parameters or {}).items())),
        ("Started", f"{formats.ago(run.started_at)} by {run.created_by}" if run.started_at else None),
        ("Page", run.url),
    ]
    out.record(run, fields)
    if run.steps:
        out.line("")
        rows = [
            (
                step.label,
                formats.state(step.state),
                formats.duration(step.seconds),
                step.template or "",
                f"{step.reason or ''}. What would help: {step.advice}" if step.advice else step.reason or "",
            )
            for step in run.steps
        ]
        out.table(run.steps, ("STEP", "STATE", "TOOK", "WHERE", "WHY"), rows, empty="")


def follow_run(session: Session, run_id: str, *, timeout_s: float | None = None) -> None:
    """Say what changes in a run until it has ended, then show it. Raises Failed unless it succeeded."""
    seen: dict[str, tuple[str, str | None]] = {}

    def tell(run: "Run") -> None:
        for step in run.steps:
            if seen.get(step.label) != (step.state, step.reason):
                seen[step.label] = (step.state, step.reason)
                session.out.note(_step_line(step))

    run = session.client().runs.wait(run_id, on_change=tell, timeout_s=timeout_s)
    show_run(session, run)
    check_success(run)


def check_success(run: "Run") -> None:
    """Raise Failed when a finished run did not succeed."""
    if run.has_succeeded:
        return
    failed = [step for step in run.steps if step.state == "failed"]
    why = run.reason or "; ".join(f"{step.label}: {step.reason or 'it failed'}" for step in failed)
    hint = f"Read its log: nearline run logs {run.id}" + (f" {failed[0].key}" if failed else "")
    raise Failed(f"Run {run.id} {run.state}" + (f": {why}" if why else "."), code=f"runs.{run.state}", hint=hint)


def _step_line(step: "Step") -> str:
    where = f" on {step.template}" if step.template else ""
    why = f": {step.reason}" if step.reason else ""
    took = f" after {formats.duration(step.seconds)}" if step.seconds is not None else ""
    return f"  {formats.state(step.state)}  {step.label}{where}{took}{why}"
