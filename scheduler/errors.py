"""What can go wrong when work is handed to the scheduler."""

from core.errors import Conflict, InvalidInput, NotFound


class QueueNotFound(NotFound):
    """The project or department has no queue in the pool, or the caller may not see it."""

    code = "scheduler.queue_not_found"
    hint = "List what there is with `nearline queue list` and `nearline queue departments`."


class DepartmentExists(Conflict):
    """The department's name is taken in its pool."""

    code = "scheduler.department_exists"
    hint = "Choose another name."


class NodeNotFound(NotFound):
    """No compute resource has reported such a node, or it is no more."""

    code = "scheduler.node_not_found"
    hint = "List the nodes with `nearline compute list`."


class InvalidRequest(InvalidInput):
    """A workload asks for amounts that make no sense."""

    code = "scheduler.invalid_request"
    hint = "Ask for a positive amount of CPU and memory, and for whole GPUs or a fraction of one."


class InvalidPool(InvalidInput):
    """A pool cannot be made so."""

    code = "scheduler.invalid_pool"


class PoolHasWork(InvalidPool):
    """Resources would take their work along into another pool, and the caller did not say that they may."""

    code = "scheduler.pool_has_work"
    hint = "Say that the work moves along (`moves_work`, `--yes`), or wait until it has ended."


class PoolNotFound(NotFound):
    """There is no such pool."""

    code = "scheduler.pool_not_found"
    hint = "List the pools with `nearline pool list`."


class InvalidQuota(InvalidInput):
    """A quota or weight is out of range."""

    code = "scheduler.invalid_quota"
