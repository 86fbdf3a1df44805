"""Pools: nodes over which quotas and fair shares are worked out. Who makes them, and which resources are in them."""

from collections.abc import Collection
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Count, Q, Sum

from accounts import audit
from accounts.actor import Actor
from accounts.permissions import require_site_admin
from accounts.services.projects import check_name
from core import tasks
from scheduler.engine.proof import Resource
from scheduler.engine.states import HOLDING, LIVE, WorkloadState
from scheduler.engine.wording import write
from scheduler.errors import InvalidPool, PoolHasWork
from scheduler.models import DEFAULT_POOL_ID, Node, Pool, PoolResource, Workload
from scheduler.services import pool_members


@dataclass(frozen=True)
class WorkOnMove:
    """The work on resources that another pool is to get. GPUs in thousandths.

    `held_back` counts the pending jobs that are not preemptible: they start only within a quota of the new pool.
    """

    running: int = 0
    gpu_held_milli: int = 0
    pending: int = 0
    held_back: int = 0

    @property
    def text(self) -> str:
        """What happens to the work, for people; empty where there is none."""
        sentences = []
        if self.running:
            sentences.append(
                f"{_jobs(self.running, 'runs', 'run')} on, with {write(Resource.GPU, self.gpu_held_milli)}. "
                "Beyond the quotas of the new pool, preemptible work can be evicted."
            )
        if self.pending:
            sentences.append(f"{_jobs(self.pending, 'waits', 'wait')} in the new pool, no later in line.")
        if self.held_back:
            sentences.append(
                f"{self.held_back} of them must not be preempted: they start once their project has a quota there."
            )
        return " ".join(sentences)


def require_manage_pools(*, actor: Actor) -> None:
    """Raise PermissionDenied unless the actor may change pools."""
    require_site_admin(actor, "change pools")


def work_on_move(*, actor: Actor, resource_ids: Collection[str]) -> WorkOnMove:
    """Return the work that resources would take along into another pool. Nothing changes."""
    require_manage_pools(actor=actor)
    live = Workload.objects.filter(resource_id__in=resource_ids)
    is_pending = Q(state=WorkloadState.PENDING)
    sums = live.aggregate(
        running=Count("pk", filter=Q(state__in=sorted(HOLDING))),
        gpu_held_milli=Sum("gpu_milli", filter=Q(state__in=sorted(HOLDING)), default=0),
        pending=Count("pk", filter=is_pending),
        held_back=Count("pk", filter=is_pending & Q(is_preemptible=False)),
    )
    return WorkOnMove(**sums)


@transaction.atomic
def create_pool(*, actor: Actor, name: str, resource_ids: Collection[str] = (), moves_work: bool = False) -> Pool:
    """Create a pool and move resources into it. Its queues have no quota at first.

    Raises InvalidPool where the name is taken, and PoolHasWork where work is queued or runs on one of the resources
    and `moves_work` does not say that it may be taken along.
    """
    require_manage_pools(actor=actor)
    if not name:
        raise InvalidPool("A pool needs a name.")
    check_name(name)
    if Pool.objects.filter(name=name).exists():
        raise InvalidPool(f"There is a pool called '{name}' already.")
    _check_work(actor, resource_ids, moves_work=moves_work)
    pool = pool_members.create(name)
    pool_members.move(pool, resource_ids)
    audit.record(actor, "scheduler.create_pool", pool, resource_ids=sorted(resource_ids))
    return pool


@transaction.atomic
def move_resources(*, actor: Actor, pool: Pool, resource_ids: Collection[str], moves_work: bool = False) -> None:
    """Move resources into a pool, with their work. Raises PoolHasWork as `create_pool` does."""
    require_manage_pools(actor=actor)
    inside = PoolResource.objects.filter(pool=pool, resource_id__in=resource_ids).values_list("resource_id", flat=True)
    moved = sorted(set(resource_ids) - set(inside))
    _check_work(actor, moved, moves_work=moves_work)
    pool_members.move(pool, moved)
    audit.record(actor, "scheduler.move_resources", pool, resource_ids=moved)


@transaction.atomic
def delete_pool(*, actor: Actor, pool: Pool) -> None:
    """Delete an empty pool with the quotas in it. Raises InvalidPool for the default pool, and where it has nodes."""
    require_manage_pools(actor=actor)
    if pool.pk == DEFAULT_POOL_ID:
        raise InvalidPool("The default pool stays: resources that nobody moved are in it.")
    nodes = Node.objects.filter(pool=pool).count()
    live = Workload.objects.filter(queue__pool=pool).filter(state__in=sorted(LIVE)).count()
    if nodes or live:
        raise InvalidPool(f"The pool '{pool.name}' has {nodes} nodes and {live} jobs that have not ended.")
    # The history of what ran here names a queue, and history stays.
    default_ids = pool_members.ensure_queues(
        sorted(set(Workload.objects.filter(queue__pool=pool).values_list("project_id", flat=True)))
    )
    for project_id, queue_id in default_ids.items():
        Workload.objects.filter(queue__pool=pool, project_id=project_id).update(queue_id=queue_id)
    audit.record(actor, "scheduler.delete_pool", pool)
    pool.delete()
    tasks.enqueue_on_commit("scheduler.cycle")


def _check_work(actor: Actor, resource_ids: Collection[str], *, moves_work: bool) -> None:
    work = work_on_move(actor=actor, resource_ids=resource_ids)
    if work.text and not moves_work:
        raise PoolHasWork(f"There is work on these resources. {work.text}", running=work.running, pending=work.pending)


def _jobs(count: int, one: str, many: str) -> str:
    return f"1 job {one}" if count == 1 else f"{count} jobs {many}"
