"""What a change of quotas would do, decided by the engine on the present state. Nothing is stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from django.db import transaction

from accounts.permissions import Actor
from core import clock, isolation
from core.units import ONE_GPU, format_gpus
from scheduler.engine.cycle import decide
from scheduler.engine.decisions import Decision, Reserve, Start, Stop
from scheduler.engine.proof import Resource
from scheduler.engine.session import Session
from scheduler.engine.sharing import Rules, SharingRules, with_changes
from scheduler.engine.snapshot import NEARLINE, JobView, Policy, QueueView, Snapshot
from scheduler.engine.wording import write
from scheduler.models import Pool, Queue
from scheduler.selectors import snapshots
from scheduler.selectors.snapshots import ClusterView, SnapshotReader, view_queue, view_rules
from scheduler.services import queues
from scheduler.services.queues import QueueSettings
from scheduler.workers import undecided


@dataclass(frozen=True)
class QueueTrial:
    """One queue before and after a change. GPUs in thousandths."""

    id: str
    name: str
    is_department: bool
    quota_before_milli: int
    quota_after_milli: int
    fair_before_milli: int
    fair_after_milli: int
    held_milli: int

    @property
    def gain_milli(self) -> int:
        """What its fair share grows by; negative: it loses so much."""
        return self.fair_after_milli - self.fair_before_milli


@dataclass(frozen=True)
class JobTrial:
    """A job that the next cycle would start, or stop for a reason. `is_anyway`: so it would without the change.

    `is_after_stops`: it starts once what is stopped for it has ended.
    """

    workload_id: str
    name: str
    queue: str
    gpu_milli: int
    reason: str = ""
    is_anyway: bool = False
    is_after_stops: bool = False


@dataclass(frozen=True)
class QuotaTrial:
    """What a change would do in a pool: shares, and what the next cycle would stop, in its order, and start."""

    pool: str
    gpu_milli: int
    quota_before_milli: int
    quota_after_milli: int
    queues: Sequence[QueueTrial]
    stops: Sequence[JobTrial]
    starts: Sequence[JobTrial]

    @property
    def sum_text(self) -> str:
        """The sum of the projects' quotas against the GPUs of the pool, for people."""
        quota, total = self.quota_after_milli, self.gpu_milli
        text = f"The quotas add up to {format_gpus(quota)} of {write(Resource.GPU, total)}"
        if quota > total:
            return f"{text}: over by {format_gpus(quota - total)}."
        return f"{text}: {format_gpus(total - quota)} left." if quota < total else f"{text}."


class _Share(NamedTuple):
    """The GPUs that a queue should hold and holds, in thousandths."""

    fair_milli: int
    held_milli: int


def try_quotas(
    *,
    actor: Actor,
    pool: Pool,
    changes: Sequence[tuple[Queue, QueueSettings]],
    sharing: Rules | None = None,
    policy: Policy = NEARLINE,
) -> QuotaTrial:
    """Return what the next cycle would do after these changes to queues of a pool, and to its rules of `sharing`.

    Nothing changes.

    Raises InvalidQuota.
    """
    changed = {queue.pk: view_queue(queue) for queue in queues.with_changes(actor=actor, changes=changes)}
    rules = {pool.pk: with_changes(view_rules(pool), sharing)} if sharing else {}
    policy = snapshots.with_prices(policy)
    with transaction.atomic():
        before, after = _read(pool, {}, {}), _read(pool, changed, rules)
    now, now_decisions = _decide(before, policy)
    then, then_decisions = _decide(after, policy)
    projects = set(Queue.objects.filter(pool=pool, project__isnull=False).values_list("pk", flat=True))
    closed = set(Queue.objects.filter(pool=pool, project__deleted_at__isnull=False).values_list("pk", flat=True))
    stopped_anyway = {decision.job_id for decision in now_decisions if isinstance(decision, Stop)}
    started_anyway = _started_by(now_decisions)
    names = {queue.id: queue.name for queue in before.queues}
    stops = {decision.job_id: decision.text for decision in then_decisions if isinstance(decision, Stop)}
    starts = _started_by(then_decisions)
    return QuotaTrial(
        pool=pool.name,
        gpu_milli=sum(ONE_GPU * len(node.devices) for node in before.nodes if node.is_open),
        quota_before_milli=_sum_of([queue for queue in before.queues if queue.id in projects]),
        quota_after_milli=_sum_of([queue for queue in after.queues if queue.id in projects]),
        queues=[
            QueueTrial(
                id=queue.id,
                name=queue.name,
                is_department=queue.id not in projects,
                quota_before_milli=queue.quota.gpu_milli or 0,
                quota_after_milli=view.quota.gpu_milli or 0,
                fair_before_milli=now[queue.id].fair_milli,
                fair_after_milli=then[queue.id].fair_milli,
                held_milli=now[queue.id].held_milli,
            )
            for queue, view in sorted(zip(before.queues, after.queues, strict=True), key=lambda pair: pair[0].name)
            if queue.id not in closed
        ],
        stops=[_job(after.jobs[pk], names, text, is_anyway=pk in stopped_anyway) for pk, text in stops.items()],
        starts=[
            replace(_job(after.jobs[pk], names, is_anyway=pk in started_anyway), is_after_stops=is_after_stops)
            for pk, is_after_stops in starts.items()
        ],
    )


def _read(pool: Pool, changed: Mapping[str, QueueView], rules: Mapping[str, SharingRules]) -> ClusterView:
    view = SnapshotReader(pool.pk).read(changed=changed, rules=rules).get(pool.pk) or ClusterView([], [], {}, {}, {})
    return undecided.leave_out(view, isolation.find([undecided.DECIDE]))


def _decide(view: ClusterView, policy: Policy) -> tuple[Mapping[str, _Share], Sequence[Decision]]:
    """Return the share of each queue, and what a cycle decides."""
    policy = view.apply_rules(policy, clock.now())
    session = Session(Snapshot(view.nodes, view.queues, list(view.jobs.values())), policy)
    shares = {queue.view.id: _Share(int(queue.fair[0]), int(queue.held[0])) for queue in session.queues.values()}
    return shares, decide(session)


def _started_by(decisions: Sequence[Decision]) -> Mapping[str, bool]:
    """Return the jobs that get what they need, in order, and whether all of it is to be freed first.

    Those that are stopped and get another place are not among them.
    """
    stopped = {decision.job_id for decision in decisions if isinstance(decision, Stop)}
    started: dict[str, bool] = {}
    for decision in decisions:
        if isinstance(decision, Start | Reserve) and decision.job_id not in stopped:
            started[decision.job_id] = started.get(decision.job_id, True) and isinstance(decision, Reserve)
    return started


def _sum_of(rows: Sequence[QueueView]) -> int:
    return sum(queue.quota.gpu_milli or 0 for queue in rows)


def _gpu_milli(job: JobView) -> int:
    return sum(ONE_GPU * pod.request.gpus + pod.request.share_milli * pod.request.devices for pod in job.pods)


def _job(job: JobView, names: Mapping[str, str], reason: str = "", *, is_anyway: bool) -> JobTrial:
    return JobTrial(job.id, job.label, names[job.queue_id], _gpu_milli(job), reason, is_anyway)
