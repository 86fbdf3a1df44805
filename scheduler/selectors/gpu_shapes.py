"""The named shapes of jobs with GPUs: the app that has them says which there are, for this one knows requests alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scheduler.selectors.resource_pools import ResourcePools


@dataclass(frozen=True)
class GpuShape:
    """A shape on a resource, and the thousandths of GPUs that a job of it takes.

    `pool` names the pool of the resource in which its jobs are; empty: they may be in any.
    """

    name: str
    resource_id: str
    gpu_milli: int
    pool: str = ""


_sources: list[Callable[[], Sequence[GpuShape]]] = []


def add_source(list_shapes: Callable[[], Sequence[GpuShape]]) -> None:
    """Ask this app too from now on."""
    _sources.append(list_shapes)


def find_smallest(pool_id: str) -> GpuShape | None:
    """Return the shape of a pool that takes least; None: it has none with GPUs."""
    pools = ResourcePools()
    shapes = [
        shape
        for list_shapes in _sources
        for shape in list_shapes()
        if shape.gpu_milli and pool_id in _pool_ids_of(shape, pools)
    ]
    return min(shapes, key=lambda shape: (shape.gpu_milli, shape.name), default=None)


def _pool_ids_of(shape: GpuShape, pools: ResourcePools) -> set[str]:
    if shape.pool:
        return {pools.find(shape.resource_id, shape.pool).id}
    return {pool.id for pool in pools.list_pools(shape.resource_id)}
