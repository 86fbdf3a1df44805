"""Reading the database as the engine sees it: everything once, and then the rows of what has changed."""

import heapq
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast

from core import clock, orm, tasks
from core.memory import not_collected
from core.prepared import prepared
from core.taints import Taint, Toleration
from core.units import ONE_GPU
from scheduler.engine.mig import find_geometry
from scheduler.engine.rules import quotas, reservation
from scheduler.engine.sharing import PROMPT, SharingRules
from scheduler.engine.snapshot import (
    NEARLINE,
    CapacityPrices,
    Fill,
    GroupView,
    JobView,
    MigStrategy,
    NodeView,
    PodSetView,
    PodState,
    PodView,
    Policy,
    QueueView,
    Quota,
    Request,
    TopologyConstraint,
    WorkRules,
)
from scheduler.engine.states import HOLDING, LIVE, WorkloadState
from scheduler.models import FIRST_POD, Node, Packing, Pool, Queue, Reservation, Workload
from scheduler.selectors.changes import ChangeReader, News
from scheduler.selectors.workloads import list_enqueued_here

QUEUES = "scheduler.queues"

_NO_TIME = timedelta()
_MINUTE = timedelta(minutes=1)
_MIB = 2**20
_NOMINAL_MIB = 1000
"""The size of a device whose memory is not known: then a share is counted in thousandths."""

_STUCK_AFTER = timedelta(minutes=5)
"""A workload that has been terminating for so long may never stop: its capacity is not reserved any more."""

_UNCHANGED: Mapping[str, QueueView] = MappingProxyType({})
_SAME_RULES: Mapping[str, SharingRules] = MappingProxyType({})
_ONE_POD = GroupView((PodSetView("", 1),))


@lru_cache(maxsize=100)
def _structure(*sets: tuple[str, int, str, str]) -> GroupView:
    """Return a structure of sets of pods: name, minimum, required and preferred level. Equal ones are one object."""
    return GroupView(tuple(PodSetView(name, least, _wish(*levels)) for name, least, *levels in sets))


def _wish(required: str, preferred: str) -> TopologyConstraint | None:
    levels = tuple(dict.fromkeys(filter(None, (required, preferred))))
    return TopologyConstraint(levels, required or None, preferred or None) if levels else None


@dataclass(frozen=True)
class ClusterView:
    """What a cycle decides on in one pool, and what is compared when its decisions are applied.

    `answers` holds the stored answer of each pending workload by its id, None where that waits for one or is told
    something else. Running work is not moved before `moves_from`. `touched_ids` are the jobs that are not the same
    objects as in what the reader returned before, or are gone; None: any may be.
    """

    nodes: Sequence[NodeView]
    queues: Sequence[QueueView]
    jobs: Mapping[str, JobView]
    revisions: Mapping[str, int]
    answers: Mapping[str, str | None]
    sharing: SharingRules = PROMPT
    moves_from: datetime | None = None
    touched_ids: Collection[str] | None = field(default=None, compare=False)

    def apply_rules(self, policy: Policy, now: datetime) -> Policy:
        """Return a policy with the rules of the pool as they are now."""
        consolidates = self.moves_from is None or now >= self.moves_from
        if (policy.sharing, policy.consolidates) == (self.sharing, consolidates):
            return policy
        return replace(policy, sharing=self.sharing, consolidates=consolidates)

    def without(self, job_ids: Collection[str]) -> "ClusterView":
        """Return the view without these jobs."""
        jobs = {job_id: job for job_id, job in self.jobs.items() if job_id not in job_ids}
        return replace(self, jobs=jobs, touched_ids=None)


class _PoolRules(NamedTuple):
    """The rules of a pool, and from when on its running work may be moved; None: at any time."""

    sharing: SharingRules
    moves_from: datetime | None


@dataclass(frozen=True)
class _Node:
    pool_id: str
    revision: int
    view: NodeView
    device_names: frozenset[str]


