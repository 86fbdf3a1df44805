"""A host, cluster or SSH host that does not come back is given up: its jobs end, and its cache sites are removed.

What lay in the folders of a host alone is noted as lost. A cluster that was detached before may have left cache sites,
which nothing can fill or clear any more.
"""

from dataclasses import dataclass

from django.db import transaction
from django.db.models import QuerySet

from accounts import audit
from accounts.permissions import Actor, require_site_admin
from compute.engine.states import IDLE
from compute.errors import HostIsPresent, ResourceIsPresent, ResourceNotFound
from compute.models import Job, Resource, ResourceSite
from compute.services import losses
from compute.services.losses import JobLoss
from compute.services.submissions import HOLDER
from core import clock, hosts
from core.hosts import Host
from core.units import count_of, format_bytes
from datasets.selectors import caches
from datasets.services import cache_sites
from datasets.services.cache_sites import LostSite


@dataclass(frozen=True)
class HostLoss:
    """What ends with a host."""

    host: Host
    resources: tuple[str, ...]
    jobs: JobLoss
    sites: tuple[LostSite, ...]


def describe_host_loss(*, actor: Actor, host: str) -> HostLoss:
    """Return what giving up a host, by name or id, would end.

    Raises InvalidInput when there is no single host of that name, and HostIsPresent.
    """
    require_site_admin(actor, "give up hosts")
    lost = hosts.get_host(host)
    if not lost.is_away or hosts.is_here(lost.id):
        raise HostIsPresent(f"The host {lost.name} is not away: a controller reports from there.")
    return HostLoss(
        host=lost,
        resources=tuple(_attached_to(lost.id).values_list("name", flat=True)),
        jobs=losses.count_loss(Job.objects.filter(resource__host=lost.id)),
        sites=cache_sites.list_lost_sites(actor=actor, host=lost.id),
    )


@transaction.atomic
def give_up_host(*, actor: Actor, host: str) -> HostLoss:
    """End the jobs of a host that is away, detach its resources and remove its cache sites; return what ended.

    Jobs that ran are lost, and those that waited fail; both are failures of the infrastructure. Raises what
    `describe_host_loss` raises; then nothing changes.
    """
    loss = describe_host_loss(actor=actor, host=host)
    now = clock.now()
    for resource in _attached_to(loss.host.id).select_for_update():
        losses.end_jobs(Job.objects.filter(resource=resource), f"The host {loss.host.name} was given up.", now)
        losses.detach(resource, now)
        audit.record(actor, "compute.give_up_host", resource, host=loss.host.id)
    losses.forget_files(Job.objects.filter(resource__host=loss.host.id), now)
    ResourceSite.objects.filter(site__in=[site.name for site in loss.sites]).delete()
    cache_sites.remove_lost_sites(actor=actor, host=loss.host.id)
    hosts.forget(loss.host.id)
    return loss


def _attached_to(host: str) -> QuerySet[Resource]:
    return Resource.objects.filter(host=host, detached_at=None).order_by("pk")


@dataclass(frozen=True)
class ResourceLoss:
    """What ends with a resource. `waiting_elsewhere` are jobs of others that wait to read its cache sites."""

    resource: Resource
    jobs: losses.JobLoss
    waiting_elsewhere: int
    sites: tuple[LostSite, ...]
    templates: tuple[str, ...] = ()

    @property
    def effects(self) -> list[str]:
        """Say what becomes of what there is, in sentences."""
        jobs = self.jobs
        counts = [
            (jobs.started, "started job", "lost"),
            (jobs.pending, "job", "failed, as it waits there" if jobs.pending == 1 else "failed, as they wait there"),
            (self.waiting_elsewhere, "job", "failed, which waits elsewhere for what is cached there"),
            (jobs.logs, "log", "cut off where the store has no more of it"),
            (jobs.outputs, "output", "lost, as the store does not have it"),
            (len(self.templates), "template", f"gone: {', '.join(self.templates)}"),
        ]
        lines = [f"{count_of(count, noun)}: {end}." for count, noun, end in counts if count]
        for site in self.sites:
            copies = f"{site.copies:,} {'copy' if site.copies == 1 else 'copies'} ({format_bytes(site.size_bytes)})"
            lines.append(f"The cache site {site.name} with {copies}: removed. {site.left}")
            if site.only_bytes:
                lines.append(f"{format_bytes(site.only_bytes)} of datasets: lost, as they lie only on {site.name}.")
        return lines


def describe_resource_loss(*, actor: Actor, name: str) -> ResourceLoss:
    """Return what giving up a resource would end; of detached ones the last that has cache sites left.

    Raises ResourceNotFound, and ResourceIsPresent for one that answers, or is away with its host.
    """
    require_site_admin(actor, "give up compute resources")
    resource = _find_resource(actor, name)
    if hosts.is_away(resource.host):
        raise ResourceIsPresent(f"{name} is on a host that is away: give that up, by `manage.py give_up_host`.")
    if resource.detached_at is None and not resource.is_lost:
        raise ResourceIsPresent(f"{name} answers: it is not lost.")
    sites = cache_sites.list_lost_sites(actor=actor, cluster=resource.pk)
    jobs = Job.objects.filter(resource=resource)
    templates = resource.templates.order_by("pk") if resource.detached_at is None else ()
    return ResourceLoss(
        resource,
        losses.count_loss(jobs),
        _waiting_for(sites).exclude(resource=resource).count(),
        sites,
        tuple(template.full_name for template in templates),
    )


@transaction.atomic
def give_up_resource(*, actor: Actor, name: str) -> ResourceLoss:
    """End the jobs of a resource that is away, detach it and remove its cache sites; return what ended.

    Jobs that ran are lost, and those that waited fail, also elsewhere where they wait to read these sites; all are
    failures of the infrastructure. Raises what `describe_resource_loss` raises; then nothing changes.
    """
    loss = describe_resource_loss(actor=actor, name=name)
    now = clock.now()
    losses.end_jobs(Job.objects.filter(resource=loss.resource), f"{name} was given up.", now)
    losses.end_jobs(_waiting_for(loss.sites), f"{name} was given up, where what it reads was cached.", now)
    losses.forget_files(Job.objects.filter(resource=loss.resource), now)
    if loss.resource.detached_at is None:
        losses.detach(loss.resource, now)
    audit.record(actor, "compute.give_up_resource", loss.resource)
    ResourceSite.objects.filter(site__in=[site.name for site in loss.sites]).delete()
    cache_sites.remove_lost_sites(actor=actor, cluster=loss.resource.pk)
    return loss


def _find_resource(actor: Actor, name: str) -> Resource:
    known = Resource.objects.filter(name=name)
    detached = known.filter(detached_at__isnull=False).order_by("-detached_at")
    left = (each for each in detached if cache_sites.list_lost_sites(actor=actor, cluster=each.pk))
    resource = known.filter(detached_at=None).first() or next(left, None)
    if resource is None:
        raise ResourceNotFound(f"There is no compute resource called '{name}', and none of that name left cache sites.")
    return resource


def _waiting_for(sites: tuple[LostSite, ...]) -> QuerySet[Job]:
    """Return the jobs that hold something on these sites and have not begun to read it."""
    holds = caches.find_holds(prefix=HOLDER).filter(cached_commit__site__name__in=[site.name for site in sites])
    ids = {holder.removeprefix(HOLDER) for holder in holds.values_list("holder", flat=True)}
    return Job.objects.filter(pk__in=ids, is_live=True, state__in=sorted(IDLE), parts_running=0)
