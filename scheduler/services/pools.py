"""Pools: nodes over which quotas and fair shares are worked out.

Who makes them, which resources are in them, and by which rules their queues share.
"""

from collections.abc import Collection
from dataclasses import asdict, astuple, dataclass
from operator import add
from typing import Unpack

from django.db import IntegrityError, transaction
from django.db.models import Count, Sum

from accounts import audit
from accounts.permissions import Actor, require_site_admin
from accounts.services.projects import check_name
from core import tasks
from core.units import count_of
from scheduler.engine.node_labels import is_label
from scheduler.engine.proof import Resource
from scheduler.engine.sharing import Rules, with_changes
from scheduler.engine.states import LIVE
from scheduler.engine.wording import write
from scheduler.errors import InvalidPool, PoolHasWork
from scheduler.models import DEFAULT_POOL_ID, Node, Placement, Pool, PoolResource, Workload
from scheduler.selectors.snapshots import view_rules
from scheduler.services import pool_members, queues
from scheduler.services.pool_members import Changes, Claims, Members

_NEW = ""
"""Stands for the id of a pool that is to be created."""


@dataclass(frozen=True)
class WorkOnMove:
    """The work on resources that another pool is to get. GPUs in thousandths.

    `held_back` counts the pending jobs that are not preemptible: they start only within a quota of the new pool.
    `left_behind` counts those that wait in a pool which keeps some nodes of their resource.
    """

    running: int = 0
    gpu_held_milli: int = 0
    pending: int = 0
    held_back: int = 0
    left_behind: int = 0

    def __add__(self, other: "WorkOnMove") -> "WorkOnMove":
        return WorkOnMove(*map(add, astuple(self), astuple(other)))

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
        if self.left_behind:
            sentences.append(
                f"{_jobs(self.left_behind, 'waits', 'wait')} on in {'its' if self.left_behind == 1 else 'their'} pool, "
                "for the nodes that stay there."
            )
        return " ".join(sentences)


def require_manage_pools(*, actor: Actor) -> None:
    """Raise PermissionDenied unless the actor may change pools."""
    require_site_admin(actor, "change pools")


def work_on_move(
    *, actor: Actor, resource_ids: Collection[str], label: str = "", pool: Pool | None = None
) -> WorkOnMove:
    """Return the work that resources, or their nodes with a label, would take along into a pool; None: into a new one.

    Nothing changes.
    """
    require_manage_pools(actor=actor)
    pool_id = pool.pk if pool is not None else _NEW
    works = [_work_on(each, {**each.claims, label: pool_id}, label) for each in pool_members.read_members(resource_ids)]
    return sum(works, WorkOnMove())


def work_on_moves(*, actor: Actor, places: Collection[tuple[str, str]]) -> dict[tuple[str, str], WorkOnMove]:
    """Return what `work_on_move` into a new pool does for each of these: ids of resources, and labels of nodes."""
    require_manage_pools(actor=actor)
    members = _members_by_id(places)
    return {
        (resource_id, label): _work_on(members[resource_id], {**members[resource_id].claims, label: _NEW}, label)
        for resource_id, label in places
    }


def work_on_removals(*, actor: Actor, places: Collection[tuple[str, str]]) -> dict[tuple[str, str], WorkOnMove]:
    """Return the work that nodes with a label take along where it is taken out of its pool. Nothing changes.

    It is asked for each of these: ids of resources, and labels of nodes.
    """
    require_manage_pools(actor=actor)
    members = _members_by_id(places)
    return {
        (resource_id, label): _work_on(members[resource_id], _without(members[resource_id].claims, label), label)
        for resource_id, label in places
    }


@transaction.atomic
def create_pool(
    *, actor: Actor, name: str, resource_ids: Collection[str] = (), label: str = "", moves_work: bool = False
) -> Pool:
    """Create a pool and move resources into it, or their nodes with a label. Its queues have no quota at first.

    Raises InvalidPool where the name is taken, and PoolHasWork where work is queued or runs on what moves and
    `moves_work` does not say that it may be taken along.
    """
    require_manage_pools(actor=actor)
    if not name:
        raise InvalidPool("A pool needs a name.")
    check_name(name)
    _check_label(label, resource_ids)
    work = work_on_move(actor=actor, resource_ids=resource_ids, label=label)
    _check_work(work, moves_work=moves_work)
    try:
        with transaction.atomic():
            pool = pool_members.create(name)
    except IntegrityError as error:
        raise InvalidPool(f"There is a pool called '{name}' already.") from error
    pool_members.move(pool, resource_ids, label=label)
    audit.record(actor, "scheduler.create_pool", pool, resource_ids=sorted(resource_ids), label=label)
    return pool


@transaction.atomic
def move_resources(
    *, actor: Actor, pool: Pool, resource_ids: Collection[str], label: str = "", moves_work: bool = False
) -> None:
    """Move resources into a pool with their work: all nodes that no label claims, or those with a label.

    Raises InvalidPool for what is no label, and PoolHasWork as `create_pool` does.
    """
    require_manage_pools(actor=actor)
    _check_label(label, resource_ids)
    inside = PoolResource.objects.filter(pool=pool, label=label, resource_id__in=resource_ids)
    moved = sorted(set(resource_ids) - set(inside.values_list("resource_id", flat=True)))
    work = work_on_move(actor=actor, resource_ids=moved, label=label, pool=pool)
    _check_work(work, moves_work=moves_work)
    pool_members.move(pool, moved, label=label)
    audit.record(actor, "scheduler.move_resources", pool, resource_ids=moved, label=label)


