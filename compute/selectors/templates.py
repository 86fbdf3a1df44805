"""Reads about templates, what jobs of theirs can have, and what the scheduler is told of such jobs.

Every signed-in person may see templates, and every project may use them.
"""

from collections.abc import Collection, Sequence
from typing import Any

from django.conf import settings
from django.db.models import QuerySet

from accounts.permissions import Actor
from accounts.selectors import get_project
from compute.adapters import drivers
from compute.engine import volumes
from compute.engine.job_spec import SourceKind, describe_kinds
from compute.engine.placing import Placing, PodOptions
from compute.errors import InvalidJobSpec, TemplateNotFound
from compute.models import Resource, Template
from compute.selectors import pool_places, resources
from core import hosts
from core.prepared import prepared
from core.taints import Toleration
from core.units import ONE_GPU
from scheduler.selectors import nodes as node_selectors
from scheduler.services.workloads import PodSet

_MOST_NAMED = 5


def list_templates(*, actor: Actor, project: str | None = None) -> QuerySet[Template]:
    """Return the templates of all attached resources, smallest first within each resource.

    With a project's name: those that it may use, which today are all. Raises ProjectNotFound.
    """
    if project is not None:
        get_project(actor=actor, name=project)
    templates = Template.objects.filter(resource__detached_at=None).select_related("resource")
    return templates.order_by("resource__name", "gpu_milli", "cpu_millicores", "pk")


def get_template(*, actor: Actor, full_name: str) -> Template:
    """Return the template called `resource.template`. Raises TemplateNotFound."""
    resource, _, name = full_name.partition(".")
    template = list_templates(actor=actor).filter(resource__name=resource, name=name).first()
    if template is None:
        raise TemplateNotFound(f"There is no compute template called '{full_name}'.")
    return template


def list_with_gpus() -> QuerySet[Template]:
    """Return the templates of attached resources that have GPUs. For the platform itself."""
    templates = Template.objects.filter(resource__detached_at=None, gpu_milli__gt=0)
    return templates.select_related("resource").defer("resource__config", "resource__facts").order_by("pk")


def find_templates(full_names: Collection[str]) -> dict[str, Template]:
    """Return the templates that exist by their full names. For the platform itself."""
    names = set(full_names)
    rows = _attached({name.partition(".")[2] for name in names})
    return {row.full_name: row for row in rows if row.full_name in names}


@prepared
def _attached(names: Collection[str]) -> QuerySet[Template]:
    rows = Template.objects.filter(resource__detached_at=None, name__in=names)
    return rows.select_related("resource").defer("resource__config").order_by("pk")


def reads_folders(template: Template, host: str) -> bool:
    """Whether jobs of a template can mount folders of a host. Needs the resource at hand."""
    is_near = template.resource.host in {hosts.ANY, host}
    return is_near and SourceKind.HOST_FOLDER in drivers.get_kind(template.resource.kind).mountable_on(
        template.resource.host
    )


def ignores_image(template: Template) -> bool:
    """Whether jobs of a template run without the image that they name. Needs the resource at hand."""
    return drivers.get_kind(template.resource.kind).ignores_images


def describe_gang_mismatch(template: Template, replicas: int, *, has_launcher: bool = False) -> str:
    """Say why jobs of a template cannot have so many replicas, and a launcher where they are to; empty when they can.

    Needs the resource at hand.
    """
    kind = drivers.get_kind(template.resource.kind)
    if kind.runs_gangs or (replicas == 1 and not has_launcher):
        return ""
    what = "a launcher beside replicas" if has_launcher else f"{replicas} replicas"
    return f"{template.full_name} cannot run {what}: a resource of kind {kind.name} runs each job on one node."


def describe_lasting_mismatch(template: Template, placing: Placing, replicas: int) -> str:
    """Say why jobs of a template cannot be placed as one asks, whatever nodes there are; empty when they can.

    Needs the resource at hand. Raises InvalidJobSpec for what contradicts itself.
    """
    placing.check(gpu_milli=0 if placing.has_own_gpu else template.gpu_milli, replicas=replicas)
    has_launcher = placing.launcher is not None
    gang_fault = describe_gang_mismatch(template, replicas, has_launcher=has_launcher)
    return gang_fault or _describe_lack_of_kind(template.resource, placing, replicas)


