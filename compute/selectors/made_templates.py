"""Templates that are not stored: made for a size that a job names itself, or of one pool, and kept as JSON.

A job that says only how many GPUs it needs gets the smallest template with exactly so many; where a resource has none,
the share of CPU and memory that belongs to these GPUs on its nodes. For the platform itself: who may use a template is
checked when it is found.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from compute.engine.holders import Amounts
from compute.engine.placing import Launcher, Placing
from compute.models import Resource, Template
from compute.selectors.pool_places import in_pool
from core import units
from core.prepared import prepared
from core.units import ONE_GPU

_CPU_MILLICORES, _MEMORY_BYTES = 1000, 2**30
_SIZE = ("name", "cpu_millicores", "memory_bytes", "gpu_milli", "pod")


@dataclass(frozen=True)
class OwnSize:
    """How much a job asks for. `cpu_millicores` and `memory_bytes` None: what belongs to the GPUs."""

    gpu_milli: int = 0
    cpu_millicores: int | None = None
    memory_bytes: int | None = None
    placing: Placing = Placing()


def make_template(
    size: OwnSize, resource: Resource, templates: Iterable[Template], nodes: Sequence[Amounts], pool: str
) -> Template:
    """Return the template of a job on a resource that has these templates and nodes.

    Of a resource that labels divide, `nodes` are those in the pool that is named.
    """
    return in_pool(_find_stored(size, templates, pool) or _make(size, resource, nodes), pool)


def _find_stored(size: OwnSize, templates: Iterable[Template], pool: str) -> Template | None:
    """Return the smallest template with exactly as many GPUs, where the job says nothing else."""
    if not size.gpu_milli or size.cpu_millicores is not None or size.memory_bytes is not None:
        return None
    same = [each for each in templates if each.gpu_milli == size.gpu_milli and (not pool or each.pool in {"", pool})]
    return min(same, key=lambda each: (each.cpu_millicores, each.memory_bytes, each.pk), default=None)


def _make(size: OwnSize, resource: Resource, nodes: Sequence[Amounts]) -> Template:
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


def keep(template: Template) -> dict[str, Any]:
    """Return what `recall` makes a template of again. Needs the resource at hand."""
    return {
        "template": template.pk if template.is_stored else "",
        "resource": template.resource_id,
        "resource_name": template.resource.name,
        "pool": template.pool,
        "size": {name: getattr(template, name) for name in _SIZE},
    }


def recall(records: Mapping[str, Mapping[str, Any]]) -> dict[str, Template]:
    """Return the templates by the same keys, those whose resource is detached left out.

    One that was stored is as its row is now. Where that is deleted, it is as large as it was.
    """
    ids = {each["template"] for each in records.values()} - {""}
    stored = {row.pk: row for row in (_stored(ids) if ids else ())}
    resources = {row.pk: row for row in _attached({each["resource"] for each in records.values()})}
    return {
        key: in_pool(stored[each["template"]], each["pool"])
        if each["template"] in stored
        else Template(resource=resources[each["resource"]], pool=each["pool"], **each["size"])
        for key, each in records.items()
        if each["resource"] in resources
    }


@prepared
def _stored(template_ids: Collection[str]) -> QuerySet[Template]:
    return Template.objects.filter(pk__in=template_ids).select_related("resource").defer("resource__config")


@prepared
def _attached(resource_ids: Collection[str]) -> QuerySet[Resource]:
    return Resource.objects.filter(pk__in=resource_ids, detached_at=None)
