"""When workloads start, and why not yet: the engine run forward on the present snapshot. Nothing is changed.

What one call reads is the same for all of its answers. It costs a session of the engine for each pool; cycles and
hand-overs never wait for it.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from django.db import InterfaceError, OperationalError
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from accounts.permissions import Actor
from core import clock
from scheduler.engine import calibration
from scheduler.engine.calibration import Correction, Levels, Promised, Score, Started
from scheduler.engine.forward import FEWEST_PASSES, GRAIN, NEVER, PASSES, Arrival, Forward, StartForecast
from scheduler.engine.queues import GPU, UNITS
from scheduler.engine.run_times import Lengths, Run, RunTimes, each_once, learn
from scheduler.engine.snapshot import NEARLINE, JobView, PodSet, PodState, QueueView, Quota, Snapshot
from scheduler.engine.standing import Share, WaitClass, classify, free_milli, resource_of, share_of
from scheduler.engine.states import WorkloadState
from scheduler.models import Forecast, Pool, Queue, Workload
from scheduler.selectors import snapshots
from scheduler.selectors.nodes import find_simulated_pools
from scheduler.selectors.resource_pools import PoolChoice, ResourcePools, choose_pool
from scheduler.selectors.snapshots import SnapshotReader, with_prices

__all__ = [
    "FEWEST_PASSES",
    "PASSES",
    "Lengths",
    "Run",
    "RunTimes",
    "Share",
    "StartForecast",
    "WaitClass",
    "each_once",
    "learn",
]


@dataclass(frozen=True)
class Probe:
    """A job as it would be submitted in `in_s` seconds to a resource, `instead_of` a workload where that is named.

    `pool` is the name of the pool of that resource; without one it is in the first that could run it.

    A gang is `replicas` pods of this size, and a `launcher` of another. `placing` holds what else its `PodSet` says, by
    name. `id` names one that is submitted already and joins the queue then.
    It has the place in line that a workload has which was enqueued at `enqueued_at`.
    """

    project_id: str
    resource_id: str
    cpu_millicores: int
    memory_bytes: int
    gpu_milli: int
    enqueued_at: datetime
    run_times: RunTimes
    replicas: int = 1
    placing: Mapping[str, Any] = field(default_factory=dict)
    launcher: PodSet | None = None
    priority: int = 50
    is_preemptible: bool = True
    instead_of: str | None = None
    in_s: float = 0.0
    id: str = ""
    pool: str = ""

    @property
    def kind(self) -> tuple[object, ...]:
        """What it has in common with others that would wait as long as it if they were submitted in its place."""
        facts = {**vars(self), "placing": str(self.placing), "launcher": str(self.launcher)}
        return tuple(value for name, value in facts.items() if name not in {"enqueued_at", "instead_of", "id"})


@dataclass(frozen=True)
class HeldBy:
    """A workload that holds what another one waits for, until it ends, and the share of its queue.

    `is_ahead`: it waits too, and is served first.
    """

    workload_id: str
    ends_in_s: float
    gpu_milli: int
    is_ahead: bool
    share: Share


@dataclass(frozen=True)
class Outlook:
    """Why a workload waits, by the class of its wait, and when it starts. `nodes` are the names of the nodes then."""

    workload_id: str
    pool_id: str
    wait_class: WaitClass
    start: StartForecast
    nodes: Sequence[str]
    own: Share
    holders: Sequence[HeldBy]


@dataclass(frozen=True)
class Raise:
    """What a workload may expect if its queue may hold more: the `bound`, `quota` or `limit`, is `after`, not `before`.

    Thousandths of GPUs, or millicores where not `is_gpu`. `nodes` are the names of the nodes where it starts then.
    """

    bound: str
    is_gpu: bool
    before: int
    after: int
    start: StartForecast
    nodes: Sequence[str]


class NoForecast(Exception):
    """The engine failed on the work of a pool, so nothing can be told of it; the cause says how."""


class Outlooks:
    """The forecasts of one moment. `run_times` says by workload id how long each goes on, as far as that is known."""

    def __init__(
        self,
        run_times: Mapping[str, RunTimes],
        *,
        project_ids: Collection[str] = (),
        arrivals: Sequence[Probe] = (),
        is_exact: bool = False,
        passes: int = PASSES,
    ) -> None:
        """Read the present state. `is_exact`: each end stands alone, which takes longer; so do more `passes`.

        `arrivals` are jobs that join the queue at a known time; those of `project_ids` may be forecast.
        """
        self.now = clock.now()
        self._run_times = {**run_times, **{probe.id: probe.run_times for probe in arrivals}}
        self._pools = ResourcePools()
        self._queues = dict[tuple[str, str | None], str]()
        for pk, pool_id, project_id in Queue.objects.order_by("pk").values_list("pk", "pool_id", "project_id"):
            self._queues[pool_id, project_id] = pk
        self._views = SnapshotReader().read()
        self._forwards: dict[str, Forward] = {}
        self.errors: dict[str, Exception] = {}
        """The first error of the engine in each pool in which it failed."""

        self._unknown: set[str] = set()
        self._project_ids = project_ids
        self._arrivals: dict[str, dict[str, Probe]] = {}
        for probe in arrivals:
            self._arrivals.setdefault(self._pool_of(probe), {})[probe.id] = probe
        self._grain = 0.0 if is_exact else GRAIN
        self._passes = passes

    @property
    def pool_ids(self) -> list[str]:
        """The pools of this moment."""
        return sorted(self._views)

    def of_waiting(self, job_ids: Collection[str] | None = None) -> list[Outlook]:
        """Return the outlook of each pending workload and each arrival; of the `wanted` ones only, where given.

        Nothing is told of a pool in which the engine fails.
        """
        code = Coalesce("answer__code", "reason_code")
        rows = pending_workloads().values_list("pk", code, "enqueued_at", "requeued_at")
        waits = {pk: (code, requeued_at or enqueued_at) for pk, code, enqueued_at, requeued_at in rows}
        outlooks = []
        for pool_id, view in self._views.items():
            arrivals = self._arrivals.get(pool_id, {})
            present = [*(job_id for job_id in view.jobs if job_id in waits), *arrivals]
            asked = {job_id for job_id in present if job_ids is None or job_id in job_ids}
            if asked:
                try:
                    with self._forward(pool_id) as forward:
                        shares = self._shares_now(forward, asked - arrivals.keys())
                        outlooks += [
                            self._outlook_of(forward, arrivals[job_id], start)
                            if job_id in arrivals
                            else self._outlook(forward, pool_id, job_id, start, shares[job_id], waits[job_id])
                            for job_id, start in forward.starts(asked).items()
                        ]
                except NoForecast:
                    self._unknown.add(pool_id)
        return outlooks

    def is_unknown(self, workload_id: str) -> bool:
        """Return whether a workload waits in a pool in which the engine fails, so that nothing can be told of it."""
        return any(
            workload_id in self._views[pool_id].jobs or workload_id in self._arrivals.get(pool_id, {})
            for pool_id in self._unknown
        )

    def of_probe(self, probe: Probe) -> Outlook:
        """Return the outlook of a job that is not there. Raises NoForecast."""
        (outlook,) = self.of_probes([probe])
        return outlook

    def of_probes(self, probes: Sequence[Probe]) -> list[Outlook]:
        """Return the outlooks of jobs that are not there, if all of them were submitted to one pool.

        Raises NoForecast.
        """
        pool_id = self._pool_of(probes[0])
        if pool_id not in self._views:
            share = Share(self._queue_of(probes[0]), 0, 0, 0)
            return [Outlook("", pool_id, WaitClass.NODES, NEVER, (), share, ()) for _ in probes]
        new = [(Arrival(each.in_s, self._view_of(each), self._since_s(each)), each.run_times) for each in probes]
        instead_of = {each.instead_of for each in probes if each.instead_of is not None}
        with self._forward(pool_id) as forward:
            starts = forward.starts_together(new, instead_of=instead_of)
            return [self._outlook_of(forward, probe, start) for probe, start in zip(probes, starts, strict=True)]

    def starts_of_probe(self, probe: Probe, count: int) -> list[float]:
        """Return in how many seconds each of so many equal jobs would start; infinite: nobody knows.

        Raises NoForecast.
        """
        pool_id = self._pool_of(probe)
        if pool_id not in self._views:
            return [math.inf] * count
        jobs = [self._view_of(probe) for _ in range(count)]
        with self._forward(pool_id) as forward:
            starts = forward.starts_of(jobs, probe.run_times, in_s=probe.in_s, since_s=self._since_s(probe))
        return sorted(start.likely_s for start in starts)

    def if_allowed_more(self, workload_id: str) -> Iterator[Raise]:
        """Yield when a pending workload would start if its queue might hold more; nothing where it holds it within.

        First what it needs in place of its limit and of its quota, then as much quota as all of its queue asks for.
        """
        pool_id = next((pk for pk, view in self._views.items() if workload_id in view.jobs), None)
        if pool_id is None:
            return
        with self._forward(pool_id) as forward:
            job = forward.session.jobs[workload_id]
        queue, resource = job.queue, resource_of(job)
        asked = forward.session.charge_all(job.pods)[resource]
        within_quota = queue.held if job.view.is_preemptible else queue.firm  # as `explain.py` counts what is missing
        amounts = {
            ("limit", queue.held[resource] + asked): None,
            ("quota", within_quota[resource] + asked): None,
            ("quota", queue.requested(resource)): None,
        }
        for name, amount in amounts:
            bound: Quota = getattr(queue.view, name)
            before, after = bound[resource], UNITS[resource] * math.ceil(amount / UNITS[resource])
            if before is not None and before < after:
                values: dict[str, Any] = {name: bound._replace(**{bound._fields[resource]: after})}
                queues = [
                    replace(each, **values) if each.id == queue.view.id else each for each in self._queues_in(pool_id)
                ]
                start = self._make_forward(pool_id, queues).starts({workload_id})[workload_id]
                yield Raise(name, resource == GPU, before, after, start, _names(forward, start))

    def _outlook_of(self, forward: Forward, probe: Probe, start: StartForecast) -> Outlook:
        """Return the outlook of a job that is not in the queue yet."""
        resource, each = (GPU, probe.gpu_milli) if probe.gpu_milli else (GPU + 1, probe.cpu_millicores)
        known = {queue.view.id: share_of(queue, resource) for queue in forward.session.queues.values()}
        own = known[self._queue_of(probe)]
        holders = _holders(forward, start, known)
        wait_class = classify("", own, probe.replicas * each, [holder.share for holder in holders])
        if probe.in_s and start.likely_s <= probe.in_s:
            wait_class = WaitClass.DATA
        return Outlook(probe.id, self._pool_of(probe), wait_class, start, _names(forward, start), own, holders)

    def _pool_of(self, probe: Probe) -> str:
        return choose_pool(
            self._pools, self._choice, probe.resource_id, probe.pool, [pods.to_json() for pods in _pods_of(probe)]
        )

    @cached_property
    def _choice(self) -> PoolChoice:
        return PoolChoice((pool_id, node) for pool_id, view in self._views.items() for node in view.nodes)

    def _queue_of(self, probe: Probe) -> str:
        pool_id = self._pool_of(probe)
        return self._queues.get((pool_id, probe.project_id), _unborn(pool_id, probe.project_id))

    def _view_of(self, probe: Probe) -> JobView:
        return snapshots.view_pending(_workload_of(probe, self._queue_of(probe)))

    def _since_s(self, probe: Probe) -> float:
        """Return when the wait of a job begins, in seconds from now."""
        return (probe.enqueued_at - self.now).total_seconds()

    @contextmanager
    def _forward(self, pool_id: str) -> Iterator[Forward]:
        """Lend what runs a pool forward. Where that fails, it is made anew: nobody knows in which state it is."""
        if pool_id in self._unknown:
            raise NoForecast from self.errors[pool_id]
        try:
            if pool_id not in self._forwards:
                self._forwards[pool_id] = self._make_forward(pool_id, self._queues_in(pool_id))
            yield self._forwards[pool_id]
        except (OperationalError, InterfaceError):
            raise
        except Exception as error:
            self._forwards.pop(pool_id, None)
            self.errors.setdefault(pool_id, error)
            raise NoForecast from error

    def _queues_in(self, pool_id: str) -> Sequence[QueueView]:
        missing = [each for each in self._project_ids if (pool_id, each) not in self._queues]
        unborn = [QueueView(_unborn(pool_id, each), "", rank=(self.now,)) for each in missing]
        return [*self._views[pool_id].queues, *unborn]

    def _make_forward(self, pool_id: str, queues: Sequence[QueueView]) -> Forward:
        view, arrivals = self._views[pool_id], self._arrivals.get(pool_id, {})
        return Forward(
            Snapshot(view.nodes, queues, list(view.jobs.values())),
            view.apply_rules(with_prices(NEARLINE), self.now),
            self._run_times,
            arrivals={
                probe.id: Arrival(probe.in_s, self._view_of(probe), self._since_s(probe)) for probe in arrivals.values()
            },
            at_s=self.now.timestamp(),
            moves_in_s=0.0 if view.moves_from is None else (view.moves_from - self.now).total_seconds(),
            passes=self._passes,
            grain=self._grain,
        )

    def _shares_now(self, forward: Forward, asked: Collection[str]) -> Mapping[str, Mapping[str, Share]]:
        """Return by workload the present shares of all queues, of the resource that decides about it."""
        jobs, queues = forward.session.jobs, forward.session.queues.values()
        of_resource = {
            resource: {queue.view.id: share_of(queue, resource) for queue in queues}
            for resource in {resource_of(jobs[job_id]) for job_id in asked}
        }
        return {job_id: of_resource[resource_of(jobs[job_id])] for job_id in asked}

    def _outlook(  # noqa: PLR0917 (all that was worked out of one workload)
        self,
        forward: Forward,
        pool_id: str,
        job_id: str,
        start: StartForecast,
        known: Mapping[str, Share],
        wait: tuple[str, datetime],
    ) -> Outlook:
        job, (code, since) = forward.session.jobs[job_id], wait
        holders = _holders(forward, start, known)
        own = known[job.queue.view.id]
        if any(pod.state is PodState.RESERVED for pod in job.pods):
            wait_class = WaitClass.STOPPING
        else:
            resource = resource_of(job)
            wait_class = classify(
                code,
                own,
                forward.session.charge_all(job.pods)[resource],
                [holder.share for holder in holders],
                waited_s=(self.now - since).total_seconds(),
                free=free_milli(forward.session, job) if resource == GPU else 0,
            )
        return Outlook(job_id, pool_id, wait_class, start, _names(forward, start), own, holders)


def _holders(forward: Forward, start: StartForecast, known: Mapping[str, Share]) -> list[HeldBy]:
    return [
        HeldBy(each.job_id, each.ends_in_s, each.gpu_milli, each.is_ahead, known[forward.queue_of(each.job_id)])
        for each in start.holders
        if forward.is_known(each.job_id)  # others that were asked for together with it are not there
    ]


_SCORED, _SCORED_SINCE = 500, 20_000


def scores_of(pool_id: str, *, go_on: bool = False) -> list[Score]:
    """Return how the newest forecasts of a pool turned out; `go_on`: those of jobs that wait now."""
    made = Forecast.objects.filter(pool=pool_id, started_at__isnull=go_on, made_at__isnull=False)
    newest = made.order_by("-made_at" if go_on else "-started_at", "pk").defer("facts")[:_SCORED]
    return [score_of(row) for row in newest]


def _scored(since: datetime | None) -> dict[str, list[Forecast]]:
    """Return by pool the forecasts of jobs that have started since then, the newest first; None: the newest few."""
    scored, most = _started().filter(made_at__isnull=False), _SCORED if since is None else _SCORED_SINCE
    newest = scored.filter(pool=OuterRef("pk")).order_by("-started_at", "pk").values("started_at")
    earliest = dict(Pool.objects.values_list("pk", Subquery(newest[most - 1 : most])))
    rows = scored.filter(_since({pk: max(filter(None, (at, since)), default=None) for pk, at in earliest.items()}))
    by_pool: dict[str, list[Forecast]] = {pk: [] for pk in earliest}
    for row in rows.order_by("-started_at", "pk").defer("facts"):
        by_pool[row.pool_id].append(row)
    return {pk: known[:most] for pk, known in by_pool.items()}


def _started() -> QuerySet[Forecast]:
    return Forecast.objects.filter(started_at__isnull=False)


def _since(moments: Mapping[str, datetime | None]) -> Q:
    """Return which forecasts are of these pools, each since its moment; None: since ever."""
    pools_since = defaultdict[datetime | None, list[str]](list)
    for pool_id, since in moments.items():
        pools_since[since].append(pool_id)
    asked = Q(pk__in=())
    for since, pool_ids in pools_since.items():
        asked |= Q(pool__in=pool_ids) & (Q() if since is None else Q(started_at__gte=since))
    return asked


@dataclass(frozen=True)
class PoolCoverage:
    """How the newest forecasts of a pool held. `likely_held` should be 0.5, `late_held` 0.9; None without any.

    `raw_` are the parts that would have held as the engine forecast them, without correction. `is_corrected`: enough
    of them are known to correct new ones. `has_simulated`: some nodes of the pool are simulated.
    """

    pool: str
    has_simulated: bool
    forecasts: int
    likely_held: float | None
    late_held: float | None
    raw_likely_held: float | None
    raw_late_held: float | None
    is_corrected: bool


@dataclass(frozen=True)
class PoolQuality:
    """How the newest forecasts of a pool held, and by what they told; `started` compares them with the waits.

    `untold` is how many jobs started in the time of these forecasts without one, as there was no history.
    """

    coverage: PoolCoverage
    started: Started
    promised: Sequence[Promised]
    untold: int


_MULTIPLES = [number / 10 for number in range(31)]


def list_quality(*, actor: Actor, since: datetime | None = None) -> list[PoolQuality]:  # noqa: ARG001 (all may know)
    """Return how well forecasts hold, by pool, with all that a plot needs.

    They are those of jobs that started since then; None: the newest few.
    """
    scored, simulated = _scored(since), find_simulated_pools()
    # Without a range, jobs that were told nothing count from the oldest start that is scored.
    untold = _count_untold(
        {pk: rows[-1].started_at if since is None and len(rows) == _SCORED else since for pk, rows in scored.items()}
    )
    qualities = []
    for pk, name in _pools(scored):
        scores = [score_of(row) for row in scored[pk]]
        qualities.append(
            PoolQuality(
                _coverage(name, scores, has_simulated=name in simulated),
                calibration.compare(scores, _MULTIPLES),
                calibration.measure_by_promise(scores),
                untold.get(pk, 0),
            )
        )
    return qualities


def _count_untold(since: Mapping[str, datetime | None]) -> dict[str, int]:
    """Return by pool how many jobs started without a forecast since then; None: since ever."""
    rows = _started().filter(_since(since), made_at=None).order_by().values("pool")
    return dict(rows.annotate(count=Count("pk")).values_list("pool", "count"))


def list_coverage(*, actor: Actor, since: datetime | None = None) -> list[PoolCoverage]:  # noqa: ARG001 (all may know)
    """Return how well forecasts hold, by pool: of jobs that started since then, else the newest."""
    scored, simulated = _scored(since), find_simulated_pools()
    return [
        _coverage(name, [score_of(row) for row in scored[pk]], has_simulated=name in simulated)
        for pk, name in _pools(scored)
    ]


@dataclass(frozen=True)
class ScoredForecast:
    """A forecast whose job has started, without the job's name: any actor may know it."""

    pool: str
    has_simulated: bool
    started_at: datetime
    score: Score


