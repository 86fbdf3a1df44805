"""Runs on the terminal: shown as they are, and followed to their end."""

import shlex
from typing import TYPE_CHECKING

from nearline.cli import formats
from nearline.cli.output import printable
from nearline.cli.session import Session
from nearline.errors import Failed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

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
        ("Why", _one_line(run.reason)),
        ("Parameters", ", ".join(f"{key}={value}" for key, value in (run.parameters or {}).items())),
        ("Started", f"{formats.ago(run.started_at)} by {run.created_by}" if run.started_at else None),
        ("Time", formats.times(run.times)),
        ("Page", run.url),
    ]
    out.record(run, fields)
    for failure in run.raw.get("failures") or ():
        out.note(
            f"{failure['message']} It tries again at {failure['next_try_at'][11:19]} UTC; log id {failure['log_id']}."
        )
    if run.steps:
        out.line("")
        rows = [
            (
                step.label,
                formats.state(step.state),
                formats.duration(step.times.get("waited_s")),
                formats.duration(step.times.get("ran_s")),
                (step.template or "") + formats.simulated(step.is_simulated),
                _why(step),
            )
            for step in run.steps
        ]
        out.table(run.steps, ("STEP", "STATE", "WAITED", "RAN", "WHERE", "WHY"), rows, empty="")
        for step in run.steps:
            if step.state == "failed" and step.last_lines:
                out.line(f"\n{printable(step.label)}, last lines of its log:")
                for line in step.last_lines.splitlines():
                    out.line(f"  {printable(line)}")
        for step in run.steps:
            if step.attempts:
                _tell_log_problems(session, step.label, step.attempts[-1].get("log_problems") or {})


def _tell_log_problems(session: Session, label: str, problems: "Mapping[str, Any]") -> None:
    """Say which lines of a step's log were to record something and could not be read."""
    count = problems.get("count", 0)
    if not count:
        return
    session.out.note(f"{label}: {count} log line{'' if count == 1 else 's'} could not be read")
    for problem in problems["first"]:
        session.out.note(printable(f"  {problem['reason']}" + (f": {problem['line']}" if problem["line"] else "")))
    if count > len(problems["first"]):
        session.out.note(f"  and {count - len(problems['first'])} more")


def follow_run(session: Session, run_id: str, *, timeout_s: float | None = None) -> None:
    """Say what changes in a run until it has ended, then show it. Raises Failed unless it succeeded."""
    seen: dict[str, tuple[str, str | None]] = {}

    def tell(run: "Run") -> None:
        for step in run.steps:
            if seen.get(step.label) != (step.state, step.reason):
                seen[step.label] = (step.state, step.reason)
                session.out.note(_step_line(step))

    try:
        run = session.client().runs.wait(run_id, on_change=tell, timeout_s=timeout_s)
    except KeyboardInterrupt:
        session.out.note(f"\nRun {run_id} goes on: `nearline run show {run_id}`, or `nearline run cancel {run_id}`.")
        raise
    show_run(session, run)
    check_success(run)


def check_success(run: "Run") -> None:
    """Raise Failed when a finished run did not succeed."""
    if run.has_succeeded:
        return
    failed = [step for step in run.steps if step.state == "failed"]
    why = _one_line(run.reason) or "; ".join(f"{step.label}: {step.reason or 'it failed'}" for step in failed)
    hint = f"Read its log: nearline run logs {run.id}" + (f" {shlex.quote(failed[0].label)}" if failed else "")
    raise Failed(f"Run {run.id} {run.state}" + (f": {why}" if why else "."), code=f"runs.{run.state}", hint=hint)


def _step_line(step: "Step") -> str:
    where = f" on {step.template}{formats.simulated(step.is_simulated)}" if step.template else ""
    why = f": {step.reason}" if step.reason else ""
    ran_s = step.times.get("ran_s") if step.finished_at is not None else None
    ran = f", ran {formats.duration(ran_s)}" if ran_s is not None else ""
    return f"  {formats.state(step.state)}  {step.label}{where}{ran}{why}"


def _why(step: "Step") -> str:
    """Say why a step is where it is and, while it waits, what would help and until when."""
    if outlook := step.raw.get("outlook"):
        return str(outlook["text"])
    reasons = [step.reason or ""]
    if step.advice:
        reasons.append(f"What would help: {step.advice}")
    if wait := step.raw.get("wait"):
        reasons.append(wait["text"])
    return ". ".join(text.removesuffix(".") for text in reasons) if reasons[1:] else reasons[0]


def _one_line(reason: str | None) -> str:
    return (reason or "").replace("\n", "; ")