class _Row(NamedTuple):
    """A workload that is pending or holds capacity, with one of its placements if it has any. JSON is still text."""

    pk: str
    queue_id: str
    resource_id: str
    pod_sets_text: str
    has_many_pods: bool
    priority: int
    is_preemptible: bool
    enqueued_at: datetime
    requeued_at: datetime | None
    placed_at: datetime | None
    evictions: int
    name: str
    title: str
    missing_bytes_text: str | None
    state: str
    reason_code: str
    answer_id: str | None
    placement_id: str
    pod: str
    node_id: str
    gpus: str
    slices: str
    held_since: datetime
    evicting_since: datetime | None
    saved_at_s: int

    def __str__(self) -> str:
        return self.title or self.name

    @property
    def pod_sets(self) -> Sequence[Mapping[str, Any]]:
        """The kinds of its pods. Equal ones are one object."""
        pod_sets: Sequence[Mapping[str, Any]] = _parsed(self.pod_sets_text)
        return pod_sets

    @property
    def missing_bytes(self) -> Mapping[str, int] | None:
        """The bytes of its data that have yet to be brought to each resource."""
        return None if self.missing_bytes_text is None else _parsed(self.missing_bytes_text)


class SnapshotReader:
    """Reads the scheduler's rows as the engine sees them. Only what has changed since the last call is read again.

    What has not changed is the same object as before, up to the view of a pool. With `pool_id` the queues and pending
    work of other pools are left out.
    """

    def __init__(self, pool_id: str | None = None) -> None:
        self._pool_id = pool_id
        self._changes = ChangeReader()
        self._nodes: dict[str, _Node] = {}
        self._queue_rows: Sequence[Queue] = ()
        self._queues: Sequence[tuple[str, QueueView]] = ()
        self._reservations = _Reservations(())
        self._jobs: dict[str, tuple[JobView, ...]] = {}
        self._answers: dict[str, str | None] = {}
        self._ages: Mapping[str, Sequence[float]] = {}
        self._delays: Mapping[str, float] = {}
        self._pools: Mapping[str, _PoolRules] = {}
        self._smallest = 0
        self._due: list[tuple[datetime, str]] = []
        self._views: Mapping[str, ClusterView] = {}
        self.packing: Packing | None = None
        """The prices of capacity that were in use when the state was read."""

    @property
    def lease_token(self) -> str | None:
        """Whose the lease of cycles was last when the state was read; None: somebody held it."""
        return self._changes.lease_token

    def read(
        self,
        waiting: Sequence[Workload] | None = None,
        *,
        changed: Mapping[str, QueueView] = _UNCHANGED,
        rules: Mapping[str, SharingRules] = _SAME_RULES,
    ) -> Mapping[str, ClusterView]:
        """Return the present state of each pool. A project that is deleted meanwhile takes its workloads along.

        `waiting` replaces the pending workloads, `changed` queues by their ids, `rules` those of pools.
        """
        now = clock.now()
        news = self._changes.read()
        if news.is_all or news.has_packing:
            self.packing = find_packing()
        if news.is_all or news.has_queues:
            tasks.read_anew(QUEUES)
        has_other_queues, has_other_ages = self._read_queues(changed, rules)
        other_ids = self._read_nodes(news) if news.is_all or news.node_ids else set()
        if has_other_ages:
            other_ids |= self._jobs.keys()
        if news.is_all or news.has_reservations:
            self._reservations = _Reservations(Reservation.objects.order_by("pk"))
        before: Sequence[JobView] = ()
        if news.is_all:
            self._read_all(waiting, now)
        elif changed_ids := {*news.workload_ids, *news.gone_ids, *self._take_due(now), *other_ids}:
            before = self._change(changed_ids, news, now)
        elif not (has_other_queues or news.node_ids):
            return self._views
        if news.is_all or has_other_queues or news.node_ids:
            self._views = self._by_pool()
        else:
            after = [job for pk in changed_ids for job in self._jobs.get(pk, ())]
            self._views = self._with_jobs(before, after)
        return self._views

    def _read_all(self, waiting: Sequence[Workload] | None, now: datetime) -> None:
        states = HOLDING if waiting is not None else LIVE
        self._jobs, self._answers, self._due = {}, {}, []
        with not_collected():
            self._add([_Row(*row) for row in _all_live(sorted(states))], now)
        self._jobs |= {workload.pk: (view_pending(workload),) for workload in waiting or ()}

    def _read_queues(
        self, changed: Mapping[str, QueueView], changed_rules: Mapping[str, SharingRules]
    ) -> tuple[bool, bool]:
        """Read the queues; return whether they are other ones than before, and whether their work is seen otherwise."""
        rows = tasks.recently(QUEUES, _queues) if self._pool_id is None else _queues_of(self._pool_id)
        if rows is self._queue_rows and not (changed or changed_rules):
            return False, False
        self._queue_rows = () if changed or changed_rules else rows
        pools = {row.pool_id: _view_pool(row.pool, changed_rules) for row in rows}
        used = parts_used([row for row in rows if pools[row.pool_id].sharing.usage_pull])
        queues = [
            (row.pool_id, replace(changed.get(row.pk) or view_queue(row), used=(used.get(row.pk, 0.0), 0.0, 0.0)))
            for row in rows
        ]
        if (queues, pools) == (self._queues, self._pools):
            return False, False
        ages, delays = self._ages, self._delays
        self._queues, self._pools = queues, pools
        lines = _lines_of([queue for _, queue in queues])
        self._ages = _ages_that_matter(queues, lines, pools)
        self._delays = {
            queue.id: quotas.queue_claim_delay_s(lines[queue.id], pools[pool_id].sharing) for pool_id, queue in queues
        }
        return True, (ages, delays) != (self._ages, self._delays)

    def _read_nodes(self, news: News) -> set[str]:
        """Read the nodes that are new or changed; return the ids of the workloads that are seen otherwise now."""
        if news.is_all:
            self._nodes = _nodes_of(_all_nodes())
        else:
            known = {pk: node for pk, node in self._nodes.items() if pk not in news.node_ids}
            rows = [row for batch in orm.in_batches(sorted(news.node_ids)) for row in _all_nodes().filter(pk__in=batch)]
            self._nodes = dict(sorted((known | _nodes_of(rows)).items()))
        views = (node.view for node in self._nodes.values())
        smallest, self._smallest = self._smallest, reservation.smallest_node(views)
        ids = set(self._answers) if smallest != self._smallest else set()
        return ids | {pk for pk, jobs in self._jobs.items() if any(_is_on(job, news.node_ids) for job in jobs)}

    def _take_due(self, now: datetime) -> set[str]:
        """Return the ids of the workloads that are seen otherwise from now on though nothing of them changed."""
        due_ids = set()
        while self._due and self._due[0][0] <= now:
            due_ids.add(heapq.heappop(self._due)[1])
        return due_ids

    def _change(self, workload_ids: Collection[str], news: News, now: datetime) -> list[JobView]:
        """Read some workloads anew, and return the jobs that they were; those of which nothing is left are gone."""
        # What this thread's task has just enqueued need not be read.
        enqueued = list_enqueued_here()
        mine = [enqueued[pk] for pk in sorted(news.new_ids) if pk in enqueued]
        unread = sorted(set(workload_ids).difference(news.gone_ids, {row.pk for row in mine}))
        rows = [_Row(*row) for batch in orm.in_batches(unread) for row in _live_of(batch, sorted(LIVE))]
        before = [job for pk in workload_ids for job in self._jobs.pop(pk, ())]
        for pk in workload_ids:
            self._answers.pop(pk, None)
        self._add(rows, now)
        for row in mine:
            self._put_pending(row, now)
        return before

    def _add(self, rows: Iterable[_Row], now: datetime) -> None:
        """Add the jobs of some workloads, of each all its rows."""
        placed: dict[str, list[_Row]] = defaultdict(list)
        for row in rows:
            if row.placement_id is not None:
                placed[row.pk].append(row)
            elif row.state == WorkloadState.PENDING:
                self._put_pending(row, now)
        for pk, members in placed.items():
            self._put(pk, *self._placed_jobs(members, now))

    def _put_pending(self, row: Workload | _Row, now: datetime) -> None:
        self._answers[row.pk] = None if row.reason_code else row.answer_id
        job, due_at = self._with_wait(view_pending(row), row.requeued_at or row.enqueued_at, now)
        self._put(row.pk, (self._reservations.reserved(job),), due_at)

    def _with_wait(self, job: JobView, since: datetime, now: datetime) -> tuple[JobView, datetime | None]:
        """Return a pending job with its claim delay and, where nodes may be reserved for it, its wait; and until when.

        Waits are told in full minutes, so that they change together, and anew once that makes a difference.
        """
        due_at = None
        if delay_s := self._delays.get(job.queue_id, 0.0):
            claims_at = since + timedelta(seconds=quotas.split_delay_s(delay_s, job))
            if claims_at > now:
                job, due_at = replace(job, claims_at=claims_at.timestamp()), claims_at
        if not reservation.may_wait_for_nodes(job, self._smallest):
            return job, due_at
        minute = now.replace(second=0, microsecond=0)
        waited_s = max(minute - since, _NO_TIME) // _MINUTE * 60
        told_s, until_s = NEARLINE.wait_span(waited_s)
        next_at = since + timedelta(seconds=until_s)
        if next_at.second or next_at.microsecond:
            next_at = next_at.replace(second=0, microsecond=0) + _MINUTE
        job = replace(job, waited_s=told_s, waits_since=since.timestamp())
        return job, next_at if due_at is None else min(due_at, next_at)

    def _placed_jobs(self, rows: Sequence[_Row], now: datetime) -> tuple[tuple[JobView, ...], datetime | None]:
        """Return the jobs that the pods of a workload are, and when that changes though no row does.

        A pod that terminates in one place while another one is reserved for it stands there as a job of its own.
        """
        rows = sorted(rows, key=lambda row: (row.evicting_since is not None, row.placement_id))
        first = rows[0]
        since = first.placed_at or first.held_since
        saved_at = max(since.timestamp(), float(first.saved_at_s))
        job, due_at = replace(view_pending(first), saved_at=saved_at), None
        if first.evicting_since is None and (ages := self._ages.get(first.queue_id)):
            age_s, due_at = _age(ages, since, now)
            job = replace(job, running_for_s=age_s, runs_since=since.timestamp())
        pods = {pod_name(pod.id): pod for pod in job.pods}
        apart: list[JobView] = []
        for row in rows:
            state, stuck_at = _state_of(row, now)
            due_at = min((at for at in (due_at, stuck_at) if at is not None), default=None)
            node = self._nodes.get(row.node_id)
            known = () if node is None else node.device_names
            devices = tuple(name for name in _names(row.gpus, row.slices) if name.partition(":")[0] in known)
            pod = replace(pods[row.pod], state=state, node_id=None if node is None else row.node_id, devices=devices)
            if state is not PodState.RUNNING and self._reservations.find(pod, job.id) is not None:
                apart.append(replace(job, id=row.placement_id, pods=(pod,), structure=_ONE_POD))
            else:
                pods[row.pod] = pod
        return (*apart, self._reservations.reserved(replace(job, pods=tuple(pods.values())))), due_at

    def _put(self, workload_id: str, jobs: Sequence[JobView], due_at: datetime | None) -> None:
        self._jobs[workload_id] = tuple(jobs)
        if due_at is not None:
            heapq.heappush(self._due, (due_at, workload_id))

    def _by_pool(self) -> Mapping[str, ClusterView]:
        """Return what belongs to each pool: its nodes, its queues, and the jobs in these."""
        pool_of = {queue.id: pool_id for pool_id, queue in self._queues}
        pool_ids = sorted({*pool_of.values(), *(node.pool_id for node in self._nodes.values())})
        jobs_of: dict[str, dict[str, JobView]] = {pool_id: {} for pool_id in pool_ids}
        for jobs in self._jobs.values():
            for job in jobs:
                if (pool_id := pool_of.get(job.queue_id)) is not None:
                    jobs_of[pool_id][job.id] = job
        answers = dict(self._answers)
        nodes_of = {id_: {pk: node for pk, node in self._nodes.items() if node.pool_id == id_} for id_ in pool_ids}
        return {
            pool_id: ClusterView(
                nodes=[node.view for node in nodes_of[pool_id].values()],
                queues=[queue for owner, queue in self._queues if owner == pool_id],
                jobs=members,
                revisions={pk: node.revision for pk, node in nodes_of[pool_id].items()},
                answers=answers,
                sharing=self._pools[pool_id].sharing if pool_id in self._pools else PROMPT,
                moves_from=self._pools[pool_id].moves_from if pool_id in self._pools else None,
            )
            for pool_id, members in jobs_of.items()
        }

    def _with_jobs(self, before: Sequence[JobView], after: Sequence[JobView]) -> Mapping[str, ClusterView]:
        """Return what belongs to each pool where nothing has changed but some jobs."""
        pool_of = {queue.id: pool_id for pool_id, queue in self._queues}
        touched_ids = sorted({job.id for job in (*before, *after)})
        answers = dict(self._answers)
        views = {}
        for pool_id, view in self._views.items():
            jobs = dict(view.jobs)
            for job in before:
                jobs.pop(job.id, None)
            jobs.update((job.id, job) for job in after if pool_of.get(job.queue_id) == pool_id)
            views[pool_id] = replace(view, jobs=jobs, answers=answers, touched_ids=touched_ids)
        return views


