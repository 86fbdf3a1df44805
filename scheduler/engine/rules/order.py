"""The order in which queues, and workloads in a queue, are served."""

from datetime import datetime

from scheduler.engine.resources import Amount
from scheduler.engine.rules.quota import Share, Usage
from scheduler.engine.snapshot import QueueView, Waiting

QueueKey = tuple[bool, bool, bool, float, float, int, datetime, str]


def queue_key(queue: QueueView, usage: Usage, share: Share, following: Waiting, total: Amount) -> QueueKey:
    """Return the place of a queue, which its next workload stands for. Smaller keys are served first.

    First who is not over its fair share; then who stays within its quota; then who asks for something it has a share
    of; then whose largest use, measured by its share, stays smallest. The weaker and then the older queue breaks ties.
    """
    needs = following.shape.needs
    held, after = usage.held, usage.held.plus(needs)
    return (
        all(have > fair for have, fair in zip(held, share.fair, strict=True)),
        not queue.quota.has_room_for(held, needs),
        any(asked > 0 and part == 0 for asked, part in zip(needs, share.allocatable, strict=True)),
        _dominant(after, queue, share, total),
        _dominant(held, queue, share, total),
        share.allocatable.gpu_milli,
        queue.created_at,
        queue.id,
    )


def _dominant(held: Amount, queue: QueueView, share: Share, total: Amount) -> float:
    return max(
        have / whole if quota is None and whole else have / part if part else have * 1000.0
        for have, quota, part, whole in zip(held, queue.quota, share.allocatable, total, strict=True)
    )


def workload_key(workload: Waiting) -> tuple[int, datetime, str]:
    """Return the place of a workload in its queue: higher priority, then older, then its id."""
    return -workload.priority, workload.enqueued_at, workload.id
