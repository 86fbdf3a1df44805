"""Signals of other apps: a new project gets its queue, in the same transaction."""

from django.dispatch import receiver

from accounts.signals import project_created
from scheduler.services import queues


@receiver(project_created, dispatch_uid="scheduler.create_queue")
def create_queue(*, project_id: str, **_: object) -> None:
    """Create the queue of a new project."""
    queues.ensure_queue(project_id=project_id)
