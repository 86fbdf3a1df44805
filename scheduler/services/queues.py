"""Queues: one for each project in each pool, and what is guaranteed to it."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import TypedDict, Unpack

from django.db import IntegrityError, transaction

from accounts import audit
from accounts.permissions import Actor, require_site_admin
from accounts.services.projects import check_name
from core import bounds, tasks
from scheduler.engine.sharing import COUNTS, MOST_STOPS, is_count
from scheduler.errors import DepartmentExists, InvalidQuota, QueueNotFound
from scheduler.models import Pool, Queue

_LARGEST = 2**62
MOST_RANK = 100
"""The last place that a pool can have in the order of a project."""


class QueueSettings(TypedDict, total=False):
    """What a queue is guaranteed, its limits, and its rules for the work in it.

    None means: CPU and memory without bound; a weight in proportion to the GPU quota; no limit; as the department
    rules, or the pool. `department` names the one above it in its pool. `pool_rank` is when jobs of the project that
    name no pool take this one, from 1; None: never.
    """

    gpu_quota_milli: int
    cpu_quota_millicores: int | None
    memory_quota_bytes: int | None
    over_quota_weight: float | None
    gpu_limit_milli: int | None
    cpu_limit_millicores: int | None
    memory_limit_bytes: int | None
    department: str | None
    training_node_labels: Sequence[str]
    interactive_node_labels: Sequence[str]
    training_run_at_most_s: float | None
    interactive_run_at_most_s: float | None
    training_idle_at_most_s: float | None
    interactive_idle_at_most_s: float | None
    claim_delay_s: float | None
    reclaim_min_runtime_s: float | None
    surplus_min_runtime_s: float | None
    evictions_at_most: int | None
    surplus_evictions_at_most: int | None
    preempt_min_runtime_s: float | None
    pool_rank: int | None


def require_set_quota(*, actor: Actor) -> None:
    """Raise PermissionDenied unless the actor may change quotas."""
    require_site_admin(actor, "set quotas")


@transaction.atomic
def set_quota(*, actor: Actor, queue: Queue, **changes: Unpack[QueueSettings]) -> Queue:
    """Change what a queue is guaranteed; what is not named stays. The next cycle works with it.

    Raises InvalidQuota, and QueueNotFound for a department.
    """
    (changed,) = set_quotas(actor=actor, changes=[(queue, changes)])
    return changed


@transaction.atomic
def set_quotas(*, actor: Actor, changes: Sequence[tuple[Queue, QueueSettings]]) -> list[Queue]:
    """Change several queues of a pool, all of them or none. Raises InvalidQuota and QueueNotFound."""
    changed = with_changes(actor=actor, changes=changes)
    for queue, (_, settings) in zip(changed, changes, strict=True):
        queue.save(update_fields=[_COLUMNS.get(name, name) for name in settings])
        audit.record(actor, "scheduler.set_quota", queue, **settings)
    tasks.enqueue_on_commit("scheduler.cycle")
    return changed


def with_changes(*, actor: Actor, changes: Sequence[tuple[Queue, QueueSettings]]) -> list[Queue]:
    """Return queues as they would be after changes, none of which is stored. Raises InvalidQuota and QueueNotFound."""
    require_set_quota(actor=actor)
    changed = [_changed(queue, settings) for queue, settings in changes]
    parent_ids: dict[str, str | None] = dict(Queue.objects.filter(project=None).values_list("pk", "parent_id"))
    parent_ids |= {queue.pk: queue.parent_id for queue in changed}
    for queue in changed:
        _check_ancestors(queue, parent_ids)
    return changed


@transaction.atomic
def create_department(*, actor: Actor, pool: Pool, name: str, **settings: Unpack[QueueSettings]) -> Queue:
    """Create a department in a pool. Raises InvalidQuota, QueueNotFound and DepartmentExists."""
    require_set_quota(actor=actor)
    check_name(name)
    queue = _changed(Queue(pool=pool, name=name), settings)
    try:
        with transaction.atomic():
            queue.save()
    except IntegrityError as error:
        message = f"The pool '{pool.name}' has a department called '{name}' already."
        raise DepartmentExists(message) from error
    audit.record(actor, "scheduler.create_department", queue, **settings)
    return queue


@transaction.atomic
def delete_department(*, actor: Actor, department: Queue) -> None:
    """Delete a department; what was below it is then below the one above."""
    require_set_quota(actor=actor)
    Queue.objects.filter(parent=department).update(parent=department.parent_id)
    audit.record(actor, "scheduler.delete_department", department)
    department.delete()
    tasks.enqueue_on_commit("scheduler.cycle")


_COLUMNS = {"department": "parent"}
_LABELS = {"training_node_labels", "interactive_node_labels"}
_MOST_LABELS = 50
_IDLE_LIMITS = {"training_idle_at_most_s", "interactive_idle_at_most_s"}


def _changed(queue: Queue, settings: QueueSettings) -> Queue:
    changed = copy(queue)
    for name, value in settings.items():
        if name == "department":
            changed.parent = _find_department(queue, value)
        elif name in _LABELS:
            setattr(changed, name, _read_labels(name, value))
        elif name == "pool_rank":
            changed.pool_rank = _read_rank(queue, value)
        elif name in _IDLE_LIMITS and isinstance(value, int | float) and (fault := bounds.idle_limit_fault(value)):
            raise InvalidQuota(fault, field=name)
        elif name in COUNTS and not (value is None or is_count(value)):
            message = f"How often a job may be stopped is a whole number from 0 to {MOST_STOPS}."
            raise InvalidQuota(message, field=name)
        elif _is_sound(name, value):
            setattr(changed, name, value)
        else:
            raise InvalidQuota(
                "A quota, a limit, a weight or a time is below zero, too large or not a number. "
                "Leave CPU and memory empty for no bound.",
                field=name,
            )
    return changed


def _find_department(queue: Queue, name: object) -> Queue | None:
    if name is None:
        return None
    department = Queue.objects.filter(pool=queue.pool_id, project=None, name=name).first()
    if department is None:
        raise QueueNotFound(f"There is no department called '{name}' in this pool.", field="department")
    return department


def _check_ancestors(queue: Queue, parent_ids: Mapping[str, str | None]) -> None:
    """Raise InvalidQuota for a department that would be above itself."""
    above = queue.parent_id
    while above is not None:
        if above == queue.pk:
            raise InvalidQuota(f"The department '{queue.name}' would be above itself.", field="department")
        above = parent_ids.get(above)


def _read_labels(name: str, labels: object) -> list[str]:
    texts = [str(label) for label in labels] if isinstance(labels, list | tuple) else []
    if len(texts) > _MOST_LABELS or any(not all(label.partition("=")[::2]) for label in texts):
        raise InvalidQuota("A label of nodes is written key=value.", field=name)
    return texts


def _read_rank(queue: Queue, rank: object) -> int | None:
    if rank is None:
        return None
    if queue.project_id is None:
        raise InvalidQuota("A department takes no jobs, so it has no order of pools: set it for its projects.")
    if not isinstance(rank, int) or not 1 <= rank <= MOST_RANK:
        raise InvalidQuota(f"The place of a pool in an order is a whole number from 1 to {MOST_RANK}.")
    return rank


def _is_sound(name: str, amount: object) -> bool:
    if amount is None:
        return name != "gpu_quota_milli"
    return isinstance(amount, int | float) and 0 <= amount <= _LARGEST
