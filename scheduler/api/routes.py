"""Routes of queues, nodes and workloads."""

from ninja import PatchDict, Router

from accounts.api.auth import ApiRequest
from core.pagination import Cursor, Limit, Page, paginate
from scheduler.api import schemas
from scheduler.engine.states import WorkloadState
from scheduler.models import Queue, Workload
from scheduler.selectors import nodes as node_selectors
from scheduler.selectors import queues as queue_selectors
from scheduler.selectors import workloads as workload_selectors
from scheduler.services import nodes, queues

router = Router()


@router.get("/scheduler/queues", response=schemas.QueuesOut, operation_id="scheduler_list_queues")
def list_queues(request: ApiRequest, cursor: Cursor = None, limit: Limit = 100) -> Page[Queue]:
    """List the queues of your projects, newest first."""
    return paginate(queue_selectors.list_queues(actor=request.actor), cursor=cursor, limit=limit)


@router.patch("/scheduler/queues/{project}", response=schemas.QueueOut, operation_id="scheduler_set_quota")
def set_quota(request: ApiRequest, project: str, body: PatchDict[schemas.QuotaIn]) -> Queue:
    """Change what a project is guaranteed. For site admins."""
    queue = queue_selectors.get_queue(actor=request.actor, project=project)
    return queues.set_quota(actor=request.actor, queue=queue, **body)


@router.get("/scheduler/nodes", response=schemas.NodesOut, operation_id="scheduler_list_nodes")
def list_nodes(
    request: ApiRequest, resource: str | None = None, cursor: Cursor = None, limit: Limit = 100
) -> Page[object]:
    """List the nodes of all compute resources and what is held on them."""
    found = node_selectors.list_nodes(actor=request.actor, resource=resource)
    return paginate(found, cursor=cursor, limit=limit).map(schemas.NodeOut.of)


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