@lru_cache(maxsize=10_000)
def _parsed(text: str) -> Any:
    return json.loads(text)


@lru_cache(maxsize=10_000)
def _names(gpus: str, slices: str) -> tuple[str, ...]:
    """Return the names of the devices that a placement holds, or of the slices that were cut for it."""
    if names := json.loads(slices):
        return tuple(name for name in names if ":" in name)
    return tuple(str(index) for index, _ in json.loads(gpus))


def _live(states: Collection[str]) -> QuerySet[Any, tuple[Any, ...]]:
    text = TextField()
    rows = Workload.objects.filter(state__in=states).order_by()
    return rows.annotate(
        pod_sets_text=Cast("pod_sets", text),
        missing_bytes_text=Cast("missing_bytes", text),
        gpus=Cast("placements__gpus", text),
        slices=Cast("placements__slices", text),
    ).values_list(
        *("pk", "queue_id", "resource_id", "pod_sets_text", "has_many_pods", "priority", "is_preemptible"),
        *("enqueued_at", "requeued_at", "placed_at", "evictions", "name", "title", "missing_bytes_text", "state"),
        *("reason_code", "answer_id", "placements__pk", "placements__pod", "placements__node_id", "gpus"),
        *("slices", "placements__created_at", "placements__evicting_since", "placements__saved_at_s"),
    )


