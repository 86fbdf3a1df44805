"""Routes of queues, nodes and workloads."""

from datetime import datetime, timedelta
from typing import Any

from ninja import PatchDict, Query, Router, Status

from accounts.api.auth import ApiRequest
from core import clock
from core.pagination import Cursor, Limit, Page, paginate
from scheduler.api import schemas
from scheduler.engine.states import WorkloadState
from scheduler.models import Pool, Queue, Workload
from scheduler.selectors import evictions, forecasts, usage
from scheduler.selectors import nodes as node_selectors
from scheduler.selectors import pools as pool_selectors
from scheduler.selectors import queues as queue_selectors
from scheduler.selectors import workloads as workload_selectors
from scheduler.selectors.pools import DEFAULT
from scheduler.selectors.snapshots import view_rules
from scheduler.services import nodes, pools, queues
from scheduler.workers import standing, trials

router = Router()


@router.get("/scheduler/pools", response=schemas.PoolsOut, operation_id="scheduler_list_pools")
def list_pools(request: ApiRequest) -> dict[str, Any]:
    """List the pools of nodes over which quotas and fair shares are worked out."""
    pools = pool_selectors.list_pools(actor=request.actor)
    return {"items": [schemas.PoolOut.of(view) for view in pool_selectors.view_pools(list(pools))]}


@router.post("/scheduler/pools", response={201: schemas.PoolOut}, operation_id="scheduler_create_pool")
def create_pool(request: ApiRequest, body: schemas.PoolIn) -> Status[schemas.PoolOut]:
    """Create a pool and move resources into it, or some of their nodes. Its queues have no quota. For site admins."""
    resource_ids = pool_selectors.find_resource_ids(actor=request.actor, names=body.resources)
    pool = pools.create_pool(
        actor=request.actor,
        name=body.name,
        resource_ids=resource_ids,
        label=body.label,
        moves_work=body.moves_work,
    )
    return Status(201, _pool_out(pool))


@router.patch("/scheduler/pools/{name}", response=schemas.PoolOut, operation_id="scheduler_move_resources")
def move_resources(request: ApiRequest, name: str, body: schemas.PoolChangeIn) -> schemas.PoolOut:
    """Move resources into a pool, or their nodes with a label.

    Where there is work, that is refused unless it may move along. For site admins.
    """
    pool = pool_selectors.get_pool(actor=request.actor, name=name)
    resource_ids = pool_selectors.find_resource_ids(actor=request.actor, names=body.resources)
    pools.move_resources(
        actor=request.actor, pool=pool, resource_ids=resource_ids, label=body.label, moves_work=body.moves_work
    )
    return _pool_out(pool)


@router.post(
    "/scheduler/pools/{name}/label-removals", response=schemas.PoolOut, operation_id="scheduler_take_out_label"
)
def take_out_label(request: ApiRequest, name: str, body: schemas.LabelRemovalIn) -> schemas.PoolOut:
    """Take the nodes with a label out of a pool: they are where the rest of their resource is. For site admins.

    Where there is work, that is refused unless it may move along.
    """
    pool = pool_selectors.get_pool(actor=request.actor, name=name)
    resource_ids = pool_selectors.find_resource_ids(actor=request.actor, names=body.resources)
    pools.take_out_label(
        actor=request.actor, pool=pool, resource_ids=resource_ids, label=body.label, moves_work=body.moves_work
    )
    return _pool_out(pool)


@router.patch("/scheduler/pools/{name}/sharing", response=schemas.SharingOut, operation_id="scheduler_set_sharing")
def set_sharing(request: ApiRequest, name: str, body: schemas.SharingIn) -> schemas.SharingOut:
    """Change the rules by which the queues of a pool share. For site admins."""
    pool = pool_selectors.get_pool(actor=request.actor, name=name)
    changed = pools.set_sharing_rules(actor=request.actor, pool=pool, **body.model_dump(exclude_unset=True))
    return schemas.SharingOut.of(view_rules(changed))


