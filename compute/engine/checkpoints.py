"""What a job loses when it is stopped, and how that is told."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from compute.engine.log_text import PROTOCOL
from core import bounds, units


@dataclass(frozen=True)
class Saved:
    """The last checkpoint that a job told of; None: it told of none.

    `resumed_step` is the checkpoint from which its present run went on, or its next one will, and `lost_s` the work
    that was done after that one and has to be done again; None: it was never interrupted.
    """

    step: int | None = None
    saved_at: datetime | None = None
    resumed_step: int | None = None
    lost_s: float | None = None


def count_lost_s(*, started_at: datetime, ended_at: datetime, saved_at: datetime | None) -> float:
    """Return how much work of a run is lost: what it did since its last checkpoint, else since its start."""
    safe_until = started_at if saved_at is None else max(started_at, saved_at)
    return max(0.0, (ended_at - safe_until).total_seconds())


def describe(saved: Saved, *, has_restarted: bool, now: datetime) -> str:
    """Say when a job saved last, and what its last interruption cost; empty: there is nothing to say."""
    sentences = []
    if saved.saved_at is not None:
        age_s = max(0.0, (now - saved.saved_at).total_seconds())
        sentences.append(f"Last checkpoint: step {saved.step:,}, {units.format_duration(age_s)} ago.")
    if saved.lost_s is not None:
        lost = units.format_duration(saved.lost_s)
        if saved.resumed_step is None:
            sentences.append(f"{'Restarted' if has_restarted else 'It restarts'} without a checkpoint, lost {lost}.")
        else:
            verb = "Resumed" if has_restarted else "It resumes"
            sentences.append(f"{verb} from step {saved.resumed_step:,}, lost {lost}.")
    return " ".join(sentences)


def find_last_told(log_end: bytes) -> tuple[int, datetime] | None:
    """Return the step and the moment of the last checkpoint that the end of a log tells of; None: of none.

    A log is read to its end later, for all that it records (`experiments.engine.recorded`).
    """
    for line in reversed(log_end.split(b"\n")):
        if line.startswith(PROTOCOL) and (checkpoint := _read_told(line[len(PROTOCOL) - 1 :])) is not None:
            return checkpoint
    return None


def _read_told(text: bytes) -> tuple[int, datetime] | None:
    try:
        fields = json.loads(text)
        if fields["kind"] != "checkpoint" or type(fields["value"]) is not int or bounds.number_fault(fields["value"]):
            return None
        return fields["value"], datetime.fromtimestamp(fields["at"] / 1000, UTC)
    except (ValueError, KeyError, TypeError, OverflowError, OSError, RecursionError):
        return None