@prepared
def _all_live(states: Collection[str]) -> QuerySet[Any, tuple[Any, ...]]:
    return _live(states)


@prepared
def _live_of(workload_ids: Collection[str], states: Collection[str]) -> QuerySet[Any, tuple[Any, ...]]:
    return _live(states).filter(pk__in=workload_ids)


class _Reservations:
    """The reservations of pods, by their ids."""

    def __init__(self, rows: Iterable[Reservation]) -> None:
        self._rows = {(row.workload_id, row.pod): row for row in rows}
        self._job_ids = {job_id for job_id, _ in self._rows}

    def find(self, pod: PodView, job_id: str) -> Reservation | None:
        """Return the reservation of a pod of a job, if it has one."""
        return self._rows.get((job_id, pod_name(pod.id))) if job_id in self._job_ids else None

    def reserved(self, job: JobView) -> JobView:
        """Return a job with those of its pending pods reserved for which capacity is."""
        if job.id not in self._job_ids:
            return job
        pods = tuple(
            pod if pod.state is not PodState.PENDING or (row := self.find(pod, job.id)) is None else _reserved(pod, row)
            for pod in job.pods
        )
        return replace(job, pods=pods)


def _reserved(pod: PodView, row: Reservation) -> PodView:
    return replace(pod, state=PodState.RESERVED, node_id=row.node_id, devices=tuple(row.devices))