@router.delete("/scheduler/pools/{name}", response={204: None}, operation_id="scheduler_delete_pool")
def delete_pool(request: ApiRequest, name: str) -> Status[None]:
    """Delete a pool without nodes and without work, and the quotas in it. For site admins."""
    pools.delete_pool(actor=request.actor, pool=pool_selectors.get_pool(actor=request.actor, name=name))
    return Status(204, None)


@router.get("/scheduler/pools/{name}/standing", response=schemas.StandingOut, operation_id="scheduler_get_standing")
def get_standing(request: ApiRequest, name: str) -> standing.Standing:
    """Tell which projects of a pool use whose quota, and which of yours wait below their share."""
    return standing.read_standing(actor=request.actor, pool=name)


@router.get("/scheduler/queues", response=schemas.QueuesOut, operation_id="scheduler_list_queues")
def list_queues(request: ApiRequest, pool: str = DEFAULT, cursor: Cursor = None, limit: Limit = 100) -> Page[Queue]:
    """List the queues of your projects in a pool, newest first."""
    pool_selectors.require_pool(actor=request.actor, name=pool)
    return paginate(queue_selectors.list_queues(actor=request.actor, pool=pool), cursor=cursor, limit=limit)


@router.patch("/scheduler/queues/{project}", response=schemas.QueueOut, operation_id="scheduler_set_quota")
def set_quota(request: ApiRequest, project: str, body: PatchDict[schemas.QuotaIn], pool: str = DEFAULT) -> Queue:
    """Change what a project is guaranteed in a pool. For site admins."""
    queue = queue_selectors.get_queue(actor=request.actor, project=project, pool=pool)
    return queues.set_quota(actor=request.actor, queue=queue, **body)


@router.patch("/scheduler/queues", response=schemas.ChangedQueuesOut, operation_id="scheduler_set_quotas")
def set_quotas(request: ApiRequest, body: schemas.QueueChangesIn) -> dict[str, Any]:
    """Change several queues of a pool, all of them or none. For site admins."""
    return {"items": queues.set_quotas(actor=request.actor, changes=_changes(request, body))}


@router.post("/scheduler/quota-trials", response=schemas.QuotaTrialOut, operation_id="scheduler_try_quotas")
def try_quotas(request: ApiRequest, body: schemas.QuotaTrialIn) -> trials.QuotaTrial:
    """Show what changes of queues or rules would do: shares, and what the next cycle would stop. Nothing is changed."""
    queues.require_set_quota(actor=request.actor)
    pool = pool_selectors.get_pool(actor=request.actor, name=body.pool)
    rules: Any = body.sharing.model_dump(exclude_unset=True)
    return trials.try_quotas(actor=request.actor, pool=pool, changes=_changes(request, body), sharing=rules)


@router.get("/scheduler/departments", response=schemas.DepartmentsOut, operation_id="scheduler_list_departments")
def list_departments(request: ApiRequest, pool: str = DEFAULT) -> dict[str, Any]:
    """List the departments of a pool that are above your projects."""
    pool_selectors.require_pool(actor=request.actor, name=pool)
    return {"items": queue_selectors.list_departments(actor=request.actor, pool=pool)}


@router.post(
    "/scheduler/departments", response={201: schemas.DepartmentOut}, operation_id="scheduler_create_department"
)
def create_department(request: ApiRequest, body: schemas.DepartmentIn) -> Status[Queue]:
    """Create a department. For site admins."""
    queues.require_set_quota(actor=request.actor)
    pool = pool_selectors.get_pool(actor=request.actor, name=body.pool)
    settings = body.model_dump(exclude_unset=True, exclude={"pool", "name"})
    return Status(201, queues.create_department(actor=request.actor, pool=pool, name=body.name, **settings))


@router.delete("/scheduler/departments/{name}", response={204: None}, operation_id="scheduler_delete_department")
def delete_department(request: ApiRequest, name: str, pool: str = DEFAULT) -> Status[None]:
    """Delete a department; what was below it is then below the one above. For site admins."""
    queues.require_set_quota(actor=request.actor)
    department = queue_selectors.get_department(actor=request.actor, name=name, pool=pool)
    queues.delete_department(actor=request.actor, department=department)
    return Status(204, None)