@transaction.atomic
def take_out_label(
    *, actor: Actor, pool: Pool, resource_ids: Collection[str], label: str, moves_work: bool = False
) -> None:
    """Take the nodes with a label out of a pool: they are where the rest of their resource is, with their work.

    Raises InvalidPool where the label is not in the pool, and PoolHasWork as `create_pool` does.
    """
    require_manage_pools(actor=actor)
    inside = PoolResource.objects.filter(pool=pool, label=label, resource_id__in=resource_ids)
    if not label or not resource_ids or inside.count() < len(set(resource_ids)):
        raise InvalidPool(f"The pool '{pool.name}' has no nodes of that resource by the label '{label}'.")
    works = work_on_removals(actor=actor, places={(resource_id, label) for resource_id in resource_ids})
    _check_work(sum(works.values(), WorkOnMove()), moves_work=moves_work)
    pool_members.take_out(resource_ids, label=label)
    audit.record(actor, "scheduler.take_out_label", pool, resource_ids=sorted(resource_ids), label=label)


@transaction.atomic
def set_sharing_rules(*, actor: Actor, pool: Pool, **changes: Unpack[Rules]) -> Pool:
    """Change how soon, how often and from whom the queues of a pool take capacity back. Raises InvalidQuota.

    What is not named stays. The next cycle works with them.
    """
    queues.require_set_quota(actor=actor)
    locked = Pool.objects.select_for_update().get(pk=pool.pk)
    changed = asdict(with_changes(view_rules(locked), changes))
    for name, value in changed.items():
        setattr(locked, name, value)
    locked.save(update_fields=list(changed))
    audit.record(actor, "scheduler.set_sharing", locked, **changes)
    tasks.enqueue_on_commit("scheduler.cycle")
    return locked


@transaction.atomic
def delete_pool(*, actor: Actor, pool: Pool) -> None:
    """Delete an empty pool with the quotas in it. Raises InvalidPool for the default pool, and where it has nodes."""
    require_manage_pools(actor=actor)
    if pool.pk == DEFAULT_POOL_ID:
        raise InvalidPool("The default pool stays: resources that nobody moved are in it.")
    nodes = Node.objects.filter(pool=pool).count()
    live = Workload.objects.filter(queue__pool=pool).filter(state__in=sorted(LIVE)).count()
    if nodes or live:
        raise InvalidPool(
            f"Not empty: the pool '{pool.name}' has {count_of(nodes, 'node')} and {count_of(live, 'live job')}."
        )
    # The history of what ran here names a queue, and history stays.
    default_ids = pool_members.ensure_queues(
        sorted(set(Workload.objects.filter(queue__pool=pool).values_list("project_id", flat=True)))
    )
    for project_id, queue_id in default_ids.items():
        Workload.objects.filter(queue__pool=pool, project_id=project_id).update(queue_id=queue_id)
    # What no label of a resource claims is in a pool as long as there are labels.
    rest = PoolResource.objects.filter(pool=pool, label="")
    rest.filter(resource_id__in=PoolResource.objects.exclude(label="").values("resource_id")).update(
        pool_id=DEFAULT_POOL_ID
    )
    audit.record(actor, "scheduler.delete_pool", pool)
    pool.delete()
    tasks.enqueue_on_commit("scheduler.cycle")


def _check_label(label: str, resource_ids: Collection[str]) -> None:
    if label and not is_label(label):
        raise InvalidPool(f"'{label}' is no label of a node; write one like gpu=a100.", field="label")
    if label and not resource_ids:
        raise InvalidPool(f"Name the resource whose nodes have the label {label}.")


def _members_by_id(places: Collection[tuple[str, str]]) -> dict[str, Members]:
    return {each.resource_id: each for each in pool_members.read_members({resource_id for resource_id, _ in places})}


def _without(claims: Claims, label: str) -> Claims:
    return {other: pool_id for other, pool_id in claims.items() if other != label}


def _work_on(members: Members, after: Claims, label: str) -> WorkOnMove:
    """Return the work on the nodes that change pools with the claims of a resource, and what waits where they leave."""
    changes = pool_members.find_changes(members, after)
    pool_id = after.get(label, after[""])
    waiting = pool_members.find_waiting(members.resource_id, changes, after, pool_id=pool_id)
    moved = [each for each in waiting if each.next_pool_id != each.pool_id]
    return WorkOnMove(
        **_count_running(changes),
        pending=len(moved),
        held_back=sum(not each.is_preemptible for each in moved),
        left_behind=len(waiting) - len(moved),
    )


def _count_running(changes: Changes) -> dict[str, int]:
    if not changes.pool_ids:
        return {}
    held = Placement.objects.filter(node__in=changes.pool_ids).values("workload")
    rows = Workload.objects.filter(pk__in=held)
    return rows.aggregate(running=Count("pk"), gpu_held_milli=Sum("gpu_milli", default=0))


def _check_work(work: WorkOnMove, *, moves_work: bool) -> None:
    if work.text and not moves_work:
        raise PoolHasWork(f"There is work on these resources. {work.text}", running=work.running, pending=work.pending)


def _jobs(count: int, one: str, many: str) -> str:
    return f"1 job {one}" if count == 1 else f"{count} jobs {many}"
