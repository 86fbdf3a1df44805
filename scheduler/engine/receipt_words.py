"""Receipts of evictions in words: by which rule a job was stopped, and why others were not."""

from core.units import format_duration
from scheduler.engine import wording
from scheduler.engine.claims import ClaimClass, WhyNot
from scheduler.engine.decisions import StopCode
from scheduler.engine.proof import Resource
from scheduler.engine.receipts import Held

_ALONE = {
    StopCode.PREEMPTED: "Priority: the claimant has a higher one in the same project.",
    StopCode.MOVED: "Consolidation: it moved to another node, so that the claimant fits on one.",
    StopCode.STALE: "Stale gang: for too long, fewer of its pods had run than it needs.",
    StopCode.TIME_LIMIT: "Time limit: it had run for as long as its project lets it.",
    StopCode.IDLE_LIMIT: "Idle limit: it had left its GPUs unused for as long as its project lets it.",
}

_WHY_NOT = {
    WhyNot.NOT_ENOUGH: "would not have been enough",
    WhyNot.OTHER_QUEUE: "its project comes later",
    WhyNot.PRIORITY: "has a higher priority",
    WhyNot.NEEDED: "needs all of its pods",
    WhyNot.FREES_LESS: "frees less",
    WhyNot.FREES_MORE: "frees more than is needed",
    WhyNot.EVICTED_MORE: "was evicted more often",
    WhyNot.LOSES_MORE: "would lose more work",
    WhyNot.OLDER: "is older",
}


def explain_rule(
    code: str,
    claim_class: str,
    victim: Held,
    claimant: Held | None,
    *,
    claim_delay_s: float = 0.0,
    min_runtime_s: float = 0.0,
) -> str:
    """Return by which rule a job was stopped."""
    if code != StopCode.RECLAIMED or claimant is None:
        return _ALONE[StopCode(code)]
    delay = f" after a claim delay of {format_duration(claim_delay_s)}" if claim_delay_s else ""
    minimum = (
        f" The job had run for longer than the minimum of {format_duration(min_runtime_s)}." if min_runtime_s else ""
    )
    held = f"the project of the job that was stopped held {_gpus(victim.before)}"
    if claim_class == ClaimClass.OVER_QUOTA:
        ours, theirs = _gpus(claimant.fair), _gpus(victim.fair)
        bound = f"the claimant stays within its fair share of {ours}"
        return f"Reclaim beyond the quota{delay}: {bound}; {held}, of a fair share of {theirs}.{minimum}"
    bound = "its quota" if claimant.quota is None else f"its quota of {_gpus(claimant.quota)}"
    if claimant.quota is not None and claimant.after > claimant.quota:
        bound = "the quota of its department"
    beyond = "" if victim.quota is None else f", of a quota of {_gpus(victim.quota)}"
    return f"Reclaim by right{delay}: the claimant stays within {bound}; {held}{beyond}.{minimum}"


def explain_why_not(why: str) -> str:
    """Return why another job was not stopped."""
    return _WHY_NOT[WhyNot(why)]


def _gpus(milli: float) -> str:
    return wording.write(Resource.GPU, round(milli))
