"""A host that does not come back is given up: its jobs end, and what lay in its folders alone is noted as lost."""

from dataclasses import dataclass

from django.db import transaction
from django.db.models import QuerySet

from accounts import audit
from accounts.actor import Actor
from accounts.permissions import require_site_admin
from compute.errors import HostIsPresent
from compute.models import Job, Resource, ResourceSite
from compute.services import losses
from compute.services.losses import JobLoss
from core import clock, hosts
from core.hosts import Host
from datasets.services import cache_sites
from datasets.services.cache_sites import LostSite


@dataclass(frozen=True)
class HostLoss:
    """What ends with a host."""

    host: Host
    resources: tuple[str, ...]
    jobs: JobLoss
    sites: tuple[LostSite, ...]


def describe_loss(*, actor: Actor, host: str) -> HostLoss:
    """Return what giving up a host, by name or id, would end.

    Raises InvalidInput when there is no single host of that name, and HostIsPresent.
    """
    require_site_admin(actor, "give up hosts")
    lost = hosts.get_host(host)
    if not lost.is_away or hosts.is_here(lost.id):
        raise HostIsPresent(f"The host {lost.name} is not away: a controller reports from there.")
    return HostLoss(
        host=lost,
        resources=tuple(_attached(lost.id).values_list("name", flat=True)),
        jobs=losses.count_loss(Job.objects.filter(resource__host=lost.id)),
        sites=cache_sites.list_lost_sites(actor=actor, host=lost.id),
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
        losses.end_jobs(Job.objects.filter(resource=resource), f"The host {loss.host.name} was given up.", now)
        losses.detach(resource, now)
        audit.record(actor, "compute.give_up_host", resource, host=loss.host.id)
    losses.forget_files(Job.objects.filter(resource__host=loss.host.id), now)
    ResourceSite.objects.filter(site__in=[site.name for site in loss.sites]).delete()
    cache_sites.remove_lost_sites(actor=actor, host=loss.host.id)
    hosts.forget(loss.host.id)
    return loss


def _attached(host: str) -> QuerySet[Resource]:
    return Resource.objects.filter(host=host, detached_at=None).order_by("pk")
