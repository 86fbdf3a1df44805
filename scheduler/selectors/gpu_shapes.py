"""The named shapes of jobs with GPUs: the app that has them says which there are, for this one knows requests alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scheduler.models import DEFAULT_POOL_ID, PoolResource


@dataclass(frozen=True)
class GpuShape:
    """A shape on a resource, and the thousandths of GPUs that a job of it takes."""

    name: str
    resource_id: str
    gpu_milli: int


_sources: list[Callable[[], Sequence[GpuShape]]] = []


def add_source(list_shapes: Callable[[], Sequence[GpuShape]]) -> None:
    """Ask this app too from now on."""
    _sources.append(list_shapes)


def find_smallest(pool_id: str) -> GpuShape | None:
    """Return the shape of a pool that takes least; None: it has none with GPUs."""
    pools = dict(PoolResource.objects.values_list("resource_id", "pool_id"))
    shapes = [
        shape
        for list_shapes in _sources
        for shape in list_shapes()
        if shape.gpu_milli and pools.get(shape.resource_id, DEFAULT_POOL_ID) == pool_id
    ]
    return min(shapes, key=lambda shape: (shape.gpu_milli, shape.name), default=None)
