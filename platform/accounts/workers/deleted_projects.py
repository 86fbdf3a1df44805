"""Deleted projects: their work is stopped at once, and what they have is removed once nobody can restore them.

Both go on where they were interrupted: what is stopped or removed is not found again.
"""

from functools import partial

import structlog
from django.db import transaction
from django.db.models import QuerySet

from accounts import audit, project_contents
from accounts.models import Membership, Project, Secret
from accounts.permissions import Actor
from accounts.project_contents import ProjectContents, RemovalWaits
from accounts.services import deletions
from core import clock, isolation, tasks

log = structlog.get_logger(__name__)

STOP = "accounts.stop_project"
END = "accounts.end_project_restore_time"
REMOVE = "accounts.remove_project"
"""The kinds of failures; items are projects, and with the name of an app behind the id, its part of one."""
_BATCHES_AT_ONCE = 200
_SYSTEM = Actor.system("deleted projects")


def find_deleted() -> list[QuerySet[Project]]:
    """Return the deleted projects of which not all is removed."""
    return [Project.objects.filter(deleted_at__isnull=False, removed_at=None)]


def find_ended() -> tuple[QuerySet[Project], QuerySet[Project]]:
    """Return the projects whose time to be restored is over, and those that were deleted for good."""
    ended = Project.objects.filter(deleted_at__isnull=False, restore_ends_at=None, removed_at=None)
    return Project.objects.filter(restore_ends_at__lte=clock.now()), ended


def stop_work() -> None:
    """Stop what runs or waits in deleted projects; also what began while they were being deleted."""
    for project in find_deleted()[0].order_by("pk"):
        isolation.for_each(STOP, project_contents.registered(), partial(_stop, project), key=partial(_key, project))


def remove_contents() -> None:
    """Remove what projects have that cannot be restored any more, some batches of each part of each."""
    over, ended = find_ended()
    isolation.for_each(
        END, over.order_by("pk"), lambda project: deletions.delete_for_good(actor=_SYSTEM, project=project)
    )
    isolation.for_each(REMOVE, ended.order_by("pk"), _remove)


def _stop(project: Project, contents: ProjectContents) -> None:
    contents.stop(project)


def _remove(project: Project) -> None:
    parts = project_contents.registered()
    waits = isolation.for_each(REMOVE, parts, partial(_remove_part, project), key=partial(_key, project))
    if len(waits) == len(parts) and not any(waits):
        _finish(project)
        return
    failures = isolation.find([REMOVE], [_key(project, each) for each in parts])
    reasons = [*filter(None, waits), *(f"{failure.error.rstrip('.')} (log id {failure.pk})." for failure in failures)]
    Project.objects.filter(pk=project.pk).update(waits_for=" ".join(dict.fromkeys(reasons)))


def _remove_part(project: Project, contents: ProjectContents) -> str:
    """Remove some batches; return what the rest waits for, or an empty text where nothing is left."""
    try:
        for _ in range(_BATCHES_AT_ONCE):
            if not contents.remove(project.pk):
                return ""
    except RemovalWaits as wait:
        return str(wait)
    tasks.enqueue("accounts.remove_deleted_projects")
    return "The next rows are being removed."


@transaction.atomic
def _finish(project: Project) -> None:
    """Free the name. The row stays, for the history of departments and the audit log."""
    Membership.objects.filter(project=project).delete()
    Secret.objects.filter(project=project).delete()
    name = f"{project.name} (deleted, {project.pk})"
    if Project.objects.filter(pk=project.pk, removed_at=None).update(
        name=name, description="", waits_for="", removed_at=clock.now()
    ):
        audit.record(_SYSTEM, "accounts.remove_project", project, project_id=project.pk)
    log.info("project.removed", project_id=project.pk)


def _key(project: Project, contents: ProjectContents) -> str:
    return f"{project.pk} {contents.name}"