def describe_placing_mismatch(template: Template, placing: Placing, replicas: int) -> str:
    """Say why jobs of a template cannot be placed as one asks on the nodes that there are now; empty when they can.

    Needs the resource at hand. Raises InvalidJobSpec for what contradicts itself.
    """
    return describe_lasting_mismatch(template, placing, replicas) or describe_unplaceable(
        template.resource,
        placing,
        replicas,
        PodSet(
            cpu_millicores=template.cpu_millicores,
            memory_bytes=template.memory_bytes,
            gpu_milli=0 if placing.has_own_gpu else template.gpu_milli,
            **placing_of(placing, PodOptions.read(template.pod)),
        ),
        pool=template.pool,
    )


def describe_unplaceable(resource: Resource, placing: Placing, replicas: int, pods: PodSet, *, pool: str = "") -> str:
    """Say why a resource cannot place jobs as one asks on the nodes that there are now; empty when it can.

    Only nodes in the pool with this name count, if it is named.
    """
    if placing == Placing():
        return ""
    if fault := _describe_lack_of_kind(resource, placing, replicas):
        return fault
    levels = {placing.required_level, placing.preferred_level} - {""}
    if levels and (unknown := sorted(levels - node_selectors.list_levels(resource.pk))):
        return f"No node of {resource.name} has the label {unknown[0]}, by which replicas would be kept together."
    launcher = launcher_of(placing, pods.tolerations)
    fault = "" if launcher is None else _describe_unservable(resource, launcher, pool)
    return f"For its launcher: {fault}" if fault else _describe_unservable(resource, pods, pool)


def _describe_lack_of_kind(resource: Resource, placing: Placing, replicas: int) -> str:
    """Say why no resource like this one can place jobs as one asks; empty when one can."""
    kind = drivers.get_kind(resource.kind)
    if placing.gpu_memory_bytes and not kind.shares_gpus(resource.config):
        return f"{resource.name} gives whole GPUs only."
    if placing.gpu_limit_milli and not kind.bursts_gpus:
        return f"{resource.name} cannot let a job use more of a GPU than its share, so that it takes no limit above it."
    if placing.is_elastic(replicas) and not kind.resizes_gangs:
        return f"{resource.name} cannot change how many replicas of a job run: leave out the least number of them."
    return ""


def _describe_unservable(resource: Resource, pods: PodSet, pool: str) -> str:
    place = pool_places.describe(resource.name, pool)
    return node_selectors.describe_unservable(resource_id=resource.pk, resource=place, pods=pods, pool=pool)


def describe_lack_of_ports(resource: Resource, ports: Sequence[int]) -> str:
    """Say why ports of jobs on a resource cannot be reached; empty when they can, or the job has none."""
    if not ports or resource.is_simulated or drivers.get_kind(resource.kind).opens_ports:
        return ""
    return f"Ports of jobs on {resource.name} cannot be reached; this one has {', '.join(map(str, ports))}."


def describe_lack_of_volumes(resource: Resource, texts: Sequence[str]) -> str:
    """Say why jobs of a resource cannot have these volumes; empty when they can, or the job has none."""
    if not texts or resource.is_simulated:
        return ""
    kind = drivers.get_kind(resource.kind)
    offers = kind.volumes_of(resource.config)
    if not offers:
        advice = f" An admin can offer some: {kind.volumes_help}." if kind.volumes_help else ""
        named = ", ".join(texts[:_MOST_NAMED])
        return f"{resource.name} gives jobs no volumes; this one asks for {named}.{advice}"
    try:
        return volumes.describe_fault(volumes.read_volumes(texts), offers, resource=resource.name)
    except InvalidJobSpec as error:
        return error.message


