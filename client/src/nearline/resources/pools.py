"""Pools of nodes: quotas, limits and fair shares are worked out over the nodes of each."""

from collections.abc import Iterator, Sequence
from typing import Any

from nearline._http import Http, quoted
from nearline.errors import NotFound
from nearline.models import Pool, Sharing


class Pools:
    """Who makes pools is a site admin; everybody sees them."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self) -> Iterator[Pool]:
        """Yield the pools, the default one first."""
        return map(Pool.read, self._http.list_items("/scheduler/pools"))

    def get(self, name: str) -> Pool:
        """Return a pool. Raises NotFound."""
        for pool in self.list():
            if pool.name == name:
                return pool
        raise NotFound(f"There is no pool called '{name}'.")

    def create(self, name: str, resources: Sequence[str] = (), *, label: str = "", moves_work: bool = False) -> Pool:
        """Create a pool and move resources into it, or their nodes with a label (`key=value`).

        No project has a quota there at first.

        Raises InvalidRequest with the code `scheduler.pool_has_work`, which says what happens to the work on the
        resources, unless `moves_work`.
        """
        body = {"name": name, **_members(resources, label, moves_work=moves_work)}
        return Pool.read(self._http.post("/scheduler/pools", body))

    def move(self, name: str, resources: Sequence[str], *, label: str = "", moves_work: bool = False) -> Pool:
        """Move resources into a pool: their nodes with a label, or without one those that no label puts elsewhere.

        Raises NotFound, and InvalidRequest as `create` does.
        """
        body = _members(resources, label, moves_work=moves_work)
        return Pool.read(self._http.patch("/scheduler/pools" + quoted(name), body))

    def take_out(self, name: str, resources: Sequence[str], label: str, *, moves_work: bool = False) -> Pool:
        """Take the nodes with a label out of a pool: they are where the rest of their resource is.

        Raises NotFound, and InvalidRequest for a label that is not in the pool, and as `create` does.
        """
        body = _members(resources, label, moves_work=moves_work)
        return Pool.read(self._http.post("/scheduler/pools" + quoted(name, "label-removals"), body))

    def set_sharing(self, name: str, **rules: Any) -> Sharing:
        """Change the rules by which the queues of a pool share; what is left out stays. Raises NotFound.

        `preset` is a named set, `prompt` or `steady`. Single rules are `claim_delay_s`, `reclaim_min_runtime_s`,
        `surplus_min_runtime_s`, `evictions_at_most`, `surplus_evictions_at_most`, `consolidate_every_s`,
        `usage_half_life_s` and `usage_pull`.
        """
        return Sharing.read(self._http.patch("/scheduler/pools" + quoted(name, "sharing"), rules))

    def delete(self, name: str) -> None:
        """Delete a pool without nodes, with the quotas in it. Raises NotFound and InvalidRequest."""
        self._http.delete("/scheduler/pools" + quoted(name))


def _members(resources: Sequence[str], label: str, *, moves_work: bool) -> dict[str, object]:
    body = {"resources": [*resources], "moves_work": moves_work}
    return {**body, "label": label} if label else body
