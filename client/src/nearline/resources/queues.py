"""Queues: what projects and departments are guaranteed in each pool, their limits, and the rules for their work."""

from collections.abc import Iterator, Sequence
from typing import Any

from nearline._http import Http, Json, quoted
from nearline.errors import NotFound
from nearline.models import Department, Queue, QuotaTrial, Standing

DEFAULT_POOL = "default"


class Queues:
    """A setting that a change leaves out stays. Who changes queues is a site admin.

    Settings are those of the API: `gpu_quota_milli`, `cpu_quota_millicores`, `memory_quota_bytes`,
    `over_quota_weight`, `gpu_limit_milli`, `cpu_limit_millicores`, `memory_limit_bytes`, `department`,
    `training_node_labels`, `interactive_node_labels`, `training_run_at_most_s`, `interactive_run_at_most_s`,
    `training_idle_at_most_s`, `interactive_idle_at_most_s`, `claim_delay_s`, `reclaim_min_runtime_s`,
    `surplus_min_runtime_s`, `evictions_at_most`, `surplus_evictions_at_most`, `preempt_min_runtime_s`, and of projects
    `pool_rank`: 1 is the pool that jobs take first.
    """

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, *, pool: str = DEFAULT_POOL) -> Iterator[Queue]:
        """Yield the queues of your projects in a pool. Raises NotFound."""
        return map(Queue.read, self._http.list_items("/scheduler/queues", pool=pool))

    def get(self, project: str, *, pool: str = DEFAULT_POOL) -> Queue:
        """Return the queue of a project in a pool. Raises NotFound."""
        for queue in self.list(pool=pool):
            if queue.project == project:
                return queue
        raise NotFound(f"There is no queue of a project called '{project}' in the pool {pool}.")

    def get_standing(self, *, pool: str = DEFAULT_POOL) -> Standing:
        """Return who uses whose quota in a pool, and who of your projects waits below its share. Raises NotFound."""
        return Standing.read(self._http.get(f"/scheduler/pools{quoted(pool)}/standing"))

    def set(self, name: str, *, pool: str = DEFAULT_POOL, is_department: bool = False, **settings: Any) -> None:
        """Change the queue of a project, or of a department. Raises NotFound and InvalidRequest."""
        self.set_many([change_of(name, is_department=is_department, **settings)], pool=pool)

    def set_many(self, changes: Sequence[Json], *, pool: str = DEFAULT_POOL) -> None:
        """Change several queues of a pool, all of them or none; `change_of` makes a change."""
        self._http.patch("/scheduler/queues", {"pool": pool, "changes": [*changes]})

    def try_changes(
        self, changes: Sequence[Json] = (), *, pool: str = DEFAULT_POOL, sharing: Json | None = None
    ) -> QuotaTrial:
        """Return what changes would do, `sharing` those of the pool's rules; nothing is changed."""
        body = {"pool": pool, "changes": [*changes], "sharing": sharing or {}}
        return QuotaTrial.read(self._http.post("/scheduler/quota-trials", body, may_repeat=True))

    def list_departments(self, *, pool: str = DEFAULT_POOL) -> Iterator[Department]:
        """Yield the departments of a pool by name."""
        return map(Department.read, self._http.list_items("/scheduler/departments", pool=pool))

    def create_department(self, name: str, *, pool: str = DEFAULT_POOL, **settings: Any) -> Department:
        """Create a department in a pool. Raises InvalidRequest where the name is taken."""
        return Department.read(self._http.post("/scheduler/departments", {"pool": pool, "name": name, **settings}))

    def delete_department(self, name: str, *, pool: str = DEFAULT_POOL) -> None:
        """Delete a department; what was below it is then below the one above. Raises NotFound."""
        self._http.delete("/scheduler/departments" + quoted(name), pool=pool)


def change_of(name: str, *, is_department: bool = False, **settings: Any) -> Json:
    """Return a change of one queue, of a project or of a department."""
    return {"queue": name, "is_department": is_department, **settings}
