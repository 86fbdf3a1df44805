"""Background work of the scheduler."""

from core import doorbell
from core.doorbell import Lane
from scheduler.workers import cycle, packing


@doorbell.task("scheduler.cycle", lane=Lane.WATCH, every_s=1.0)
def run_cycle() -> None:
    """Give waiting workloads the room that is free."""
    cycle.run_once()


@doorbell.task("scheduler.learn_packing", lane=Lane.TIDY, every_s=60.0)
def learn_packing() -> None:
    """Learn from what was asked for lately how to pack what comes. In a lane that no cycle waits for."""
    packing.learn()
