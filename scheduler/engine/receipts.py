"""Receipts of the evictions of a cycle, and their words: for whom, by what right, what queues held, what was spared."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from core.units import format_duration
from scheduler.engine import wording
from scheduler.engine.claims import ClaimClass, WhyNot
from scheduler.engine.decisions import Decision, Stop, StopCode
from scheduler.engine.jobs import Job, Pod
from scheduler.engine.ledger import HOLDING
from scheduler.engine.proof import Resource
from scheduler.engine.queues import GPU, QueueState
from scheduler.engine.rules import quotas
from scheduler.engine.session import Session

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


@dataclass(frozen=True, slots=True)
class Held:
    """What a queue held of GPUs before and after a cycle, against its quota (None: no bound) and its fair share.

    In thousandths.
    """

    queue_id: str
    quota: int | None
    fair: float
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Alternative:
    """A job that could have been evicted instead, and why it was not. `saved_at` is as in `JobView`."""

    job_id: str
    gpu_milli: int
    saved_at: float | None
    why: WhyNot


@dataclass(frozen=True, slots=True)
class Receipt:
    """The eviction of some pods of a job. `gpu_milli` is what they held.

    Without a claimant the job was over, or stale. One that reclaims had waited for `claim_delay_s` at least, and the
    job had run for `min_runtime_s` at least. `moves_to` is the node to which it moves, None: it is requeued.
    """

    job_id: str
    code: StopCode
    gpu_milli: int
    saved_at: float | None
    moves_to: str | None
    victim: Held
    claimant_id: str | None = None
    claimant: Held | None = None
    claim_class: ClaimClass | None = None
    alternatives: tuple[Alternative, ...] = ()
    claim_delay_s: float = 0.0
    min_runtime_s: float = 0.0


def write_receipts(session: Session, decisions: Sequence[Decision]) -> Mapping[str, Receipt]:
    """Return the receipts of what a cycle has just decided on a session, by the victim's id."""
    stops: dict[str, list[Stop]] = defaultdict(list)
    for decision in decisions:
        if isinstance(decision, Stop):
            stops[decision.job_id].append(decision)
    if not stops:
        return {}
    before = _held_before(session)
    return {job_id: _receipt(session, session.jobs[job_id], stops[job_id], before) for job_id in stops}


def _receipt(session: Session, job: Job, stops: Sequence[Stop], before: Mapping[QueueState, float]) -> Receipt:
    stop = stops[0]
    pods = {pod.id: pod for pod in job.pods}
    receipt = Receipt(
        job_id=job.view.id,
        code=stop.code,
        gpu_milli=sum(_charge_before(session, pods[each.pod_id]) for each in stops),
        saved_at=job.view.saved_at,
        moves_to=stop.moves_to,
        victim=_held(job.queue, before),
    )
    code, claimant, claim = session.causes[pods[stop.pod_id]]
    if claimant is None or claim is None:
        return receipt
    claim_class, policy = claim.class_against(code, claimant.queue, job.queue), session.policy
    if code is StopCode.RECLAIMED:
        is_surplus = claim_class is ClaimClass.OVER_QUOTA
        least_s = quotas.min_runtime_s(session, claimant, job.queue, is_surplus=is_surplus)
        receipt = replace(
            receipt,
            claim_delay_s=quotas.claim_delay_s(session, claimant.queue, claimant.view),
            min_runtime_s=least_s if policy.min_runtime else 0.0,
        )
    return replace(
        receipt,
        claimant_id=claimant.view.id,
        claimant=_held(claimant.queue, before),
        claim_class=claim_class,
        alternatives=tuple(
            Alternative(each.job.view.id, each.gpu_milli, each.job.view.saved_at, each.why)
            for each in claim.passed_over
        ),
    )


def _held(queue: QueueState, before: Mapping[QueueState, float]) -> Held:
    after = queue.held[GPU]
    return Held(queue.view.id, queue.view.quota.gpu_milli, queue.fair[GPU], before.get(queue, after), after)


def _held_before(session: Session) -> dict[QueueState, float]:
    """Return what the queues held before the cycle, of those of which a pod was moved."""
    held: dict[QueueState, float] = {}
    for pod in session.moved_since(0):
        queue = pod.job.queue
        change = _charge_before(session, pod) - (session.charge_of(pod)[GPU] if pod.state in HOLDING else 0)
        held[queue] = held.get(queue, queue.held[GPU]) + change
    return held


def _charge_before(session: Session, pod: Pod) -> int:
    """Return what a pod held in thousandths of GPUs before the cycle."""
    if pod.view.state not in HOLDING or pod.view.node_id is None:
        return 0
    node = session.node_of.get(pod.view.node_id)
    return pod.shape.charge(node.kind if node is not None else 0)[GPU]


def list_job_ids(receipts: Iterable[Receipt]) -> set[str]:
    """Return the ids of all jobs that receipts name."""
    job_ids: set[str] = set()
    for receipt in receipts:
        job_ids |= {receipt.job_id, *(each.job_id for each in receipt.alternatives)}
        if receipt.claimant_id is not None:
            job_ids.add(receipt.claimant_id)
    return job_ids


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