def _all_queues() -> QuerySet[Queue]:
    return Queue.objects.filter(project__removed_at=None).select_related("project", "pool").order_by("pk")


@prepared
def _queues() -> QuerySet[Queue]:
    return _all_queues()


def _queues_of(pool_id: str) -> Sequence[Queue]:
    return list(_all_queues().filter(pool=pool_id))


def _all_nodes() -> QuerySet[Node]:
    return Node.objects.prefetch_related("gpus").order_by("pk")


def _nodes_of(rows: Iterable[Node]) -> dict[str, _Node]:
    return {row.pk: _Node(row.pool_id, row.revision, _view_node(row), _device_names(row)) for row in rows}


def _state_of(row: _Row, now: datetime) -> tuple[PodState, datetime | None]:
    """Return the state of a pod that holds capacity, and when it is another one though the row is not."""
    if row.evicting_since is None:
        return PodState.RUNNING, None
    stuck_at = row.evicting_since + _STUCK_AFTER
    return (PodState.STUCK_TERMINATING, None) if now >= stuck_at else (PodState.TERMINATING, stuck_at)


def _is_on(job: JobView, node_ids: Collection[str]) -> bool:
    """Return whether a pod of a job holds capacity on one of these nodes, or on one that was not known."""
    return any(
        pod.state is not PodState.PENDING and (pod.node_id is None or pod.node_id in node_ids) for pod in job.pods
    )


