"""Controllers that schedule side by side while jobs come and go, and are killed in the middle; tells what was left.

Its clock runs 100 times too fast, so leases end while cycles run: what keeps placements right is the check of the
lease when they are applied, and nothing else.
"""

# ruff: noqa: E402, T201 (Django wants to be set up first; chance decides who dies; the answer is on stdout)

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "platform"), str(ROOT / "client" / "src")]
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

import django

django.setup()

from django.core.management import call_command
from django.db import connection, transaction

from accounts.permissions import Actor
from accounts.services import projects
from core import clock
from scheduler.models import Placement, Workload
from scheduler.selectors.workloads import list_terminating
from scheduler.services import workloads
from scheduler.workers import cycle
from tests.factories.scheduler import enqueue, report, report_nodes

CONTROLLERS = 3
KILLS = int(os.environ.get("NEARLINE_TEST_KILLS", "12"))
ENOUGH = 50
SPEED = 100
SHAPES = (0.3, 0.5, 1, 2, 0, 0.25)


def run_fast() -> None:
    """Let the clock of this process run too fast, from the same beginning as that of all others."""
    start = datetime(2026, 11, 21, tzinfo=UTC)
    clock._source = lambda: start + timedelta(seconds=SPEED * time.time() % 10**8)


def fork(work: Callable[[], None]) -> int:
    """Run something in a process of its own."""
    connection.close()
    child = os.fork()
    if child == 0:
        random.seed()
        try:
            while True:
                work()
        finally:
            os._exit(1)
    return child


def control() -> None:
    """Run one cycle."""
    cycle.run_once()
    time.sleep(0.002)


def come_and_go() -> None:
    """Let some jobs end and others come; who was evicted has stopped."""
    project = projects.Project.objects.get()
    name, shape = f"job-{time.monotonic_ns()}", random.choice(SHAPES)
    with transaction.atomic():
        enqueue(project, *[f"{name}-{number}" for number in range(6)], gpus=shape)
    placed = list(Workload.objects.filter(state="placed").values_list("pk", flat=True))
    workloads.release_many(random.sample(placed, min(len(placed), 5)))
    workloads.requeue_many(list_terminating())
    waiting = list(Workload.objects.filter(state="pending").values_list("pk", flat=True))
    workloads.withdraw_many(random.sample(waiting, min(len(waiting), 2)))
    time.sleep(0.01)


@transaction.atomic
def find_faults() -> list[str]:
    """Return everything that must never be, as of one moment."""
    devices: Counter[tuple[str, int]] = Counter()
    cpu: Counter[str] = Counter()
    faults = []
    rows = list(Placement.objects.select_related("workload", "node"))
    for row in rows:
        cpu[row.node.name] += row.workload.cpu_millicores
        for index, milli in row.gpus:
            devices[row.node.name, index] += milli
        if row.workload.state != ("placed" if row.evicting_since is None else "leaving"):
            faults.append(f"{row.workload.name} is {row.workload.state} and holds capacity")
        if sum(milli for _, milli in row.gpus) != row.workload.gpu_milli:
            faults.append(f"{row.workload.name} holds other GPUs than it asked for")
    faults += [f"{device} is given out {milli / 1000} times" for device, milli in devices.items() if milli > 1000]
    faults += [f"{node} gave out {used} millicores" for node, used in cpu.items() if used > 64_000]
    homeless = Workload.objects.filter(state__in=("placed", "leaving"), placements=None).count()
    return [*faults, *([f"{homeless} placed workloads hold no capacity"] if homeless else [])]


def main() -> None:
    """Let it all happen, and print what was found."""
    run_fast()
    call_command("migrate", run_syncdb=True, verbosity=0)
    projects.create_project(actor=Actor.system("drill"), name="demo")
    report_nodes(report("n1", 8, cpu=64, memory_gib=512), report("n2", 8, cpu=64, memory_gib=512))
    children = {fork(control) for _ in range(CONTROLLERS)}
    churn = fork(come_and_go)
    faults: list[str] = []
    kills = 0
    # On a busy machine it takes longer until enough has happened.
    while kills < KILLS or Workload.objects.exclude(placed_at=None).count() <= ENOUGH:
        kills += 1
        time.sleep(random.uniform(0.02, 0.25))
        victim = random.choice(sorted(children))
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
        children = (children - {victim}) | {fork(control)}
        faults += find_faults()
    for child in (churn, *children):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    time.sleep(0.5)  # longer than a lease lasts here
    while (last := cycle.run_once()).evicted or last.placed:
        workloads.requeue_many(list_terminating())
    again = cycle.run_once()
    print(
        json.dumps(
            {
                "faults": faults + find_faults(),
                "started": Workload.objects.exclude(placed_at=None).count(),
                "placed_late": again.placed,
                "unexplained": Workload.objects.filter(state="pending", reason="", answer=None).count(),
            }
        )
    )


if __name__ == "__main__":
    main()
