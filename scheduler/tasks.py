"""Background work of the scheduler."""

from core import doorbell
from core.doorbell import Lane
from scheduler.services import cycle


@doorbell.task("scheduler.cycle", lane=Lane.WATCH, every_s=1.0)
def run_cycle() -> None:
    """Give waiting workloads the room that is free."""
    cycle.run_once()
