"""Signals of other apps: a new project gets its queue, in the same transaction; a migrated database logs changes."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.dispatch import receiver

from accounts.signals import project_created
from scheduler.services import pool_members
from scheduler.workers import change_log


@receiver(project_created, dispatch_uid="scheduler.create_queue")
def create_queue(*, project_id: str, **_: object) -> None:
    """Create the queue of a new project."""
    pool_members.ensure_queue(project_id=project_id)


@receiver(post_migrate, dispatch_uid="scheduler.log_changes")
def log_changes(*, sender: AppConfig, **_: object) -> None:
    """Let the database note changes, once its tables are as they should be."""
    if sender.label == "scheduler":
        change_log.install()