@router.get("/scheduler/forecasts", response=schemas.CoverageOut, operation_id="scheduler_list_coverage")
def list_coverage(request: ApiRequest, since: datetime | None = None) -> dict[str, Any]:
    """List by pool how well what waiting jobs were told of their start has held: the newest, or all started since."""
    return {"items": forecasts.list_coverage(actor=request.actor, since=since)}


@router.get("/scheduler/evictions", response=schemas.EvictionsOut, operation_id="scheduler_list_evictions")
def list_evictions(
    request: ApiRequest,
    filters: Query[schemas.EvictionFilters],
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[object]:
    """List the receipts of evictions, newest first: of one job or project, or within a time."""
    rows = evictions.list_evictions(actor=request.actor, **filters.model_dump())
    page = paginate(rows, cursor=cursor, limit=limit)
    views = evictions.view_evictions(actor=request.actor, rows=page.items)
    return Page([schemas.EvictionOut.of(view) for view in views], page.next_cursor)


@router.get("/scheduler/evictions/weeks", response=schemas.EvictionWeeksOut, operation_id="scheduler_list_weeks")
def list_eviction_weeks(request: ApiRequest, project: str | None = None) -> dict[str, Any]:
    """List by project and week how many evictions there were, and what they lost."""
    return {"items": evictions.list_weeks(actor=request.actor, project=project)}


@router.get("/scheduler/consumption", response=schemas.ConsumptionOut, operation_id="scheduler_list_consumption")
def list_consumption(request: ApiRequest, filters: Query[schemas.ConsumptionFilters]) -> dict[str, Any]:
    """List by project and pool the GPU time that was consumed, and its price. Times are those of samples.

    They are exact to a minute within the last day, to 15 minutes within 14 days, else to 6 hours.
    """
    since = filters.since or clock.now() - timedelta(days=1)
    rows = usage.list_consumption(actor=request.actor, since=since, until=filters.until, project=filters.project)
    return {"items": rows}


@router.get("/scheduler/nodes", response=schemas.NodesOut, operation_id="scheduler_list_nodes")
def list_nodes(
    request: ApiRequest, resource: str | None = None, cursor: Cursor = None, limit: Limit = 100
) -> Page[object]:
    """List the nodes of all compute resources and what is held on them."""
    nodes = node_selectors.list_nodes(actor=request.actor, resource=resource)
    return paginate(nodes, cursor=cursor, limit=limit).map(schemas.NodeOut.of)


@router.patch("/scheduler/nodes/{node_id}", response=schemas.NodeOut, operation_id="scheduler_set_drained")
def set_drained(request: ApiRequest, node_id: str, body: schemas.NodeChangeIn) -> schemas.NodeOut:
    """Let a node take nothing new, or open it again; what runs there goes on. For site admins."""
    node = node_selectors.get_node(actor=request.actor, node_id=node_id)
    nodes.set_drained(actor=request.actor, node=node, is_drained=body.is_drained)
    return schemas.NodeOut.of(node_selectors.get_node(actor=request.actor, node_id=node_id))


@router.get("/scheduler/workloads", response=schemas.WorkloadsOut, operation_id="scheduler_list_workloads")
def list_workloads(
    request: ApiRequest,
    state: WorkloadState | None = None,
    project: str | None = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Page[Workload]:
    """List the workloads of your projects, newest first, with where they run or why they wait."""
    workloads = workload_selectors.list_workloads(actor=request.actor, state=state, project=project)
    return paginate(workloads, cursor=cursor, limit=limit)


def _changes(request: ApiRequest, body: schemas.QueueChangesIn) -> list[tuple[Queue, queues.QueueSettings]]:
    """Return the queues of a body with what it says about each."""
    queues.require_set_quota(actor=request.actor)
    return queue_selectors.find_changed(
        actor=request.actor,
        pool=body.pool,
        changes=[
            (
                change.queue,
                change.is_department,
                change.model_dump(exclude_unset=True, exclude={"queue", "is_department"}),
            )
            for change in body.changes
        ],
    )


def _pool_out(pool: Pool) -> schemas.PoolOut:
    (view,) = pool_selectors.view_pools([pool])
    return schemas.PoolOut.of(view)
