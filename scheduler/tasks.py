"""Background tasks of the scheduler."""

from core.tasks import Queue, task
from scheduler.workers import apply, change_log, cycle, node_spans, packing, strays, usage


@task("scheduler.cycle", queue=Queue.WATCH, every_s=1.0, find_work=cycle.find_waiting, handover=2)
def run_cycle() -> None:
    """Place pending workloads on free resources."""
    cycle.run_once()


@task("scheduler.end_overdue", queue=Queue.WATCH, every_s=5.0, find_work=cycle.find_limited)
def end_overdue() -> None:
    """Stop what has run for as long as it may, also while nothing waits."""
    cycle.run_once(only_if_waiting=False)


@task("scheduler.learn_packing", queue=Queue.TIDY, every_s=60.0, find_work=packing.find_due)
def learn_packing() -> None:
    """Learn from recent requests how to pack future ones. In a queue that no cycle waits for."""
    packing.learn()


@task("scheduler.requeue_strays", queue=Queue.TIDY, every_s=60.0, find_work=strays.find_strays)
def requeue_strays() -> None:
    """Put work into the pool of its resource, where it was enqueued while that moved."""
    strays.requeue_strays()


@task("scheduler.collect_receipts", queue=Queue.TIDY, every_s=3600.0)
def collect_receipts() -> None:
    """Delete receipts of evictions, dumps of cycles, and spans of nodes that are older than they are kept."""
    apply.collect_receipts()
    node_spans.collect()


@task("scheduler.collect_changes", queue=Queue.TIDY, every_s=600.0)
def collect_changes() -> None:
    """Delete all but the newest rows of the log of changes."""
    change_log.collect()


@task("scheduler.sample_usage", queue=Queue.TIDY, every_s=60.0)
def sample_usage() -> None:
    """Note what queues hold and wait for, for the charts of analytics and for what projects consumed."""
    usage.sample()


@task("scheduler.sample_nodes", queue=Queue.TIDY, every_s=60.0)
def sample_nodes() -> None:
    """Note what holds the GPUs of each node, for the picture of nodes over time."""
    node_spans.sample()
