"""A cycle of the product's controller over its database, with a backlog: what it costs when little or nothing changed.

The peer is the same cycle by a process that remembers nothing, over the same rows in the same run. CPU time, on SQLite.
"""

import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence

NODES = int(os.environ.get("BENCH_NODES", "4000"))
WAITING = int(os.environ.get("BENCH_WAITING", "10000"))
ROUNDS = 9
PROJECTS = 10
SIZES_MILLI = (500, 1000, 1000, 2000, 4000, 8000)
GIB = 2**30


def main() -> None:
    """Set Django up on a database of its own, fill it, and measure."""
    with tempfile.TemporaryDirectory(prefix="nearline-bench-") as home:
        os.environ["NEARLINE_HOME"] = home
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        _measure()


def _measure() -> None:
    from accounts.models import Project
    from scheduler.models import Queue, Workload
    from scheduler.selectors.workloads import list_terminating
    from scheduler.services import pool_members, resource_nodes, workloads
    from scheduler.workers import cycle
    from scheduler.workers.cycle import SessionCache

    dice = random.Random(1)
    gpus = [resource_nodes.GpuReport(index, f"GPU-{index}", "V100", 32 * GIB) for index in range(8)]
    reports = [resource_nodes.NodeReport(f"n{index:05}", 64_000, 512 * GIB, gpus) for index in range(NODES)]
    resource_nodes.report_nodes(resource_id="res_lab", resource_name="lab", is_simulated=True, nodes=reports)
    projects = [Project.objects.create(name=f"team-{index}") for index in range(PROJECTS)]
    pool_members.ensure_queues({project.pk for project in projects})
    Queue.objects.update(gpu_quota_milli=8000 * NODES // PROJECTS)

    def enqueue(count: int, cpu_millicores: int = 1000, sizes: Sequence[int] = SIZES_MILLI) -> None:
        workloads.enqueue_many(
            [
                workloads.WorkloadRequest(
                    project_id=dice.choice(projects).pk,
                    name=f"job-{dice.getrandbits(64)}",
                    resource_id="res_lab",
                    pod_sets=[
                        workloads.PodSet(cpu_millicores=cpu_millicores, memory_bytes=GIB, gpu_milli=dice.choice(sizes))
                    ],
                )
                for _ in range(count)
            ]
        )

    def end_one() -> None:
        workloads.release_many(Workload.objects.filter(state="placed").order_by("pk").values_list("pk", flat=True)[:1])

    def forget() -> None:
        cycle._sessions = SessionCache()  # noqa: SLF001 (a process that has just started)

    enqueue(8 * NODES, sizes=[1000])
    cycle.run_once()
    enqueue(WAITING - 1)
    enqueue(1, cpu_millicores=128_000)  # more than any node has
    while (report := cycle.run_once()) != cycle.CycleReport(waiting=report.waiting):
        workloads.requeue_many(list_terminating())
    running = Workload.objects.filter(state="placed").count()
    print(f"{NODES:,} nodes of 8 GPUs, {running:,} running and {report.waiting:,} waiting, one of them for ever")
    print(f"CPU of one cycle, median of {ROUNDS}")
    anew = _time(cycle.run_once, forget)
    for label, before in (
        ("nothing has changed", lambda: None),
        ("one more waits", lambda: enqueue(1)),
        ("one has ended", end_one),
    ):
        idle_s = _time(cycle.run_once, before)
        print(f"  {label:22} {1000 * idle_s:8.1f} ms  {anew / idle_s:6.1f} x quicker")
    print(f"  {'all is read anew':22} {1000 * anew:8.1f} ms")


def _time(run: Callable[[], object], before: Callable[[], None]) -> float:
    taken = []
    for _ in range(ROUNDS):
        before()
        started = time.process_time()
        run()
        taken.append(time.process_time() - started)
    return statistics.median(taken)


if __name__ == "__main__":
    main()
