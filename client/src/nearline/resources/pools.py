"""Pools of nodes: quotas, limits and fair shares are worked out over the nodes of each."""

from collections.abc import Iterator, Sequence

from nearline._http import Http, quoted
from nearline.models import Pool


class Pools:
    """Who makes pools is a site admin; everybody sees them."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self) -> Iterator[Pool]:
        """Yield the pools, the default one first."""
        return map(Pool.read, self._http.list_items("/scheduler/pools"))

    def create(self, name: str, resources: Sequence[str] = (), *, moves_work: bool = False) -> Pool:
        """Create a pool and move resources into it; no project has a quota there at first.

        Raises InvalidRequest with the code `scheduler.pool_has_work`, which says what happens to the work on the
        resources, unless `moves_work`.
        """
        body = {"name": name, "resources": [*resources], "moves_work": moves_work}
        return Pool.read(self._http.post("/scheduler/pools", body))

    def move(self, name: str, resources: Sequence[str], *, moves_work: bool = False) -> Pool:
        """Move resources into a pool. Raises NotFound, and InvalidRequest as `create` does."""
        body = {"resources": [*resources], "moves_work": moves_work}
        return Pool.read(self._http.patch("/scheduler/pools" + quoted(name), body))

    def delete(self, name: str) -> None:
        """Delete a pool without nodes, with the quotas in it. Raises NotFound and InvalidRequest."""
        self._http.delete("/scheduler/pools" + quoted(name))
