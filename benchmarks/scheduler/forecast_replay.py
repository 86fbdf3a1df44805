"""How well forecasts of starts hold: jobs of the Philly trace, replayed through the platform's own code.

A database of its own has 64 nodes of 8 GPUs and a project for each virtual cluster, with the quotas of
`scheduler.philly`. The clock is moved from event to event; jobs are submitted, placed, evicted, started, observed,
forecast and scored by the functions that the platform's background tasks call, and nothing else decides. A job that is
evicted goes on from its last half hour. How long jobs run is hidden from the forecasts: they learn it from other jobs.
Each wait is forecast once, `BENCH_FORECAST_AFTER` s after it began; that is what a job is told first, and
what is scored when it starts. Waits that end sooner are not forecast, and those that go on at the end are not scored. All
that a forecast is corrected by is known at the time when it is made.

The peer tells the middle and the ninth tenth of the last 50 waits. Parts of the trace and classes of waits are printed
apart. `BENCH_FIRST` begins with a later job, on an empty cluster. `BENCH_HOME` keeps the database, for its pages.
"""

import heapq
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.scheduler import philly
from benchmarks.scheduler.philly_replay import CHECKPOINT_S, NODE_GPUS, Arrival

LAST_WAITS = 50
FORECAST_AFTER_S = float(os.environ.get("BENCH_FORECAST_AFTER", "5"))
"""How long after a job began to wait it is forecast. The platform looks every 5 s."""

MOST_S = float(os.environ.get("BENCH_SECONDS", "inf"))
"""Of CPU time. What has happened by then is reported."""

MOST_CYCLES = 20
ARRIVE, END, FORECAST = range(3)
GIB = 2**30


def main() -> None:
    quotas = philly.read_quotas()
    arrivals = philly.read_jobs(quotas)[philly.FIRST : philly.FIRST + philly.JOBS]
    with _platform():
        started = time.process_time()
        replay = Replay(quotas, arrivals)
        replay.run()
        report(replay.submitted, time.process_time() - started, replay)


@contextmanager
def _platform() -> Iterator[None]:
    """Set up Django on a database of its own."""
    with tempfile.TemporaryDirectory(prefix="nearline-bench-") as folder:
        os.environ["NEARLINE_HOME"] = os.environ.get("BENCH_HOME", folder)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
        import django

        django.setup()
        import structlog
        from django.core.management import call_command

        from core import tasks

        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
        call_command("migrate", verbosity=0)
        tasks.install(tasks.NullQueue())
        yield