def describe_checkpoint_mismatch(template: Template) -> str:
    """Say why jobs of a template have no checkpoint folder; empty when they have. Needs the resource at hand."""
    fault = describe_lack_of_checkpoints(template.resource)
    return f"{template.full_name} keeps no checkpoints: {fault}" if fault else ""


def describe_lack_of_checkpoints(resource: Resource) -> str:
    """Say why jobs of a resource have no checkpoint folder; empty when they have."""
    kind = drivers.get_kind(resource.kind)
    if not kind.keeps_checkpoints:
        return f"resources of kind {kind.name} have no folder that outlives a run."
    if kind.checkpoint_field and not resource.config.get(kind.checkpoint_field):
        label = str(kind.form.base_fields[kind.checkpoint_field].label).lower()
        return f"{resource.name} was attached without a {label}."
    return ""


def describe_kind_mismatch(resource: Resource, *, gpu_milli: int, replicas: int, needs_image: bool) -> str:
    """Say why no job of this shape runs on resources of this kind; empty where it does."""
    kind = drivers.get_kind(resource.kind)
    if replicas > 1 and not kind.runs_gangs:
        return f"{resource.name} runs each job on one node."
    if needs_image and kind.ignores_images:
        return f"{resource.name} runs no containers."
    if gpu_milli % ONE_GPU and not kind.shares_gpus(resource.config):
        return f"{resource.name} gives whole GPUs only."
    return ""


def describe_early_mismatch(template: Template) -> str:
    """Say why jobs of a template cannot start before their data is complete; empty when they can.

    Needs the resource at hand.
    """
    sites = resources.list_readable_sites(template.resource, list_mountable(template))
    if any(site.starts_jobs_early for site in sites):
        return ""
    return (
        f"Jobs of {template.full_name} cannot start before their data is complete: they read no cache site that is "
        "filled with the files of commits."
    )


def list_mountable(template: Template) -> frozenset[SourceKind]:
    """Return which sources jobs of a template can mount. Needs the resource at hand."""
    return drivers.driver_of(template.resource).mountable


def describe_mismatch(template: Template, what: str, sources: Collection[SourceKind]) -> str:
    """Say why jobs of a template cannot read something that comes from any of these sources; empty when they can."""
    mountable = list_mountable(template)
    if not mountable.isdisjoint(sources):
        return ""
    return (
        f"{template.full_name} cannot read {what}: it comes from {describe_kinds(sources)}, "
        f"and jobs on {template.resource.name} mount {describe_kinds(mountable)}."
    )


def placing_of(placing: Placing, pod: PodOptions) -> dict[str, Any]:
    """Return what a `PodSet` says besides size and number."""
    return {
        "selector": sorted(pod.node_selector.items()),
        "tolerations": pod.parsed_tolerations,
        "gpu_memory_bytes": placing.gpu_memory_bytes,
        "mig_profile": placing.mig_profile,
        "node_labels": [tuple(label.split("=", 1)) for label in placing.node_labels],
        "required_level": placing.required_level,
        "preferred_level": placing.preferred_level,
        "min_count": placing.min_replicas or None,
    }


def launcher_of(placing: Placing, tolerations: Sequence[Toleration]) -> PodSet | None:
    """Return the launcher of a gang, whose nodes need no labels: it runs on any node. None: it has none."""
    if (launcher := placing.launcher) is None:
        return None
    return PodSet(
        name="launcher",
        cpu_millicores=launcher.cpu_millicores,
        memory_bytes=launcher.memory_bytes,
        tolerations=tolerations,
    )


def describe_grace_period_fault(grace_period_s: float) -> str:
    """Say why a job cannot have a grace period; empty when it can."""
    most_s = settings.NEARLINE.max_grace_period_s
    if grace_period_s <= most_s:
        return ""
    return (
        f"A grace period of {grace_period_s:,.10g} s is longer than the {most_s} s that this installation allows "
        "(NEARLINE_MAX_GRACE_PERIOD_S)."
    )


def bound_grace_period(grace_period_s: float) -> float:
    """Return the grace period that a job gets: an admin may have lowered the limit since its flow was saved."""
    return min(grace_period_s, float(settings.NEARLINE.max_grace_period_s))