def list_scored(*, actor: Actor, since: datetime | None = None) -> list[ScoredForecast]:  # noqa: ARG001 (all may know)
    """Return the forecasts that `list_quality` counts, by pool, the newest start first."""
    scored, simulated = _scored(since), find_simulated_pools()
    return [
        ScoredForecast(name, name in simulated, row.started_at, score_of(row))
        for pk, name in _pools(scored)
        for row in scored[pk]
        if row.started_at is not None
    ]


def _pools(pool_ids: Iterable[str]) -> Iterable[tuple[str, str]]:
    return Pool.objects.filter(pk__in=list(pool_ids)).order_by("pk").values_list("pk", "name")


def _coverage(pool: str, scores: Sequence[Score], *, has_simulated: bool) -> PoolCoverage:
    if (known := calibration.measure(scores)) is None:
        return PoolCoverage(pool, has_simulated, 0, None, None, None, None, is_corrected=False)
    return PoolCoverage(
        pool,
        has_simulated,
        known.count,
        known.likely,
        known.late,
        known.raw_likely,
        known.raw_late,
        is_corrected=known.count >= calibration.ENOUGH,
    )


class Corrections:
    """How forecasts of starts are corrected at one moment: by those of the past, of the same pool."""

    def __init__(self) -> None:
        levels = Pool.objects.values_list("pk", "likely_level", "late_level")
        self._levels = {pk: Levels(likely, late) for pk, likely, late in levels}
        self._learnt: dict[str, Correction] = {}

    def of(self, pool_id: str) -> Correction:
        """Return the correction of forecasts for a pool."""
        if pool_id not in self._learnt:
            scores = [*scores_of(pool_id), *scores_of(pool_id, go_on=True)]
            self._learnt[pool_id] = Correction(scores, self._levels.get(pool_id, Levels()))
        return self._learnt[pool_id]


