"""What becomes of a project's queues when it is deleted."""

from accounts.models import Project
from accounts.permissions import Actor
from accounts.project_contents import Effect, Item
from core.units import count_of, count_of_gpus
from scheduler.models import Queue


def describe(*, actor: Actor, project: Project) -> list[Effect]:  # noqa: ARG001 (they are the project's own)
    """Return what a deletion does to them."""
    queues = list(Queue.objects.filter(project=project).select_related("pool", "parent").order_by("pool__name"))
    quota = sum(queue.gpu_quota_milli for queue in queues)
    return [
        Effect(
            "queues",
            len(queues),
            f"{count_of(len(queues), 'queue')} closed: the quota of {count_of_gpus(quota)} is free for others. What "
            "it consumed stays in the history.",
            items=[Item(queue.pool.name, _describe(queue)) for queue in queues],
        )
    ]


def _describe(queue: Queue) -> str:
    owner = f"the department {queue.parent}" if queue.parent else "the pool"
    return f"back to {owner}: {count_of_gpus(queue.gpu_quota_milli)}"
