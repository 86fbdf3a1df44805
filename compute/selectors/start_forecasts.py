"""The forecasts of one moment: why each waiting job waits, when it starts, and where else it would be done.

All comes from one run of the engine forward over what is known of run times, and from where the data lies.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from operator import attrgetter
from typing import Any

from accounts.permissions import Actor
from compute.engine.holders import Amounts, fits
from compute.engine.placing import Placing, PodOptions
from compute.engine.states import Gate, JobState
from compute.models import Job, Resource, Template
from compute.selectors import made_templates, pool_places, run_times, templates
from compute.selectors.jobs import SUBMITTED
from compute.selectors.made_templates import OwnSize
from compute.selectors.pool_places import Place, describe, in_each_pool, in_pool, place_of
from compute.selectors.resources import sites_by_resource
from compute.selectors.run_times import RunHistory
from compute.selectors.templates import launcher_of, placing_of
from core import clock, moves
from datasets.selectors import locality
from datasets.selectors.locality import DataArrival, Locality
from scheduler.selectors import pools, workloads
from scheduler.selectors.forecasts import (
    PASSES,
    Corrections,
    HeldBy,
    NoForecast,
    Outlook,
    Outlooks,
    Probe,
    Raise,
    Share,
    StartForecast,
    WaitClass,
)
from scheduler.selectors.resource_pools import ResourcePool, ResourcePools

_SYSTEM = Actor.system("forecasts")
_MOST_PLACED = 20
"""Of so many waiting jobs, the oldest, other places are looked at, and of so many kinds of jobs that move."""
_MOST_MOVED = 250
"""So many jobs, the oldest, are told where else they would be done, and may move, in one round."""

_MOST_PLACES = 4
_MOST_HOLDERS = 8
_COLUMNS = (
    *run_times.COLUMNS,
    *("kind", "name", "title", "workload_id", "resource_id", "resource__name", "template_id", "project__name"),
    *("cpu_millicores", "memory_bytes", "gpu_milli", "priority", "is_preemptible", "evictions", "replica_count"),
    *(
        "created_at",
        "spec__commits",
        "spec__fallbacks",
        "spec__moves_by",
        "spec__pools",
        "spec__pool",
        "spec__own_cpu_millicores",
        "spec__own_memory_bytes",
        "spec__placing",
        "spec__pod",
        "spec__image",
        "template__price_per_hour",
    ),
)


JobFacts = Mapping[str, Any]
"""What is read of a job."""


def moves_by(job: JobFacts) -> str:
    """Return what a waiting job chooses by when it moves elsewhere: `order` or `soonest`; empty: it does not by itself.

    A job of a step is moved by its run, once its data is there.
    """
    if job["kind"] == SUBMITTED:
        return "order" if job["spec__pools"] and not job["evictions"] else ""
    return job["spec__moves_by"] if job["workload_id"] and job["spec__moves_by"] in {"order", "soonest"} else ""


def size_of(job: JobFacts) -> int:
    """Return what a job takes, in thousandths of GPUs, without any in millicores."""
    return int(job["replica_count"] * (job["gpu_milli"] or job["cpu_millicores"]))


@dataclass(frozen=True)
class JobForecast:
    """When a job starts, in seconds; None is unknown. `facts` are what is told of its wait, as JSON.

    `raw_` is what the engine said, before it was corrected by how past forecasts turned out.
    """

    likely_s: float | None
    late_s: float | None
    raw_likely_s: float | None
    raw_late_s: float | None
    wait_class: str
    facts: Mapping[str, Any]
    pool_id: str


def list_live_jobs() -> list[JobFacts]:
    """Return what forecasts need to know of all jobs that have not ended, the oldest first.

    Of a job with parts it is these that wait.
    """
    return list(Job.objects.filter(is_live=True).exclude(gate=Gate.PARTS).order_by("pk").values(*_COLUMNS))


def list_in_line() -> set[str]:
    """Return the ids of the pending jobs that wait for data or for a place.

    Those that have got their place start next; for those that no cycle has seen yet there may be one.
    """
    pending = list(Job.objects.filter(is_live=True, state=JobState.PENDING).values_list("pk", "workload_id"))
    waiting = workloads.list_waiting([workload_id for _, workload_id in pending if workload_id is not None])
    return {job_id for job_id, workload_id in pending if workload_id is None or workload_id in waiting}


@dataclass(frozen=True)
class ChangedStart:
    """When a job would start after a change, and `stops`, as JSON, whom it would stop. `raw_s`: without correction."""

    raw_s: float
    likely_at: datetime | None
    late_at: datetime | None
    nodes: Sequence[str]
    stops: Sequence[Mapping[str, Any]]


class Forecaster:
    """All that the forecasts of one moment are made of."""

    def __init__(
        self,
        jobs: Sequence[JobFacts],
        asked: Sequence[JobFacts] | None = None,
        *,
        is_exact: bool = False,
        passes: int = PASSES,
    ) -> None:
        """Read what is needed; `jobs` are all that have not ended, `asked` those of them to forecast (None: any)."""
        self._jobs = {_id_of(job): job for job in jobs}
        waiting = [job for job in jobs if job["state"] == JobState.PENDING]
        self._history = RunHistory(jobs)
        self._places = _Places(waiting)
        self._outlooks = Outlooks(
            {id_: self._history.predict(job) for id_, job in self._jobs.items()},
            project_ids={job["project_id"] for job in waiting},
            arrivals=self._arrivals([job for job in waiting if job["workload_id"] is None and job["pk"]]),
            is_exact=is_exact,
            passes=passes,
        )
        self._corrections = Corrections()
        self.now = self._outlooks.now
        self._asked = None if asked is None else {_id_of(job) for job in asked}
        self._moving = [job for job in (waiting if asked is None else asked) if moves_by(job)][:_MOST_MOVED]
        self._compared = {job["pk"] for job in (*waiting[:_MOST_PLACED], *self._moving)}

    @cached_property
    def _known(self) -> Mapping[str, Outlook]:
        return {outlook.workload_id: outlook for outlook in self._outlooks.of_waiting(self._asked)}

    def _arrivals(self, jobs: Sequence[JobFacts]) -> list[Probe]:
        """Return the jobs that join the queue, with their place in line, at the known time when their data is ready."""
        probes = [self._probe(job, job, self._places.arrival(job, job["resource_id"])) for job in jobs]
        return [replace(probe, id=str(probe.instead_of), instead_of=None) for probe in probes if probe.in_s < math.inf]

    @property
    def pool_ids(self) -> list[str]:
        """The pools of this moment."""
        return self._outlooks.pool_ids

    def require_pool(self, pool_id: str) -> None:
        """Raise the first error of the engine in a pool, if it has failed there so far."""
        if error := self._outlooks.errors.get(pool_id):
            raise error

    def is_unknown(self, job: JobFacts) -> bool:
        """Return whether nothing can be told of a job where it is, as the engine fails on those that wait there."""
        return _id_of(job) not in self._known and self._outlooks.is_unknown(_id_of(job))

    def forecast(self, job: JobFacts) -> JobForecast:
        """Return the forecast of a waiting job, without places in which the engine fails. Raises NoForecast."""
        outlook = self._here(job)
        start = outlook.start
        likely_s, late_s = self._correct(outlook)
        here = self._place(job, job, outlook, (likely_s, late_s), self._places.arrival(job, job["resource_id"]))
        others = self._elsewhere(job) if job["pk"] in self._compared else ()
        facts = {
            "wait_class": str(outlook.wait_class),
            "line": start.ahead + 1 if start.likely_s < math.inf else None,
            "nodes": list(outlook.nodes),
            "asked": self._share_of(job, outlook.own),
            "asked_milli": size_of(job),
            "holders": [self._holder(job, holder) for holder in outlook.holders[:_MOST_HOLDERS]],
            "stops": self._stops(start),
            "places": [here, *others],
            "compared": self._corrections.of(outlook.pool_id).count,
            "ending_s": self._ending_s(job, outlook),
        }
        return JobForecast(
            likely_s=_known(likely_s),
            late_s=_known(late_s),
            raw_likely_s=_known(start.likely_s),
            raw_late_s=_known(start.late_s),
            wait_class=str(outlook.wait_class),
            facts=facts,
            pool_id=outlook.pool_id,
        )

    def _here(self, job: JobFacts) -> Outlook:
        """Return the outlook of a waiting job where it is."""
        known = self._known.get(_id_of(job))
        return known or self._at_place(job, job, self._places.arrival(job, job["resource_id"]))

    def _correct(self, outlook: Outlook) -> tuple[float, float]:
        """Return when a job starts there, as it is to be told."""
        start = outlook.start
        return self._corrections.of(outlook.pool_id).of(start.likely_s, start.late_s, str(outlook.wait_class))

    def _share_of(self, job: JobFacts, share: Share) -> dict[str, Any]:
        return {
            "project": job["project__name"],
            "held": share.held,
            "quota": share.quota,
            "fair": share.fair,
            "resource": "gpu" if job["gpu_milli"] else "cpu",
        }

    def _holder(self, job: JobFacts, holder: HeldBy) -> dict[str, Any]:
        other = self._jobs.get(holder.workload_id)
        return self._who(holder.workload_id) | {
            "gpu_milli": holder.gpu_milli,
            "ends_at": self._at(holder.ends_in_s),
            "is_borrowing": holder.share.is_borrowing,
            "is_over_quota": holder.share.is_over_quota,
            "is_ahead": holder.is_ahead,
            "has_priority": other is not None
            and other["project_id"] == job["project_id"]
            and other["priority"] > job["priority"],
        }

    def _stops(self, start: StartForecast) -> list[dict[str, Any]]:
        return [
            self._who(stop.job_id) | {"code": str(stop.code), "at": self._at(stop.in_s), "goes_on": stop.goes_on}
            for stop in start.stops
        ]

    def _ending_s(self, job: JobFacts, outlook: Outlook) -> float:
        """Return how long those may take to end that are stopped for a job, or are being stopped where it starts."""
        stopped = [self._jobs[stop.job_id] for stop in outlook.start.stops if stop.job_id in self._jobs]
        graces_s = [other["grace_period_s"] for other in stopped if not other["resource__is_simulated"]]
        if outlook.wait_class is WaitClass.STOPPING:
            graces_s += [
                other.grace_period_s
                for other in self._ending
                if other.resource_id == job["resource_id"] and not set(outlook.nodes).isdisjoint(other.node_names)
            ]
        return max(map(templates.bound_grace_period, graces_s), default=0.0)

    @cached_property
    def _ending(self) -> list[Job]:
        """The jobs that are being stopped for others, but for simulated ones, which end at once."""
        ending = Job.objects.filter(workload__in=list(workloads.list_terminating()), resource__is_simulated=False)
        return list(ending.only("resource_id", "node_name", "gpus", "replicas", "grace_period_s"))

    def _who(self, workload_id: str) -> dict[str, Any]:
        job = self._jobs.get(workload_id)
        if job is None:
            return {"project_id": "", "project": "", "job": ""}
        return {"project_id": job["project_id"], "project": job["project__name"], "job": job["title"] or job["name"]}

    # --- changes

    def present_s(self, job: JobFacts) -> float:
        """Return in how many seconds a waiting job starts as it is, without correction; infinite: nobody knows."""
        return self._here(job).start.likely_s

    def if_changed(self, job: JobFacts, changed: JobFacts) -> ChangedStart:
        """Return when a waiting job would start if it was submitted anew with some of its facts changed."""
        other = {**job, **changed}
        # What is no longer `other` itself has the place in line of a new submission.
        outlook = self._at_place(other, dict(other), self._places.arrival(job, other["resource_id"]))
        return self._changed(outlook.pool_id, outlook.start, outlook.nodes, outlook.wait_class)

    def if_allowed_more(self, job: JobFacts) -> Iterator[tuple[Raise, ChangedStart]]:
        """Yield when a waiting job would start if its project might hold more, each with the amount."""
        known = self._known.get(_id_of(job))
        wait_class = known.wait_class if known is not None else WaitClass.OVER_SHARE
        pool_id = known.pool_id if known is not None else self._places.place_of_job(job)[1]
        for each in self._outlooks.if_allowed_more(_id_of(job)):
            yield each, self._changed(pool_id, each.start, each.nodes, wait_class)

    def _changed(self, pool_id: str, start: StartForecast, nodes: Sequence[str], wait_class: WaitClass) -> ChangedStart:
        correction = self._corrections.of(pool_id)
        likely_s, late_s = correction.of(start.likely_s, start.late_s, str(wait_class))
        return ChangedStart(start.likely_s, self.moment(likely_s), self.moment(late_s), nodes, self._stops(start))

    # --- places

    def list_other_places(self, job: JobFacts) -> list[Template]:
        """Return the templates of other places where a job could run, also of pools that it did not name."""
        return [template for template, _ in self._other_places(job, is_anywhere=True)]

    def list_smaller_templates(self, job: JobFacts) -> list[Template]:
        """Return the largest and the smallest template on the resource of a job that has less than it."""
        return [] if Placing.read(job["spec__placing"]).has_own_gpu else self._places.smaller(job)

    def starts_at(self, job: JobFacts, template: Template, count: int) -> tuple[Sequence[float], float] | None:
        """Return in how many seconds so many equal jobs would start on a template, and how long each then runs.

        None where its datasets would have to be copied for each job, for which no time is known, or the engine fails.
        """
        arrival = self._places.arrival(job, template.resource_id)
        if _needs_own_copy(job, template, arrival):
            return None
        probe = self._probe(job, {**job, **shape_of(template)}, arrival)
        try:
            return self._outlooks.starts_of_probe(probe, count), probe.run_times.left_s(0.5)
        except NoForecast:
            return None

    def is_about_to_start(self, job: JobFacts) -> bool:
        """Return whether a job in the queue starts in the next cycle where it is, or once others have been stopped."""
        known = self._known.get(_id_of(job))
        return known is not None and (known.start.likely_s <= 0 or known.wait_class is WaitClass.STOPPING)

    def has_data(self, job: JobFacts, template: Template) -> bool:
        """Return whether nothing of the data of a job has to be brought to the resource of a template."""
        arrival = self._places.arrival(job, template.resource_id)
        return arrival is None or arrival.is_ready

    def start_s(self, job: JobFacts, template: Template, *, before: int = 0) -> float:
        """Return in how many seconds a waiting job would start on a template once its data is there.

        `before` jobs as large as it are counted as submitted there before it. Infinite: nobody knows, or others would
        be stopped for it, or its data cannot be brought there.
        """
        arrival = self._places.arrival(job, template.resource_id)
        if _needs_own_copy(job, template, arrival):
            return math.inf
        probe = self._probe(job, {**job, **shape_of(template)}, arrival)
        outlook = self._find_outlook(probe)
        if outlook is None or outlook.start.stops:
            return math.inf
        return self._outlooks.starts_of_probe(probe, before + 1)[-1] if before else outlook.start.likely_s

    def _elsewhere(self, job: JobFacts) -> Iterator[dict[str, Any]]:
        for option in self._options[_id_of(job)] if moves_by(job) else self._options_of(job):
            if (outlook := option.outlook or self._find_outlook(option.probe)) is not None:
                yield self._place(job, option.there, outlook, self._correct(outlook), option.arrival)

    def _find_outlook(self, probe: Probe) -> Outlook | None:
        """Return the outlook of a job at another place; None where the engine fails there."""
        try:
            return self._outlooks.of_probe(probe)
        except NoForecast:
            return None

    def _options_of(self, job: JobFacts) -> Iterator["_Option"]:
        for template, arrival in self._other_places(job):
            there = {**job, **shape_of(template)}
            yield _Option(job, template, there, arrival, self._probe(job, there, arrival))

    @cached_property
    def _options(self) -> Mapping[str, Sequence["_Option"]]:
        """Return by job where those may go that move by themselves, and what they may expect if others go there too.

        First come all that gain by it, so no two of them are told of the same capacity, and all may move at once.
        Behind them come those that would only start earlier.
        """
        options = defaultdict[str, list[_Option]](list)
        joining = defaultdict[Place, list[_Option]](list)
        alone = dict[object, Outlook | None]()
        for job in self._moving:
            if self.is_unknown(job):
                continue
            here_s, counts = self._correct(self._here(job))[0], Counter[Place]()
            for option in self._options_of(job):
                kind, place = option.probe.kind, self._places.place_of(option.template)
                if kind not in alone and len(alone) < _MOST_PLACED * _MOST_PLACES:
                    alone[kind] = self._find_outlook(option.probe)
                if (outlook := alone.get(kind)) is None:
                    continue
                option.outlook, option.here_s, option.number = outlook, here_s, counts[place]
                options[_id_of(job)].append(option)
                if self._correct(outlook)[0] < here_s:
                    counts[place] += 1
                    joining[place].append(option)
        for entries in joining.values():
            if len(entries) > 1:
                movers = [each for each in entries if self._gains(each)]
                others = [each for each in entries if not self._gains(each)]
                self._tell_together([*sorted(movers, key=_from_the_end), *others])
                movers = [each for each in movers if self._gains(each)]
                self._tell_together(sorted(movers, key=attrgetter("number")))
        return options

    def _tell_together(self, options: Sequence["_Option"]) -> None:
        """Work out what jobs may expect that are submitted to one place in this order."""
        moment = timedelta(microseconds=1)
        probes = [replace(each.probe, enqueued_at=self.now + n * moment) for n, each in enumerate(options)]
        outlooks: Sequence[Outlook | None] = [None] * len(probes)
        with suppress(NoForecast):
            outlooks = self._outlooks.of_probes(probes) if probes else ()
        for option, outlook in zip(options, outlooks, strict=True):
            option.outlook = outlook

    def _gains(self, option: "_Option") -> bool:
        """Return whether a job moves to a place by itself, by when it starts here and there."""
        job, there_s = option.job, math.inf if option.outlook is None else self._correct(option.outlook)[0]
        if moves_by(job) == "order":
            return moves.is_start_better(there_s, option.here_s, has_data=bool(job["spec__commits"]))
        return moves.is_end_better(there_s + self._run_s(option.there), option.here_s + self._run_s(job))

    def _run_s(self, there: JobFacts) -> float:
        return self._history.predict(there, there["template_name"]).left_s(0.5)

    def count_promised(self) -> Counter[str]:
        """Return by place how much of it jobs of steps may take now, as `size_of` counts it."""
        promised = Counter[str]()
        for job in self._moving:
            if job["kind"] != SUBMITTED:
                for option in self._options[_id_of(job)]:
                    if self._gains(option) and option.outlook is not None and option.outlook.start.likely_s <= 0:
                        promised[describe(option.template.resource.name, option.template.pool)] += size_of(job)
        return promised

    def _other_places(
        self, job: JobFacts, *, is_anywhere: bool = False
    ) -> Iterator[tuple[Template, DataArrival | None]]:
        known = self._known.get(_id_of(job))
        here = (job["resource_id"], known.pool_id) if known is not None else self._places.place_of_job(job)
        for template in self._places.others(job, here, is_anywhere=is_anywhere):
            arrival = self._places.arrival(job, template.resource_id)
            # Simulated steps run without their data where there is no site; nothing else can be submitted there.
            is_named = template.full_name in (job["spec__fallbacks"] or ())
            if not _needs_own_copy(job, template, arrival) and not (
                arrival is None and job["spec__commits"] and not is_named
            ):
                yield template, arrival

    def _at_place(self, job: JobFacts, there: JobFacts, arrival: DataArrival | None) -> Outlook:
        """Return the outlook of a job at a place, queued there once its data is ready."""
        return self._outlooks.of_probe(self._probe(job, there, arrival))

    def _probe(self, job: JobFacts, there: JobFacts, arrival: DataArrival | None) -> Probe:
        placing, pod = Placing.read(job["spec__placing"]), PodOptions.read(there["spec__pod"])
        ready_in_s = 0.0 if arrival is None or arrival.is_ready else arrival.ready_in_s
        return Probe(
            project_id=job["project_id"],
            resource_id=there["resource_id"],
            cpu_millicores=there["cpu_millicores"],
            memory_bytes=there["memory_bytes"],
            gpu_milli=0 if placing.has_own_gpu else there["gpu_milli"],
            # Elsewhere it would be submitted anew.
            enqueued_at=job["created_at"] if there is job else clock.now(),
            run_times=self._history.predict(there, there["template_name"]),
            replicas=job["replica_count"],
            placing=placing_of(placing, pod),
            launcher=launcher_of(placing, pod.parsed_tolerations),
            priority=job["priority"],
            is_preemptible=job["is_preemptible"],
            instead_of=_id_of(job),
            in_s=math.inf if ready_in_s is None else ready_in_s,
            pool=there["spec__pool"] or "",
        )

    def _place(
        self,
        job: JobFacts,
        there: JobFacts,
        outlook: Outlook,
        start: tuple[float, float],
        arrival: DataArrival | None,
    ) -> dict[str, Any]:
        likely_s, late_s = start
        run_s = self._run_s(there)
        return {
            "template": there["template_name"],
            "resource": there["resource__name"],
            "pool": self._places.pool_name(there["resource_id"], outlook.pool_id),
            "starts_at": self._at(likely_s),
            "late_at": self._at(late_s),
            "run_s": _known(run_s),
            "finishes_at": self._at(likely_s + run_s),
            "cost": _cost_of(there, run_s),
            "is_chosen": there is job,
            "is_fallback": there["template_name"] in (job["spec__fallbacks"] or ()),
            "data": None
            if arrival is None
            else {
                "total_bytes": arrival.total_bytes,
                "missing_bytes": arrival.missing_bytes,
                "site": arrival.site,
                "is_assumed": arrival.is_assumed,
                "is_away": arrival.is_away,
                "ready_at": None if arrival.ready_in_s is None else self._at(arrival.ready_in_s),
            },
        }

    def moment(self, seconds: float | None) -> datetime | None:
        """Return the moment in so many seconds; None where that is not known."""
        return None if seconds is None or seconds == math.inf else self.now + timedelta(seconds=seconds)

    def _at(self, seconds: float) -> str | None:
        moment = self.moment(seconds)
        return None if moment is None else moment.isoformat()


@dataclass
class _Option:
    """Where a waiting job could go, `there` as it would be. `outlook` None: nothing is worked out yet.

    It starts in `here_s` seconds where it is. `number` counts the options of one job at one place.
    """

    job: JobFacts
    template: Template
    there: JobFacts
    arrival: DataArrival | None
    probe: Probe
    outlook: Outlook | None = None
    here_s: float = math.inf
    number: int = 0


def _from_the_end(option: _Option) -> tuple[float, ...]:
    """Return the order in which it is found out who moves: those of a step's first template at a place, then others.

    Of those that go where they are done first, those come first that start last where they are: who leaves the end of
    a line lets nobody else there start earlier than was told.
    """
    is_soonest = moves_by(option.job) == "soonest"
    return option.number, is_soonest, -option.here_s if is_soonest else 0.0


class _Places:
    """Where waiting jobs could go, and how far their data is there."""

    def __init__(self, waiting: Sequence[JobFacts]) -> None:
        self._sites = sites_by_resource()
        commits = {id_ for job in waiting for id_ in job["spec__commits"] or ()}
        sites = {site for names in self._sites.values() for site in names}
        self._locality: Locality | None = locality.read_locality(commits, sites) if commits else None
        rows = Template.objects.filter(resource__detached_at=None).select_related("resource")
        self._templates = {row.full_name: row for row in rows.order_by("gpu_milli", "cpu_millicores", "pk")}
        self._resources = list(Resource.objects.filter(detached_at=None).order_by("name"))
        self._pools = ResourcePools()
        self._by_size: dict[OwnSize, Sequence[Template]] = {}

    def arrival(self, job: JobFacts, resource_id: str) -> DataArrival | None:
        """Return how far the data of a job is at a resource; None where it reads none, or the resource has no site."""
        commits, sites = job["spec__commits"], self._sites.get(resource_id)
        return self._locality.arrival(commits, sites) if self._locality is not None and commits and sites else None

    def pool_name(self, resource_id: str, pool_id: str) -> str:
        """Return the name of a pool of a resource; empty where that is not divided among several."""
        known = self._pools.list_pools(resource_id) if self._pools.is_divided(resource_id) else ()
        return next((pool.name for pool in known if pool.id == pool_id), "")

    def place_of(self, template: Template) -> Place:
        """Return where jobs of a template go."""
        return place_of(template, self._pools, self._nodes)

    def place_of_job(self, job: JobFacts) -> Place:
        """Return where a job goes that is not queued."""
        sizes = {name: job[name] for name in ("cpu_millicores", "memory_bytes", "gpu_milli")}
        own = Template(resource_id=job["resource_id"], pool=job["spec__pool"] or "", **sizes)
        return self.place_of(own)

    def others(self, job: JobFacts, here: Place, *, is_anywhere: bool = False) -> list[Template]:
        """Return the templates that its step names besides, then of each other resource the smallest that holds it.

        One that names no template has a size of its own on each, and one with pools goes nowhere else: places of
        other pools count where it may be submitted anew (`is_anywhere`). Nodes that do not exist are no place for work
        on those that do, nor the other way round.
        """
        names = dict.fromkeys(job["spec__fallbacks"] or ())
        named = [self._templates[name] for name in names if name in self._templates]
        others = [row for row in named if row.full_name != job["template_name"]]
        seen = {here, *(self.place_of(row) for row in others)}
        rows: Iterable[Template]
        if job["spec__pools"] or job["template_id"] is None:
            rows = self._own_sizes(job)
        else:
            rows = (row for row in self._templates.values() if _is_as_large(row, job))
            rows = in_each_pool(rows, self._pools) if is_anywhere else rows
        for row in rows:
            place = self.place_of(row)
            if place in seen or not (is_anywhere or self._is_in_pools(job, row)):
                continue
            if _may_run_on(job, row) and self._has_node_for(row, place):
                seen.add(place)
                others.append(row)
        return others[:_MOST_PLACES]

    def _own_sizes(self, job: JobFacts) -> Sequence[Template]:
        """Return what a job that names no template gets at each place where a node that takes work has so much."""
        size = OwnSize(
            gpu_milli=job["gpu_milli"],
            cpu_millicores=job["spec__own_cpu_millicores"],
            memory_bytes=job["spec__own_memory_bytes"],
            placing=Placing.read(job["spec__placing"]),
        )
        if size not in self._by_size:
            rows = [
                self._own_size(size, resource, pool)
                for resource in self._resources
                for pool in self._pools.list_pools(resource.pk)
            ]
            self._by_size[size] = [row for row in rows if row is not None]
        return self._by_size[size]

    def _own_size(self, size: OwnSize, resource: Resource, pool: ResourcePool) -> Template | None:
        templates_there = [row for row in self._templates.values() if row.resource_id == resource.pk]
        name = pool.name if self._pools.is_divided(resource.pk) else ""
        nodes = [amounts for _, amounts in self._open_nodes.get((resource.pk, pool.id), ())]
        row = made_templates.make_template(size, resource, templates_there, nodes, name)
        return row if any(fits(_amounts_of(row), node, []) for node in nodes) else None

    def _is_in_pools(self, job: JobFacts, row: Template) -> bool:
        names = job["spec__pools"]
        if row.pool:
            return not names or row.pool in names
        return not names or any(row.resource_id in self._resources_by_pool.get(name, ()) for name in names)

    def _has_node_for(self, row: Template, place: Place) -> bool:
        """Return whether a resource that labels divide has a node in a pool which a job of a template fits on."""
        return not self._pools.is_divided(row.resource_id) or any(
            fits(_amounts_of(row), node, []) for _, node in self._nodes.get(place, ())
        )

    @cached_property
    def _nodes(self) -> Mapping[Place, Sequence[tuple[str, Amounts]]]:
        divided = {resource.pk for resource in self._resources if self._pools.is_divided(resource.pk)}
        return pool_places.nodes_of(_SYSTEM, divided, are_open=False)

    @cached_property
    def _open_nodes(self) -> Mapping[Place, Sequence[tuple[str, Amounts]]]:
        return pool_places.nodes_of(_SYSTEM, {resource.pk for resource in self._resources})

    @cached_property
    def _resources_by_pool(self) -> Mapping[str, Collection[str]]:
        return pools.resource_ids_by_pool()

    def smaller(self, job: JobFacts) -> list[Template]:
        """Return the largest and the smallest template on the resource of a job that has less than it."""
        pool = job["spec__pool"] or ""
        decisive = "gpu_milli" if job["gpu_milli"] else "cpu_millicores"
        smaller = [
            row
            for row in self._templates.values()
            if row.resource_id == job["resource_id"]
            and row.pool in {"", pool}
            and bool(row.gpu_milli) is bool(job["gpu_milli"])
            and getattr(row, decisive) < job[decisive]
        ]
        few = dict.fromkeys((smaller[-1], smaller[0])) if smaller else ()
        return [in_pool(row, pool) for row in few]


def _may_run_on(job: JobFacts, row: Template) -> bool:
    return row.resource.is_simulated == job["resource__is_simulated"] and not templates.describe_kind_mismatch(
        row.resource,
        gpu_milli=job["gpu_milli"],
        replicas=Placing.read(job["spec__placing"]).count_pods(job["replica_count"]),
        needs_image=bool(job["spec__image"]),
    )


def _is_as_large(row: Template, job: JobFacts) -> bool:
    return all(getattr(row, name) >= job[name] for name in ("cpu_millicores", "memory_bytes", "gpu_milli"))


def _amounts_of(row: Template) -> Amounts:
    return Amounts(row.cpu_millicores, row.memory_bytes, row.gpu_milli)


def shape_of(template: Template) -> JobFacts:
    """Return what jobs have of their template."""
    return {
        "resource_id": template.resource_id,
        "resource__name": template.resource.name,
        "resource__is_simulated": template.resource.is_simulated,
        "template_name": template.full_name,
        "cpu_millicores": template.cpu_millicores,
        "memory_bytes": template.memory_bytes,
        "gpu_milli": template.gpu_milli,
        "spec__pod": template.pod,
        "spec__pool": template.pool,
        "template__price_per_hour": template.price_per_hour,
    }


def _cost_of(there: JobFacts, run_s: float) -> float | None:
    """Return what all replicas of a job cost at a place; None where that is not known or has no price."""
    price = there["template__price_per_hour"]
    return None if price is None or run_s == math.inf else float(price) * there["replica_count"] * run_s / 3600


def _needs_own_copy(job: JobFacts, template: Template, arrival: DataArrival | None) -> bool:
    return arrival is None and bool(job["spec__commits"]) and not template.resource.is_simulated


def _id_of(job: JobFacts) -> str:
    """Return the name of a job in forecasts: that of its workload, once it has one."""
    return str(job["workload_id"] or job["pk"])


def _known(seconds: float) -> float | None:
    return seconds if seconds < math.inf else None