def score_of(row: Forecast) -> Score:
    """Return how a forecast turned out, as far as that is known now."""

    def after(moment: datetime | None) -> float | None:
        return None if moment is None or row.made_at is None else (moment - row.made_at).total_seconds()

    return Score(
        raw_likely_s=row.raw_likely_s or 0.0,
        raw_late_s=row.raw_late_s,
        likely_s=after(row.likely_at) or 0.0,
        late_s=after(row.late_at),
        waited_s=after(row.started_at or clock.now()) or 0.0,
        wait_class=row.wait_class,
        goes_on=row.started_at is None,
    )


def find_open() -> list[QuerySet[Any]]:
    """Return the forecasts that are not scored yet."""
    return [Forecast.objects.filter(started_at=None)]


@dataclass(frozen=True)
class StoredForecast:
    """What is told of the start of a waiting job at present."""

    name: str
    made_at: datetime
    likely_at: datetime | None
    late_at: datetime | None
    facts: Mapping[str, Any]


_STALE_AFTER = timedelta(minutes=5)


def find_forecasts(names: Collection[str]) -> Mapping[str, StoredForecast]:
    """Return by name what is told of waiting jobs; not what was told long ago. For apps that checked who may know."""
    rows = Forecast.objects.filter(name__in=names, started_at=None, latest_at__gt=clock.now() - _STALE_AFTER)
    return {
        row.name: StoredForecast(row.name, row.latest_at, row.latest_likely_at, row.latest_late_at, row.facts)
        for row in rows.order_by("wait")
    }