def view_nodes(nodes: QuerySet[Node]) -> list[NodeView]:
    """Return nodes as the engine sees them."""
    return [_view_node(node) for node in nodes.prefetch_related("gpus").order_by("pk")]


def view_nodes_by_pool(nodes: QuerySet[Node]) -> list[tuple[str, NodeView]]:
    """Return nodes as the engine sees them, each with the id of its pool."""
    return [(node.pool_id, _view_node(node)) for node in nodes.prefetch_related("gpus").order_by("pk")]


def view_queue(queue: Queue) -> QueueView:
    """Return a queue as the engine sees it. The project should be loaded.

    Without a weight of its own it gets GPUs beyond the quotas as its quota is. That of a deleted project has no quota.
    """
    own = queue.over_quota_weight
    is_closed = queue.project is not None and queue.project.deleted_at is not None
    gpu_quota_milli = 0 if is_closed else queue.gpu_quota_milli
    return QueueView(
        id=queue.pk,
        name=queue.label,
        parent_id=queue.parent_id,
        rank=(queue.created_at,),
        quota=Quota(gpu_quota_milli, queue.cpu_quota_millicores, queue.memory_quota_bytes),
        limit=Quota(queue.gpu_limit_milli, queue.cpu_limit_millicores, queue.memory_limit_bytes),
        weights=(max(gpu_quota_milli or 0, ONE_GPU) / ONE_GPU if own is None else own, 1, 1),
        claim_delay_s=queue.claim_delay_s,
        reclaim_min_runtime_s=queue.reclaim_min_runtime_s,
        surplus_min_runtime_s=queue.surplus_min_runtime_s,
        evictions_at_most=queue.evictions_at_most,
        surplus_evictions_at_most=queue.surplus_evictions_at_most,
        preempt_min_runtime_s=queue.preempt_min_runtime_s,
        training=_rules(queue.training_node_labels, queue.training_run_at_most_s),
        interactive=_rules(queue.interactive_node_labels, queue.interactive_run_at_most_s),
    )


def _rules(node_labels: Sequence[str], run_at_most_s: float | None) -> WorkRules:
    pairs = (label.partition("=") for label in node_labels)
    labels = frozenset((key, value) for key, _, value in pairs)
    return WorkRules(node_labels=labels or None, run_at_most_s=run_at_most_s)


def view_rules(pool: Pool) -> SharingRules:
    """Return the rules by which the queues of a pool share."""
    return SharingRules(**{field.name: getattr(pool, field.name) for field in fields(SharingRules)})


def _view_pool(pool: Pool, changed: Mapping[str, SharingRules]) -> _PoolRules:
    sharing = changed.get(pool.pk) or view_rules(pool)
    every = timedelta(seconds=sharing.consolidate_every_s)
    return _PoolRules(sharing, pool.consolidated_at + every if every and pool.consolidated_at is not None else None)


def find_packing() -> Packing | None:
    """Return the prices of capacity that are in use; None while each node is simply filled up."""
    return next(iter(_packings()), None)


def with_prices(policy: Policy) -> Policy:
    """Return the policy with the prices of capacity that were learnt, if they were."""
    return apply_prices(policy, find_packing())


