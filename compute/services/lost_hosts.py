"""A host that does not come back is given up: its jobs end, and what lay in its folders alone is noted as lost."""

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from accounts import audit
from accounts.actor import Actor
from accounts.permissions import require_site_admin
from compute.engine.states import IDLE, JobState, ReasonCode
from compute.errors import HostIsPresent
from compute.models import Job, OutputState, Resource, ResourceSite
from compute.services import journal
from core import clock, hosts
from core.hosts import Host
from datasets.services import lost_sites
from datasets.services.lost_sites import LostSite
from scheduler.services import resource_nodes


@dataclass(frozen=True)
class HostLoss:
    """What ends with a host. `logs` and `outputs` are those of jobs that the store does not hold, or not all of."""

    host: Host
    resources: tuple[str, ...]
    pending_jobs: int
    started_jobs: int
    logs: int
    outputs: int
    sites: tuple[LostSite, ...]


def describe_loss(*, actor: Actor, host: str) -> HostLoss:
    """Return what giving up a host, by name or id, would end.

    Raises InvalidInput when there is no single host of that name, and HostIsPresent.
    """
    require_site_admin(actor, "give up hosts")
    lost = hosts.get_host(host)
    if not lost.is_away or hosts.is_here(lost.id):
        raise HostIsPresent(f"The host {lost.name} is not away: a controller reports from there.")
    jobs = Job.objects.filter(resource__host=lost.id)
    started = jobs.exclude(state__in=sorted(IDLE))
    unstored = started.filter(state=JobState.SUCCEEDED, files_deleted_at=None).exclude(output_state=OutputState.STORED)
    return HostLoss(
        host=lost,
        resources=tuple(_attached(lost.id).values_list("name", flat=True)),
        pending_jobs=jobs.filter(state__in=sorted(IDLE)).count(),
        started_jobs=started.filter(is_live=True).count(),
        logs=started.filter(log_stored_at=None).count(),
        outputs=unstored.count(),
        sites=lost_sites.list_sites(actor=actor, host=lost.id),
    )


@transaction.atomic
def give_up_host(*, actor: Actor, host: str) -> HostLoss:
    """End the jobs of a host that is away, detach its resources and remove its cache sites; return what ended.

    Jobs that ran are lost, and those that waited fail; both are failures of the infrastructure. Raises what
    `describe_loss` raises; then nothing changes.
    """
    loss = describe_loss(actor=actor, host=host)
    now = clock.now()
    for resource in _attached(loss.host.id).select_for_update():
        _end_jobs(resource, f"The host {loss.host.name} was given up.", now)
        resource.detached_at = now
        resource.save(update_fields=["detached_at"])
        resource_nodes.report_nodes(
            resource_id=resource.pk, resource_name=resource.name, is_simulated=resource.is_simulated, nodes=[]
        )
        audit.record(actor, "compute.give_up_host", resource, host=loss.host.id)
    jobs = Job.objects.filter(resource__host=loss.host.id)
    jobs.filter(log_stored_at=None).update(log_stored_at=now)
    jobs.filter(files_deleted_at=None).update(files_deleted_at=now)
    ResourceSite.objects.filter(site__in=[site.name for site in loss.sites]).delete()
    lost_sites.remove_sites(actor=actor, host=loss.host.id)
    hosts.forget(loss.host.id)
    return loss


def _attached(host: str) -> QuerySet[Resource]:
    return Resource.objects.filter(host=host, detached_at=None).order_by("pk")


def _end_jobs(resource: Resource, reason: str, now: datetime) -> None:
    live = Job.objects.filter(resource=resource, is_live=True).values_list("pk", flat=True)
    ending = {"reason_code": ReasonCode.INFRASTRUCTURE, "reason": reason}
    steps = [
        journal.Step(
            job.pk,
            job.token,
            JobState.FAILED if job.state in IDLE else JobState.LOST,
            reason,
            ending,
            {"finished_at": now},
        )
        for job in journal.lock_jobs(list(live))
    ]
    journal.record_steps(steps, now=now)