def pending_workloads() -> QuerySet[Workload]:
    """Return the workloads of which no pod is placed."""
    return Workload.objects.filter(state=WorkloadState.PENDING).order_by("pk")


def _unborn(pool_id: str, project_id: str) -> str:
    """Return the id of a queue that a project gets in a pool with its first work there."""
    return f"{pool_id}/{project_id}"


def _names(forward: Forward, start: StartForecast) -> list[str]:
    return [forward.session.node_of[node_id].view.name for node_id in start.node_ids]


def _pods_of(probe: Probe) -> list[PodSet]:
    pods = PodSet(
        count=probe.replicas,
        cpu_millicores=probe.cpu_millicores,
        memory_bytes=probe.memory_bytes,
        gpu_milli=probe.gpu_milli,
        **probe.placing,
    )
    return [pods, *([probe.launcher] if probe.launcher is not None else [])]


def _workload_of(probe: Probe, queue_id: str) -> Workload:
    known_id = {"pk": probe.id} if probe.id else {}
    return Workload(
        **known_id,
        project_id=probe.project_id,
        queue_id=queue_id,
        resource_id=probe.resource_id,
        pod_sets=[pods.to_json() for pods in _pods_of(probe)],
        has_many_pods=probe.replicas > 1 or probe.launcher is not None,
        priority=probe.priority,
        is_preemptible=probe.is_preemptible,
        enqueued_at=probe.enqueued_at,
    )
