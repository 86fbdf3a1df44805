"""Named shapes that jobs may have on a resource."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any

from django.db import transaction

from accounts import audit
from accounts.permissions import Actor, require_site_admin
from accounts.services.projects import check_name
from compute.adapters import drivers
from compute.engine.placing import PodOptions
from compute.errors import InvalidResource, TemplateExists
from compute.models import Resource, Template
from core.units import ONE_GPU
from scheduler.selectors.resource_pools import ResourcePools


@dataclass(frozen=True)
class Shape:
    """How much of a node a job gets, and what an hour of it costs (None: nobody has said).

    `pod` holds the fields of `PodOptions` that are said. `pool` names one of those of its resource; empty: any.
    """

    cpu_millicores: int
    memory_bytes: int
    gpu_milli: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    pod: Mapping[str, Any] = field(default_factory=dict)
    price_per_hour: Decimal | None = None
    pool: str = ""


def require_add(*, actor: Actor) -> None:
    """Raise PermissionDenied unless the actor may add templates."""
    require_site_admin(actor, "add compute templates")


@transaction.atomic
def create_template(*, actor: Actor, resource: Resource, name: str, shape: Shape) -> Template:
    """Add a template to a resource. Raises TemplateExists and InvalidResource."""
    require_add(actor=actor)
    check_name(name)
    _check(resource, shape)
    _check_pool(resource, shape.pool)
    if Template.objects.filter(resource=resource, name=name).exists():
        raise TemplateExists(f"{resource.name} has a template called '{name}' already.")
    template = Template.objects.create(
        resource=resource,
        name=name,
        cpu_millicores=shape.cpu_millicores,
        memory_bytes=shape.memory_bytes,
        gpu_milli=shape.gpu_milli,
        labels=dict(shape.labels),
        pod=PodOptions.read(shape.pod).to_json(),
        price_per_hour=shape.price_per_hour,
        pool=shape.pool,
    )
    audit.record(actor, "compute.create_template", template)
    return template


@transaction.atomic
def change_template(*, actor: Actor, template: Template, changes: Mapping[str, Any]) -> Template:
    """Change fields of a template's shape; jobs that are there keep theirs. Raises InvalidResource."""
    require_site_admin(actor, "change compute templates")
    present = {field.name: getattr(template, field.name) for field in fields(Shape)}
    shape = Shape(**{**present, **changes})
    _check(template.resource, shape)
    if "pool" in changes:
        _check_pool(template.resource, shape.pool)
    if "pod" in changes:
        changes = {**changes, "pod": PodOptions.read(shape.pod).to_json()}
    for name, value in changes.items():
        setattr(template, name, value)
    template.save(update_fields=sorted(changes))
    audit.record(actor, "compute.change_template", template)
    template.refresh_from_db()
    return template


@transaction.atomic
def delete_template(*, actor: Actor, template: Template) -> None:
    """Delete a template. Jobs that are there keep their shape; flows that name it wait nowhere and say so."""
    require_site_admin(actor, "delete compute templates")
    audit.record(actor, "compute.delete_template", template)
    template.delete()


def _check_pool(resource: Resource, pool: str) -> None:
    """Require a pool of the resource, or none. One that is gone since hinders no other change of a template."""
    if pool and (fault := ResourcePools([resource.pk]).describe_missing(resource.pk, resource.name, pool)):
        raise InvalidResource(fault, field="pool")


def _check(resource: Resource, shape: Shape) -> None:
    options = PodOptions.read(shape.pod)
    options.check()
    if options != PodOptions() and not drivers.get_kind(resource.kind).runs_pods:
        raise InvalidResource(f"{resource.name} is no cluster: its jobs are no pods.", field="pod")
    general = resource.config.get("node_selector") or {}
    for key, value in options.node_selector.items():
        if general.get(key, value) != value:
            raise InvalidResource(
                f"All pods of {resource.name} run on nodes with {key}={general[key]}, none with {key}={value}.",
                field="pod",
            )
    if shape.cpu_millicores <= 0 or shape.memory_bytes <= 0 or shape.gpu_milli < 0:
        raise InvalidResource("A template gives some CPU, some memory, and no negative number of GPUs.")
    if shape.gpu_milli > ONE_GPU and shape.gpu_milli % ONE_GPU:
        raise InvalidResource("More than one GPU must be whole ones.", field="gpu_milli")
