"""Background tasks of the scheduler."""

from core.tasks import Queue, task
from scheduler.workers import cycle, packing


@task("scheduler.cycle", queue=Queue.WATCH, every_s=1.0, find_work=cycle.find_waiting, handover=2)
def run_cycle() -> None:
    """Place pending workloads on free resources."""
    cycle.run_once()


@task("scheduler.learn_packing", queue=Queue.TIDY, every_s=60.0)
def learn_packing() -> None:
    """Learn from recent requests how to pack future ones. In a queue that no cycle waits for."""
    packing.learn()
