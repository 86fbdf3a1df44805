"""The platform is killed at random moments. After each kill, what the scheduler has placed is compared with what runs.

    python -m tests.drills.ledger [--kills 100] [--seed 1]

A platform without pages works on a machine with real processes and on a simulated cluster, while jobs are submitted,
cancelled, suspended and resumed, and projects reclaim their quotas. It is killed by SIGKILL and started again. Within
the settling time each placement must have what runs for it, on its node and with its GPUs, and each thing that runs must
have its placement. At no moment may a GPU be held twice, in the ledger or by what runs, and no run may start twice. It
prints the counts as JSON, and ends with 1 where there is a fault.
"""

# ruff: noqa: E402 (Django wants to be set up first)

import argparse
import json
import os
import random
import re
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    os.environ.pop("DATABASE_URL", None)
    os.environ.pop("BROKER_URL", None)
    _OWN_HOME = tempfile.TemporaryDirectory(prefix="nearline-ledger-")
    os.environ.setdefault("NEARLINE_HOME", _OWN_HOME.name)
    os.environ["NEARLINE_JOB_WRITABLE_PATHS"] = os.environ["NEARLINE_HOME"]
    os.environ.setdefault("NEARLINE_LOG_LEVEL", "ERROR")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

import django

django.setup()

from django.conf import settings
from django.core.management import call_command
from django.db import transaction
from django.db.models import Sum

from accounts.models import Project
from accounts.permissions import Actor
from accounts.services import projects
from compute.adapters import drivers
from compute.engine.placing import Placing
from compute.engine.ports import ReportState
from compute.engine.states import JobState
from compute.models import Job, Resource, SimulatedJob, Template
from compute.services import jobs, resources, submissions, suspensions
from compute.services.submissions import Submission
from compute.workers import probes
from core.errors import PlatformError
from scheduler.models import Placement, Queue, Workload
from tests.drills.serving import serve
from tests.factories.datasets import make_store

SYSTEM = Actor.system("drill")
SETTLING_S, SETTLING_CPU_S = 60, 5
"""So long after a restart a placement may be without its process, or a process without its placement: until the platform
has had both, so that a busy machine makes no faults."""

_MOST_SETTLING_S = 600

_MOST_EVENTS = 10
"""At most so many jobs start, begin to run or end between two kills."""

_LOOK_EVERY_S = 0.1
_UP = {ReportState.STARTING, ReportState.RUNNING}
_COMMAND = 'echo "$NEARLINE_OUTPUT" >> "{counter}"; exec sleep {seconds}'
_DEVICE = re.compile(r"(\d+) \(([\d.]+)\)")

Places = list[tuple[str, tuple[tuple[int, int], ...]]]
"""The nodes of a run's pods, each with its GPUs: index and thousandths."""


