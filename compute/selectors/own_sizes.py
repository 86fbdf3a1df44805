"""What a job that names no template gets on a resource: how much of a node.

A job that says only how many GPUs it needs gets the smallest template with exactly so many; where a resource has none,
the share of CPU and memory that belongs to these GPUs on its nodes. Such a shape is a template that is not stored.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compute.engine.holders import Amounts
from compute.engine.placing import Launcher, Placing
from compute.models import Resource, Template
from compute.selectors.pool_places import in_pool
from core import units
from core.units import ONE_GPU

_CPU_MILLICORES, _MEMORY_BYTES = 1000, 2**30


@dataclass(frozen=True)
class OwnSize:
    """How much a job asks for. `cpu_millicores` and `memory_bytes` None: what belongs to the GPUs."""

    gpu_milli: int = 0
    cpu_millicores: int | None = None
    memory_bytes: int | None = None
    placing: Placing = Placing()


def template_of(
    size: OwnSize, resource: Resource, templates: Iterable[Template], nodes: Sequence[Amounts], pool: str
) -> Template:
    """Return the template of a job on a resource that has these templates and nodes.

    Of a resource that labels divide, `nodes` are those in the pool that is named.
    """
    return in_pool(_stored(size, templates, pool) or _made(size, resource, nodes), pool)


def _stored(size: OwnSize, templates: Iterable[Template], pool: str) -> Template | None:
    """Return the smallest template with exactly as many GPUs, where the job says nothing else."""
    if not size.gpu_milli or size.cpu_millicores is not None or size.memory_bytes is not None:
        return None
    same = [each for each in templates if each.gpu_milli == size.gpu_milli and (not pool or each.pool in {"", pool})]
    return min(same, key=lambda each: (each.cpu_millicores, each.memory_bytes, each.pk), default=None)


def _made(size: OwnSize, resource: Resource, nodes: Sequence[Amounts]) -> Template:
    cpu_millicores, memory_bytes = _share_of(size.gpu_milli or size.placing.nominal_milli, nodes, size.placing.launcher)
    template = Template(
        resource=resource,
        cpu_millicores=cpu_millicores if size.cpu_millicores is None else size.cpu_millicores,
        memory_bytes=memory_bytes if size.memory_bytes is None else size.memory_bytes,
        gpu_milli=size.gpu_milli,
    )
    parts = [size.placing.size_name or f"{size.gpu_milli / ONE_GPU:g}-gpu"]
    if size.cpu_millicores is not None:
        parts.append(f"{size.cpu_millicores / 1000:g}-cpu")
    if size.memory_bytes is not None:
        parts.append(units.format_memory(size.memory_bytes).replace(" ", "-"))
    template.name = "-".join(parts)
    return template


def _share_of(gpu_milli: int, nodes: Sequence[Amounts], launcher: Launcher | None) -> tuple[int, int]:
    """Return the CPU and memory that go with GPUs: on the node that has the least of them for each GPU.

    A launcher finds its own beside them, also where there are no nodes without GPUs.
    """
    launcher_cpu, launcher_memory = (launcher.cpu_millicores, launcher.memory_bytes) if launcher is not None else (0, 0)
    with_gpus = [node for node in nodes if node.gpu_milli]
    if not gpu_milli or not with_gpus:
        return _CPU_MILLICORES, _MEMORY_BYTES
    cpu_millicores = min((node.cpu_millicores - launcher_cpu) * gpu_milli // node.gpu_milli for node in with_gpus)
    memory_bytes = min((node.memory_bytes - launcher_memory) * gpu_milli // node.gpu_milli for node in with_gpus)
    return max(1, cpu_millicores), max(1, memory_bytes)