class Replay:
    """The world around the platform: people who submit jobs, and a clock."""

    def __init__(self, quotas: dict[str, int], arrivals: Sequence[Arrival]) -> None:
        from accounts.permissions import Actor

        self._actor = Actor.system("replay")
        self._arrivals = arrivals
        self._events = [(arrival.at_s, ARRIVE, number) for number, arrival in enumerate(arrivals)]
        self._now_s = arrivals[0].at_s
        self._quotas = quotas
        self._templates: dict[int, str] = {}
        self._projects: dict[str, str] = {}
        self._resource: Any = None
        self._is_forecast_due = False
        self._seen: set[str] = set()
        self._stored_waits: set[tuple[str, int]] = set()
        self.submitted = 0
        self.rounds = 0
        self.rounds_s = 0.0
        self.evictions = 0

    def run(self) -> None:
        """Replay until the last job has come, or the time is up."""
        from core import clock

        with clock.frozen_at(_moment(self._now_s)) as move_to:
            self._set_up()
            last_s = self._arrivals[-1].at_s
            while self._events and self._events[0][0] <= last_s and time.process_time() < MOST_S:
                now_s = self._events[0][0]
                self._now_s = now_s
                move_to(_moment(now_s))
                self._happen()

    def _set_up(self) -> None:
        from accounts.services import projects
        from compute.models import Resource
        from compute.services import resources, templates
        from core.units import ONE_GPU
        from scheduler.models import Queue
        from scheduler.services import pool_members, queues
        from scheduler.workers import cycle

        # A minute of the replay is none of its machine.
        cycle._MAX_AGE = timedelta(days=1)  # noqa: SLF001
        root = projects.create_user(
            actor=self._actor, username="admin", password=os.environ.get("BENCH_PASSWORD") or None, is_site_admin=True
        )
        from accounts.selectors import actor_of

        admin = actor_of(root)
        node = {"cpu_millicores": 64_000, "memory_bytes": 512 * GIB, "gpus": NODE_GPUS}
        gpu = {"gpu_model": "V100", "gpu_memory_bytes": 32 * GIB}
        nodes = [{"name": f"philly-{number:02}", **node, **gpu} for number in range(philly.NODES)]
        self._resource = resources.attach_resource(
            actor=admin, name="philly", kind="simulated", config={"nodes": nodes}
        )
        # The durations that simulated jobs declare would be known to forecasts.
        Resource.objects.filter(pk=self._resource.pk).update(is_simulated=False)
        for gpus in sorted({_gpus_each(arrival) for arrival in self._arrivals}):
            shape = templates.Shape(4000 * gpus, 32 * GIB * gpus, ONE_GPU * gpus)
            template = templates.create_template(actor=admin, resource=self._resource, name=f"gpu-{gpus}", shape=shape)
            self._templates[gpus] = template.pk
        for name, quota in self._quotas.items():
            self._projects[name] = projects.create_project(actor=admin, name=f"vc-{name.lower()}").pk
            pool_members.ensure_queue(project_id=self._projects[name])
            queue = Queue.objects.get(project=self._projects[name])
            queues.set_quota(actor=admin, queue=queue, gpu_quota_milli=ONE_GPU * quota)

    def _happen(self) -> None:
        """Let all happen that is to happen at this moment."""
        from scheduler.models import Forecast, Workload

        kinds = set()
        while self._events and self._events[0][0] <= self._now_s:
            _, kind, number = heapq.heappop(self._events)
            if kind == ARRIVE:
                self._submit(number)
                if number % 100 == 0:
                    print(
                        f"job {number}: {time.process_time():.0f} s, {self.rounds} rounds in {self.rounds_s:.0f} s,"
                        f" {Workload.objects.filter(state='pending').count()} wait, {self.evictions} evicted,"
                        f" {Forecast.objects.exclude(started_at=None).count()} scored",
                        file=sys.stderr,
                        flush=True,
                    )
            kinds.add(kind)
        if END in kinds:
            self._observe()
        if kinds != {FORECAST}:
            self._settle()
        if FORECAST in kinds:
            self._is_forecast_due = False
            self._forecast()
        if not self._is_forecast_due and self._new_waits():
            self._is_forecast_due = True
            heapq.heappush(self._events, (self._now_s + FORECAST_AFTER_S, FORECAST, 0))

    def _submit(self, number: int) -> None:
        from compute.services import jobs

        arrival = self._arrivals[number]
        name = f"job-{number:05}"
        spec = jobs.JobSpec(
            name=name,
            command="train",
            simulated_duration_s=arrival.work_s,
            replicas=-(-arrival.gpus // NODE_GPUS),
        )
        request = jobs.JobRequest(
            project_id=self._projects[arrival.queue],
            name=name,
            kind="job",
            template_id=self._templates[_gpus_each(arrival)],
            spec=spec,
        )
        jobs.submit_many(actor=self._actor, requests=[request])
        self.submitted += 1

    def _settle(self) -> None:
        """Run what the platform's tasks run, until nothing more follows."""
        from compute.workers import launches
        from scheduler.workers import cycle

        for _ in range(MOST_CYCLES):
            made = cycle.run_once()
            if made.evicted:
                launches.evict_jobs()
                self._go_on_later()
                self._observe()
            if made.placed:
                launches.start_placed_jobs()
                self._note_ends()
                self._score()
            if not made.evicted and not made.placed:
                return

    def _observe(self) -> None:
        from compute.workers import observe

        observe.observe_resource(resource_id=self._resource.pk)

    def _note_ends(self) -> None:
        from compute.models import SimulatedJob

        for row in SimulatedJob.objects.filter(is_forgotten=False, started_at=_moment(self._now_s)):
            heapq.heappush(self._events, (self._now_s + row.duration_s, END, 0))

    def _go_on_later(self) -> None:
        """Let jobs that were stopped have done what was safe in their checkpoints."""
        from compute.models import Job, SimulatedJob

        stopped = SimulatedJob.objects.filter(is_forgotten=False, stopped_at=_moment(self._now_s))
        runs = {row.name: (row.stopped_at - row.started_at).total_seconds() for row in stopped if row.stopped_at}
        if not runs:
            return
        for job in Job.objects.filter(is_live=True).exclude(state="pending"):
            if job.run_name in runs and job.run_name not in self._seen:
                self._seen.add(job.run_name)
                self.evictions += 1
                safe_s = runs[job.run_name] // CHECKPOINT_S * CHECKPOINT_S
                left_s = max(1.0, job.spec["simulated_duration_s"] - safe_s)
                Job.objects.filter(pk=job.pk).update(spec={**job.spec, "simulated_duration_s": left_s})

    def _new_waits(self) -> dict[str, int]:
        """Return the waits of which nothing was forecast yet, by job."""
        from compute.models import Job

        waiting = Job.objects.filter(is_live=True, state="pending").values_list("name", "evictions")
        return {name: wait for name, wait in waiting if (name, wait) not in self._stored_waits}

    def _forecast(self) -> None:
        from compute.workers import forecasts

        if not (waits := self._new_waits()):
            return
        started = time.process_time()
        forecasts.forecast_all(only=waits.keys())
        self._stored_waits.update(waits.items())
        self.rounds += 1
        self.rounds_s += time.process_time() - started

    def _score(self) -> None:
        """Score the forecasts of jobs that have started, which the platform does every 5 s."""
        from compute.workers import forecasts

        forecasts.score_started()


def _gpus_each(arrival: Arrival) -> int:
    return arrival.gpus // -(-arrival.gpus // NODE_GPUS)


def _moment(at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)


# --- what came of it


@dataclass(frozen=True)
class Told:
    """A forecast that was scored, in seconds from when it was made.

    `raw_` is what the engine said before correction, `peer_` what the peer would have told.
    """

    likely_s: float
    late_s: float
    raw_likely_s: float
    raw_late_s: float
    peer_likely_s: float
    peer_late_s: float
    waited_s: float
    wait_class: str
    is_again: bool


def report(jobs: int, wall_s: float, replay: Replay) -> None:
    """Print how forecasts held, in all and for each half of the trace."""
    from scheduler.models import Forecast

    rows = list(Forecast.objects.filter(started_at__isnull=False).order_by("made_at"))
    print(
        f"{jobs} jobs, {wall_s:.0f} s of CPU; {replay.rounds} rounds of forecasts,"
        f" {1000 * replay.rounds_s / max(1, replay.rounds):.0f} ms each; {replay.evictions} evictions"
    )
    forecasts = _with_peer([row for row in rows if row.made_at and row.likely_at and row.late_at])
    print(f"{len(rows)} waits were scored, {len(forecasts)} of them with P50 and P90")
    print(f"  {'':12} {'waits':>6}   " + "   ".join(f"{name:42}" for name in ("as told", "uncorrected", "peer")))
    figures = f"{'P50 held':>10} {'P90 held':>9} {'loss P50':>10} {'loss P90':>10}"
    print(f"  {'':19} {figures} {figures} {figures}")
    quarters = [forecasts[len(forecasts) * part // 4 : len(forecasts) * (part + 1) // 4] for part in range(4)]
    parts = [("all", forecasts), ("2nd half", quarters[2] + quarters[3])]
    parts += [(f"quarter {number}", quarter) for number, quarter in enumerate(quarters, 1)]
    parts += [
        ("first wait", [one for one in forecasts if not one.is_again]),
        ("again", [one for one in forecasts if one.is_again]),
    ]
    parts += [
        (name, [one for one in forecasts if one.wait_class == name])
        for name in sorted({one.wait_class for one in forecasts})
    ]
    for label, part in parts:
        _print_row(label, part)


def _with_peer(rows: Sequence[Any]) -> list[Told]:
    """Return forecasts with what the last waits that had ended by then would have told."""
    ended = sorted((row.started_at, (row.started_at - row.made_at).total_seconds()) for row in rows)
    forecasts, at = list[Told](), 0
    for row in rows:
        while at < len(ended) and ended[at][0] <= row.made_at:
            at += 1
        last = sorted(wait_s for _, wait_s in ended[max(0, at - LAST_WAITS) : at]) or [0.0]
        forecasts.append(
            Told(
                likely_s=(row.likely_at - row.made_at).total_seconds(),
                late_s=(row.late_at - row.made_at).total_seconds(),
                raw_likely_s=row.raw_likely_s,
                raw_late_s=row.raw_late_s,
                peer_likely_s=last[math.ceil(0.5 * len(last)) - 1],
                peer_late_s=last[math.ceil(0.9 * len(last)) - 1],
                waited_s=(row.started_at - row.made_at).total_seconds(),
                wait_class=row.wait_class,
                is_again=row.wait > 0,
            )
        )
    return forecasts


def _print_row(label: str, forecasts: Sequence[Told]) -> None:
    if not forecasts:
        return
    ours = _figures([(one.waited_s, one.likely_s, one.late_s) for one in forecasts])
    raw = _figures([(one.waited_s, one.raw_likely_s, one.raw_late_s) for one in forecasts])
    peer = _figures([(one.waited_s, one.peer_likely_s, one.peer_late_s) for one in forecasts])
    print(f"  {label:12} {len(forecasts):6} {ours} {raw} {peer}")


def _figures(triples: Sequence[tuple[float, float, float]]) -> str:
    likely = 100 * sum(waited_s <= likely_s for waited_s, likely_s, _ in triples) / len(triples)
    late = 100 * sum(waited_s <= late_s for waited_s, _, late_s in triples) / len(triples)
    losses = [
        statistics.mean(_pinball(waited_s, forecast_s, part) for waited_s, forecast_s in pairs)
        for part, pairs in (
            (0.5, [(waited_s, likely_s) for waited_s, likely_s, _ in triples]),
            (0.9, [(waited_s, late_s) for waited_s, _, late_s in triples]),
        )
    ]
    return f"{likely:8.1f} % {late:7.1f} % {losses[0]:8.0f} s {losses[1]:8.0f} s"


def _pinball(waited_s: float, forecast_s: float, part: float) -> float:
    return max(part * (waited_s - forecast_s), (part - 1) * (waited_s - forecast_s))


if __name__ == "__main__":
    main()