def apply_prices(policy: Policy, known: Packing | None) -> Policy:
    """Return the policy with prices of capacity, if there are any.

    They choose the node. Shares go on being put onto devices in shared use first, and there onto the fullest: the
    prices alone would sometimes open a device for a share that fits beside another one.
    """
    if known is None:
        return policy
    rows = {name: tuple(value) for name, value in known.prices.items() if isinstance(value, list)}
    prices = CapacityPrices(**known.prices | rows)
    return replace(policy, gpu_nodes=Fill.MIX, cpu_nodes=Fill.MIX, prices=prices)


@prepared
def _packings() -> QuerySet[Packing]:
    return Packing.objects.order_by("pk")[:1]


def parts_used(queues: Sequence[Queue]) -> Mapping[str, float]:
    """Return the part of each queue in what it and its siblings used lately, in hundredths.

    A department used what the queues below it did.
    """
    lines = _lines_of(queues)
    used: dict[str, float] = defaultdict(float)
    for queue in queues:
        for above in lines[queue.pk]:
            used[above.pk] += queue.used_gpu_s
    of_siblings: dict[tuple[str, str | None], float] = defaultdict(float)
    for queue in queues:
        of_siblings[queue.pool_id, queue.parent_id] += used[queue.pk]
    return {
        queue.pk: round(used[queue.pk] / whole, 2) if (whole := of_siblings[queue.pool_id, queue.parent_id]) else 0.0
        for queue in queues
    }


_Q = TypeVar("_Q", Queue, QueueView)


def _lines_of(queues: Sequence[_Q]) -> Mapping[str, Sequence[_Q]]:
    """Return by its id each queue with those above it, upwards."""
    by_id = {queue.id: queue for queue in queues}
    lines = {}
    for queue in queues:
        line = [queue]
        while (parent := by_id.get(line[-1].parent_id or "")) is not None:
            line.append(parent)
        lines[queue.id] = line
    return lines


def _ages_that_matter(
    queues: Sequence[tuple[str, QueueView]],
    lines: Mapping[str, Sequence[QueueView]],
    pools: Mapping[str, _PoolRules],
) -> Mapping[str, Sequence[float]]:
    """Return by queue the ages, in seconds, at which a running job of it begins to be treated otherwise."""
    limits = {}
    for pool_id, queue in queues:
        sharing = pools[pool_id].sharing
        ages: set[float | None] = {sharing.reclaim_min_runtime_s or None, sharing.surplus_min_runtime_s or None}
        for above in lines[queue.id]:
            ages |= {above.reclaim_min_runtime_s, above.surplus_min_runtime_s, above.preempt_min_runtime_s}
            ages |= {above.training.run_at_most_s, above.interactive.run_at_most_s}
        if known := sorted(age for age in ages if age is not None):
            limits[queue.id] = known
    return limits


def _age(ages: Sequence[float], since: datetime, now: datetime) -> tuple[float, datetime | None]:
    """Return how long a job has run, as the last of the ages that matter, and when the next one is reached."""
    age_s = (now - since).total_seconds()
    reached = [age for age in ages if age <= age_s]
    due_at = since + timedelta(seconds=ages[len(reached)]) if len(reached) < len(ages) else None
    return reached[-1] if reached else 0.0, due_at


def pod_name(engine_id: str) -> str:
    """Return the name of a pod in its workload, by its id in the engine: an only pod has the id of its workload."""
    return engine_id.partition("/")[2] or FIRST_POD