def main() -> int:
    """Run the drill and return its exit code."""
    parser = argparse.ArgumentParser(prog="tests.drills.ledger", description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    dice = random.Random(options.seed)
    _ask(_prepare)
    platform = _fork(partial(serve, _has_parent()))
    looks = []
    for number in range(options.kills):
        churn = _fork(partial(_come_and_go, random.Random(f"{options.seed} {number}"), _has_parent()))
        _wait_for_events(dice.randint(1, _MOST_EVENTS))
        time.sleep(dice.uniform(0, 0.05))
        _kill(platform)
        _kill(churn)
        platform = _fork(partial(serve, _has_parent()))
        looks.append(_ask(partial(_compare, platform)))
        sys.stderr.write(f"{number + 1}: {json.dumps(looks[-1])}\n")
    _ask(_end_all)
    _kill(platform)
    sums = _ask(_sum_up)
    after_s = sorted(look["settled_after_s"] for look in looks)
    told = sums | {
        "kills": options.kills,
        "placed": {"in all": sum(look["placed"] for look in looks), "at most": max(look["placed"] for look in looks)},
        "settled_after_s": {"half": after_s[len(after_s) // 2], "all": after_s[-1]},
        "faults": sums["faults"] + [fault for look in looks for fault in look["faults"]],
    }
    sys.stdout.write(json.dumps(told) + "\n")
    return 1 if told["faults"] else 0


# --- processes


def _fork(work: Callable[[], object]) -> int:
    """Run something in a process of its own. This process itself never works: what it forks knows of nothing."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 (told, whatever it is)
            sys.stderr.write(f"{error!r}\n")
            os._exit(1)
    return child


def _has_parent() -> Callable[[], bool]:
    """Return what says, in a process that is forked next, whether this one still lives."""
    pid = os.getpid()
    return lambda: os.getppid() == pid


def _ask(work: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """Return what something says that runs in a process of its own."""
    out, into = os.pipe()
    child = _fork(lambda: os.write(into, json.dumps(work() or {}).encode()))
    os.close(into)
    with os.fdopen(out) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    answers: dict[str, Any] = json.loads(answer)
    return answers


def _wait_for_events(count: int) -> None:
    """Wait until jobs were started or ended so often, or for some time: however busy the machine is, enough happens."""
    deadline, first = time.monotonic() + SETTLING_S, _count_events()
    while _count_events() < first + count and time.monotonic() < deadline:
        time.sleep(0.02)


def _count_events() -> int:
    # By hand: this process has no connection of Django's that what it forks could inherit.
    with closing(sqlite3.connect(Path(os.environ["NEARLINE_HOME"]) / "nearline.sqlite3", timeout=120)) as database:
        (count,) = database.execute("SELECT count(*) FROM compute_jobevent WHERE state != 'pending'").fetchone()
        return count


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


# --- what comes and goes


def _counter() -> Path:
    return Path(settings.NEARLINE.home) / "started"


def _prepare() -> Mapping[str, Any]:
    call_command("migrate", run_syncdb=True, verbosity=0)
    make_store(settings.NEARLINE.home / "store")
    machine = Resource.objects.create(name="this-machine", kind="local")
    Template.objects.create(resource=machine, name="tiny", cpu_millicores=100, memory_bytes=2**26)
    probes.probe_resource(resource=machine)
    nodes = [
        {"name": f"lab-{number}", "gpus": 4, "cpu_millicores": 64_000, "memory_bytes": 2**38, "gpu_model": "V100"}
        | {"gpu_memory_bytes": 2**35}
        for number in range(2)
    ]
    resources.attach_resource(actor=SYSTEM, name="lab", kind="simulated", config={"nodes": nodes})
    for name, quota in (("owner", 6000), ("guest", 0), ("other", 2000)):
        project = projects.create_project(actor=SYSTEM, name=name)
        Queue.objects.filter(project=project).update(gpu_quota_milli=quota)
    return {}


def _come_and_go(dice: random.Random, goes_on: Callable[[], bool]) -> None:
    """Submit, cancel, suspend and resume jobs until killed."""
    teams = list(Project.objects.order_by("name"))
    while goes_on():
        seconds = dice.uniform(0.2, 12)
        command = _COMMAND.format(counter=_counter(), seconds=seconds)
        wanted = dice.choice(
            (
                Submission("this-machine.tiny", command),
                Submission("", command, resource="lab", gpu_milli=1000 * dice.choice((1, 1, 2, 4))),
                Submission("", command, resource="lab", gpu_milli=dice.choice((250, 500))),
                Submission("", command, resource="lab", gpu_milli=1000, replicas=2),
                Submission("", command, resource="lab", gpu_milli=1000, replicas=4, placing=Placing(min_replicas=1)),
            )
        )
        wanted = replace(wanted, simulated_duration_s=seconds, grace_period_s=1.0)
        live = list(Job.objects.filter(is_live=True).order_by("pk"))
        suspended = [job for job in live if job.state == JobState.SUSPENDED]
        with suppress(PlatformError):  # what a job cannot do any more
            if live and dice.random() < 0.15:
                jobs.cancel_job(actor=SYSTEM, job=dice.choice(live))
            if live and dice.random() < 0.15:
                suspensions.suspend_job(actor=SYSTEM, job=dice.choice(live))
            if suspended and dice.random() < 0.5:
                suspensions.resume_job(actor=SYSTEM, job=dice.choice(suspended))
        if sum(job.state == JobState.PENDING for job in live) < 20:
            submissions.submit_job(actor=SYSTEM, project=dice.choice(teams), submission=wanted)
        time.sleep(dice.uniform(0, 0.1))


def _end_all() -> Mapping[str, Any]:
    """Cancel all jobs, and wait until nothing is left of them."""
    live = Job.objects.filter(is_live=True)
    jobs.cancel_many(actor=SYSTEM, job_ids=list(live.values_list("pk", flat=True)), reason="The drill is over.")
    deadline = time.monotonic() + _MOST_SETTLING_S
    while (live.exists() or Placement.objects.exists()) and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)
    return {}


# --- the ledger, and what runs


def _compare(platform: int) -> Mapping[str, Any]:
    """Look until each difference has been away once, at most for the settling time of a platform."""
    since_s = time.monotonic()
    faults: set[str] = set()
    lasting: set[str] | None = None
    while True:
        ledger, differences, doubled = _look()
        faults |= doubled
        lasting = differences if lasting is None else lasting & differences
        after_s = time.monotonic() - since_s
        has_had_time = after_s > SETTLING_S and _cpu_s(platform) > SETTLING_CPU_S
        if not lasting or has_had_time or after_s > _MOST_SETTLING_S:
            faults |= {f"{difference}, {after_s:.0f} s after a restart" for difference in lasting}
            return {"faults": sorted(faults), "settled_after_s": round(after_s, 1), "placed": len(ledger)}
        time.sleep(_LOOK_EVERY_S)


def _cpu_s(pid: int) -> float:
    """Return how long a process has run on a CPU."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _look() -> tuple[Mapping[str, Places], set[str], set[str]]:
    """Return the ledger at this moment, where it differs from what runs, and what is held twice."""
    machine = drivers.driver_of(Resource.objects.get(name="this-machine"))
    with transaction.atomic():
        rows = list(Placement.objects.select_related("workload__job", "node"))
        simulated = _simulated()
    reported = {report.name for report in machine.list_jobs() if report.state in _UP}
    processes = _runs_with_processes()
    ledger: dict[str, Places] = {}
    for row in rows:
        ledger.setdefault(row.workload.job.run_name, []).append((row.node.name, tuple(map(tuple, row.gpus))))
    here = {row.workload.job.run_name for row in rows if row.node.resource_name == "this-machine"}
    differences = {
        f"{run} is placed on {sorted(ledger.get(run, []))} and runs on {sorted(simulated.get(run, []))}"
        for run in (ledger.keys() - here) | simulated.keys()
        if sorted(ledger.get(run, [])) != sorted(simulated.get(run, []))
    }
    differences |= {f"{run} is placed, and its driver does not report it" for run in here - reported}
    differences |= {f"{run} is reported by its driver, and not placed" for run in reported - here}
    differences |= {f"{run} is placed, and has no process" for run in here - processes}
    differences |= {f"{run} has a process, and is not placed" for run in processes - here}
    doubled = _held_twice("given out", ledger.values()) | _held_twice("in use", simulated.values())
    return ledger, differences, doubled


def _simulated() -> dict[str, Places]:
    """Return where simulated jobs run now, as their driver knows it."""
    driver = drivers.driver_of(Resource.objects.get(name="lab"))
    up = {report.name for report in driver.list_jobs() if report.state in _UP}
    return {row.name: list(_places_of(row)) for row in SimulatedJob.objects.filter(name__in=up)}


def _places_of(row: SimulatedJob) -> Iterable[tuple[str, tuple[tuple[int, int], ...]]]:
    for node, gpus in zip(row.node.split(", "), row.gpus.split("; "), strict=True):
        yield node, tuple((int(index), round(1000 * float(part))) for index, part in _DEVICE.findall(gpus))


def _runs_with_processes() -> set[str]:
    """Return the runs of which a process of this machine says in its environment that it belongs to them."""
    mark = f"NEARLINE_OUTPUT={settings.NEARLINE.home}/jobs/".encode()
    found = set()
    for folder in Path("/proc").iterdir():
        with suppress(OSError):  # it is no process, or has ended meanwhile
            found |= {
                each.removeprefix(mark).partition(b"/")[0].decode()
                for each in (folder / "environ").read_bytes().split(b"\0")
                if each.startswith(mark)
            }
    return found


def _held_twice(verb: str, runs: Iterable[Places]) -> set[str]:
    held: Counter[tuple[str, int]] = Counter()
    for node, gpus in (place for places in runs for place in places):
        for index, milli in gpus:
            held[node, index] += milli
    return {
        f"GPU {index} of {node} is {verb} {milli / 1000} times" for (node, index), milli in held.items() if milli > 1000
    }


def _sum_up() -> Mapping[str, Any]:
    """Return what there was in all, and what started twice or is left."""
    runs = Counter(_counter().read_text().split() if _counter().exists() else ())
    left = Job.objects.filter(is_live=True).count(), Placement.objects.count(), len(_runs_with_processes())
    return {
        "faults": [f"{run} started {count} times" for run, count in runs.items() if count > 1]
        + ([f"{left} jobs, placements and processes are left"] if any(left) else []),
        "submitted": Job.objects.count(),
        "processes": len(runs),
        "simulated": SimulatedJob.objects.count(),
        "evictions": Workload.objects.aggregate(sum=Sum("evictions"))["sum"],
    }


if __name__ == "__main__":
    sys.exit(main())
