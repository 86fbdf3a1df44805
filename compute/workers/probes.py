"""Resources are asked for their nodes, now and then and when they come back, and for what jobs use of their GPUs.

The latter where a place tells what is used now, and remembers nothing.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import structlog
from django.db import transaction
from django.db.models import Q

from accounts import audit
from accounts.permissions import Actor
from compute.adapters import drivers
from compute.engine import gpu_history
from compute.engine.gpu_history import Reading
from compute.engine.ports import DescribesCluster, GpuReading, MeasuresGpus
from compute.engine.states import JobState
from compute.errors import ResourceUnreachable
from compute.models import Job, JobGpuUse, Resource, ResourceState
from compute.selectors import failures
from compute.selectors.resource_events import LOST
from compute.services import node_reports
from core import clock, hosts, isolation
from core.encryption import CredentialsUnreadable
from scheduler.services import resource_nodes

log = structlog.get_logger(__name__)
_CONTACT_STEP = timedelta(seconds=30)
_DESCRIBE_EVERY = timedelta(minutes=2)


def probe_all() -> None:
    """Ask every resource of this host for its nodes, and note which others have a host that is away."""
    attached = list(Resource.objects.filter(detached_at=None).order_by("pk"))
    ours = [resource for resource in attached if hosts.is_here(resource.host)]
    known = resource_nodes.list_known([resource.pk for resource in ours])
    isolation.for_each(
        failures.PROBE, ours, lambda resource: probe_resource(resource=resource, known=known[resource.pk])
    )
    if len(ours) == len(attached):
        return
    present = {host.id for host in hosts.list_hosts().values() if not host.is_away}
    away = [resource for resource in attached if not hosts.is_here(resource.host) and resource.host not in present]
    isolation.for_each(
        failures.PROBE,
        away,
        lambda resource: note_unreachable(resource=resource, error=ResourceUnreachable(_describe_away(resource))),
    )


def _describe_away(resource: Resource) -> str:
    if resource.host == hosts.UNBOUND:
        return "It belongs to no host yet. A controller takes it whose home folder holds the files of its jobs."
    name = hosts.name_of(resource.host)
    return f"Its host {name} is away: no controller runs there. How its jobs stand is unknown until one does."


def probe_resource(*, resource: Resource, known: Sequence[Any] | None = None) -> None:
    """Ask a resource for its nodes and tell the scheduler; one that does not answer gets nothing new.

    `known` is what the scheduler knows of them, where that was read a moment ago.
    """
    try:
        driver = drivers.driver_of(resource)
        nodes = driver.probe()
        described = driver.describe() if isinstance(driver, DescribesCluster) and _is_due(resource) else None
    except CredentialsUnreadable as error:
        note_unreachable(resource=resource, error=ResourceUnreachable(f"{error.message} {error.hint}"))
        return
    except ResourceUnreachable as error:
        note_unreachable(resource=resource, error=error)
        return
    node_reports.write(resource, nodes, known)
    with suppress(ResourceUnreachable):  # the next tick of `observe` notes it
        note_gpu_use(resource)
    if described is not None:
        node_reports.write_facts(resource, described)


def _is_due(resource: Resource) -> bool:
    return resource.facts_at is None or clock.now() - resource.facts_at >= _DESCRIBE_EVERY


def note_contact(*, resource: Resource) -> None:
    """Note that a resource has answered; one that comes back is probed, so that its nodes are ready again."""
    if resource.state == ResourceState.UNREACHABLE:
        probe_resource(resource=resource)
    elif resource.last_contact_at is None or clock.now() - resource.last_contact_at > _CONTACT_STEP:
        node_reports.write_contact(resource)


def note_unreachable(*, resource: Resource, error: ResourceUnreachable) -> None:
    """Note that a resource does not answer, and why."""
    if resource.state != ResourceState.UNREACHABLE or resource.error != error.message:
        resource.state, resource.error = ResourceState.UNREACHABLE, error.message
        # Both in one statement: whoever reads that it is away reads why.
        values = {"state": resource.state, "error": resource.error}
        row = Resource.objects.filter(pk=resource.pk)
        if row.exclude(state=ResourceState.UNREACHABLE).update(**values):
            audit.record(Actor.system("asks compute resources for their nodes"), LOST, resource, error=error.message)
        else:
            row.update(**values)
        log.warning("resource.unreachable", resource=resource.name, error=error.message)
        resource_nodes.mark_unreachable(resource_id=resource.pk)


def note_gpu_use(resource: Resource) -> None:
    """Note what the running jobs of a resource use of their GPUs now. Raises ResourceUnreachable."""
    driver = drivers.driver_of(resource)
    if not isinstance(driver, MeasuresGpus):
        return
    running = Job.objects.filter(resource=resource, is_live=True, state=JobState.RUNNING)
    # Who asks for a slice asks for no number of GPUs.
    jobs = list(running.filter(Q(gpu_milli__gt=0) | ~Q(slices=[])).only("name", "evictions").order_by("pk"))
    readings = driver.measure_gpus() if jobs else {}
    measured = [(job, readings[job.run_name]) for job in jobs if job.run_name in readings]
    isolation.for_each(failures.NOTE_GPU_USE, measured, lambda pair: _note_gpu_use(*pair), key=lambda pair: pair[0].pk)


@transaction.atomic
def _note_gpu_use(job: Job, reading: GpuReading) -> None:
    row, _ = JobGpuUse.objects.select_for_update().get_or_create(job=job)
    newest = Reading(clock.now().timestamp(), reading.percent, reading.memory_used_bytes)
    row.readings = gpu_history.append([Reading(*each) for each in row.readings], newest)
    row.save(update_fields=["readings"])