@lru_cache(maxsize=10_000)
def request_of(  # noqa: PLR0917 (by position, as it is asked for each pod)
    gpu_milli: int,
    cpu_millicores: int,
    memory_bytes: int,
    gpu_memory_bytes: int = 0,
    resource_id: str = "",
    node_labels: tuple[tuple[str, str], ...] = (),
    missing_bytes: tuple[tuple[str, int], ...] = (),
    mig_profile: str = "",
    selector: tuple[tuple[str, str], ...] = (),
    tolerations: tuple[Toleration, ...] = (),
) -> Request:
    """Return what a pod asks for as the engine sees it; without a resource, of any nodes. Equal ones are one object."""
    whole, rest = divmod(gpu_milli, ONE_GPU)
    return Request(
        gpus=whole,
        share_milli=rest,
        share_mib=-(-gpu_memory_bytes // _MIB),
        mig=((mig_profile, 1),) if mig_profile else (),
        cpu_millicores=cpu_millicores,
        memory_bytes=memory_bytes,
        pool=resource_id,
        node_labels=frozenset(node_labels) if node_labels else None,
        selector=frozenset(selector),
        tolerations=tolerations,
        # Amounts of one power of two are one shape: the engine tells no more apart.
        missing_bytes=tuple((place, (1 << size.bit_length()) - 1) for place, size in missing_bytes),
    )


def _device_names(node: Node) -> frozenset[str]:
    return frozenset(str(gpu.index) for gpu in node.gpus.all())


def _view_node(node: Node) -> NodeView:
    gpus = node.gpus.all()
    device_mib = min((gpu.memory_bytes // _MIB or _NOMINAL_MIB for gpu in gpus), default=0)
    is_cut = node.mig_strategy == MigStrategy.DYNAMIC and len(models := {gpu.model for gpu in gpus}) == 1
    return NodeView(
        id=node.pk,
        name=node.name,
        cpu_millicores=node.cpu_millicores,
        memory_bytes=node.memory_bytes,
        devices=tuple(sorted(gpu.index for gpu in gpus)),
        device_mib=device_mib,
        mig_strategy=MigStrategy(node.mig_strategy),
        mig=node.mig,
        geometry=find_geometry(next(iter(models)), device_mib) if is_cut else None,
        pool=node.resource_id,
        pool_name=node.resource_name,
        labels=node.labels,
        taints=tuple(Taint(*each) for each in node.taints),
        max_pods=node.max_pods,
        is_ready=node.is_ready,
        is_drained=node.is_drained,
    )


def view_pending(workload: Workload | _Row) -> JobView:
    """Return a workload of which no pod is placed."""
    if workload.has_many_pods:
        pods, structure = _pods_of(workload), _structure_of(workload)
    else:
        (only,) = workload.pod_sets
        request = _request_of(only, workload)
        pods = (PodView(workload.pk, PodState.PENDING, request, pod_set=only["name"]),)
        structure = _ONE_POD
    return JobView(
        id=workload.pk,
        queue_id=workload.queue_id,
        pods=pods,
        structure=structure,
        priority=workload.priority,
        is_preemptible=workload.is_preemptible,
        rank=(workload.enqueued_at,),
        evictions=workload.evictions,
        name=str(workload),
    )


def _pods_of(workload: Workload | _Row) -> tuple[PodView, ...]:
    return tuple(
        PodView(
            f"{workload.pk}/{pods['name']}-{index}", PodState.PENDING, _request_of(pods, workload), pod_set=pods["name"]
        )
        for pods in workload.pod_sets
        for index in range(pods["count"])
    )


def _structure_of(workload: Workload | _Row) -> GroupView:
    return _structure(
        *(
            (pods["name"], pods["min_count"], pods.get("required_level", ""), pods.get("preferred_level", ""))
            for pods in workload.pod_sets
        )
    )


def _request_of(pods: Mapping[str, Any], workload: Workload | _Row) -> Request:
    return request_of_pods(pods, workload.resource_id, workload.missing_bytes)


def request_of_pods(
    pods: Mapping[str, Any], resource_id: str = "", missing_bytes: Mapping[str, int] | None = None
) -> Request:
    """Return what each pod of a set asks for (`PodSet.to_json`) as the engine sees it."""
    return request_of(
        pods["gpu_milli"],
        pods["cpu_millicores"],
        pods["memory_bytes"],
        pods["gpu_memory_bytes"],
        resource_id,
        tuple((label, value) for label, value in pods["node_labels"]) if pods["node_labels"] else (),
        tuple(sorted(missing_bytes.items())) if missing_bytes else (),
        pods.get("mig_profile", ""),
        tuple((label, value) for label, value in pods.get("selector", ())),
        tuple(Toleration(*each) for each in pods.get("tolerations", ())),
    )
