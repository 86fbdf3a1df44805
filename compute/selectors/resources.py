"""Reads about resources. Every signed-in person may see them: they are what jobs can be sent to."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db.models import QuerySet

from accounts.actor import Actor
from compute.adapters import drivers
from compute.adapters.kinds import ResourceKind
from compute.engine.job_spec import SourceKind
from compute.engine.states import IDLE
from compute.errors import ResourceNotFound
from compute.models import Job, Resource, ResourceSite, ResourceState
from core import hosts, tasks
from core.prepared import prepared
from datasets.selectors import caches

_SOURCES = {"volume": SourceKind.VOLUME, "nfs": SourceKind.NFS_EXPORT, "ssh": SourceKind.REMOTE_FOLDER}
"""What jobs mount of sites of these kinds; of the others it is a folder of a host."""


def list_resources(*, actor: Actor) -> QuerySet[Resource]:  # noqa: ARG001 (every actor sees all)
    """Return the attached resources by name, with their templates and sites at hand."""
    return Resource.objects.filter(detached_at=None).prefetch_related("templates", "site_links").order_by("name")


def get_resource(*, actor: Actor, name: str) -> Resource:
    """Return an attached resource. Raises ResourceNotFound."""
    resource = list_resources(actor=actor).filter(name=name).first()
    if resource is None:
        raise ResourceNotFound(f"There is no compute resource called '{name}'.")
    return resource


def count_live_jobs(resource: Resource) -> Mapping[str, int]:
    """Return how many jobs run on a resource (`running`) and wait for it (`pending`, suspended ones too)."""
    live = Job.objects.filter(resource=resource, is_live=True)
    pending = live.filter(state__in=sorted(IDLE)).count()
    return {"pending": pending, "running": live.count() - pending}


def list_readers(sites: Collection[str]) -> dict[str, list[str]]:
    """Return, by cache site, the names of the attached resources whose jobs read it. Everybody may see them."""
    links = ResourceSite.objects.filter(site__in=sites, resource__detached_at=None).order_by("resource__name")
    readers: dict[str, list[str]] = {site: [] for site in sites}
    for site, resource in links.values_list("site", "resource__name"):
        readers[site].append(resource)
    return readers


def list_detached_owners(sites: Collection[str]) -> dict[str, str]:
    """Return, by cache site, the name of the cluster or host that the site is on, where that is detached."""
    clusters = {site.name: site.cluster for site in caches.find_sites(sites) if site.cluster}
    detached = Resource.objects.filter(pk__in=clusters.values(), detached_at__isnull=False)
    names = dict(detached.values_list("pk", "name"))
    return {site: names[cluster] for site, cluster in clusters.items() if cluster in names}


def list_faults() -> Mapping[str, str]:
    """Return why attached resources do not answer, by the names of those that do not. Everybody may see them."""
    away = Resource.objects.filter(detached_at=None, state=ResourceState.UNREACHABLE)
    return dict(away.values_list("name", "error"))


def list_readable_sites(resource: Resource, mountable: Collection[SourceKind] | None = None) -> list[Any]:
    """Return the cache sites of a resource whose copies its jobs can mount, the nearest first.

    `mountable` is what its driver mounts; None: what its kind does. For the platform itself.
    """
    if mountable is None:
        mountable = drivers.get_kind(resource.kind).mountable_on(resource.host)
    names = resource.sites
    rows = caches.find_sites(names) if names else ()
    readable = [row for row in rows if _source_of(row) in mountable]
    return sorted(readable, key=lambda row: names.index(row.name))


def _source_of(site: Any) -> SourceKind:
    if site.kind == "existing":
        return SourceKind.VOLUME if site.config.get("claim") else SourceKind.NFS_EXPORT
    return _SOURCES.get(site.kind, SourceKind.HOST_FOLDER)


def find_recently(resource_id: str) -> Resource | None:
    """Return a resource, in a hand-over as it was within the last second. For the platform itself."""
    return tasks.recently(("resource", resource_id), lambda: next(iter(_with_id(resource_id)), None))


@prepared
def _with_id(resource_id: str) -> QuerySet[Resource]:
    return Resource.objects.filter(pk=resource_id).defer("config", "facts")


def list_changeable(resource: Resource) -> Sequence[str]:
    """Return the names of the settings of a resource that can be changed."""
    return drivers.get_kind(resource.kind).changeable(resource.config)


def list_kinds() -> Collection[ResourceKind]:
    """Return the kinds of resources that can be attached."""
    return drivers.KINDS.values()


def explain_kind(resource: Resource) -> str:
    """Say of which kind a resource is, or that it is on another host, to who asks for what cannot be done here."""
    if hosts.is_here(resource.host):
        return f"{resource.name} is of kind {resource.kind}"
    return f"{resource.name} is on the host {hosts.name_of(resource.host)}, and this is another one"
