"""What compute does when the scheduler has news."""

from django.dispatch import receiver

from core import doorbell
from scheduler.signals import workload_evicted, workload_placed


@receiver(workload_placed, dispatch_uid="compute.launch")
def launch_placed_workloads(**_news: object) -> None:
    """Ring for the launch: it finds the placed jobs by itself."""
    doorbell.ring("compute.launch")


@receiver(workload_evicted, dispatch_uid="compute.evict")
def stop_evicted_workloads(**_news: object) -> None:
    """Ring for the stop: it finds the evicted jobs by itself."""
    doorbell.ring("compute.evict")
