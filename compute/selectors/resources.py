"""Reads about resources: who may run jobs on them, and what of commits is where these read it.

Every signed-in person may see them: they are what jobs can be sent to. A job that no sandbox keeps from the platform's
files could make itself site admin.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from django.conf import settings
from django.db.models import QuerySet

from accounts.permissions import Actor
from accounts.selectors import is_site_admin
from compute.adapters import drivers
from compute.adapters.kinds import ResourceKind
from compute.engine.job_spec import SourceKind
from compute.engine.ports import ClusterFacts
from compute.engine.states import IDLE
from compute.errors import ResourceNotFound, ResourceUnconfined
from compute.models import Job, Resource, ResourceSite, ResourceState, Template
from core import hosts, tasks
from core.prepared import prepared
from datasets.selectors import caches, locality
from datasets.selectors.locality import DataArrival

_SOURCES = {"volume": SourceKind.VOLUME, "nfs": SourceKind.NFS_EXPORT, "ssh": SourceKind.REMOTE_FOLDER}
"""What jobs mount of sites of these kinds; of the others it is a folder of a host."""
K = TypeVar("K")


def list_resources(*, actor: Actor) -> QuerySet[Resource]:  # noqa: ARG001 (every actor sees all)
    """Return the attached resources by name, with their templates and sites at hand."""
    return Resource.objects.filter(detached_at=None).prefetch_related("templates", "site_links").order_by("name")


def get_resource(*, actor: Actor, name: str) -> Resource:
    """Return an attached resource. Raises ResourceNotFound."""
    resource = list_resources(actor=actor).filter(name=name).first()
    if resource is None:
        raise ResourceNotFound(f"There is no compute resource called '{name}'.")
    return resource


def find_recently(resource_id: str) -> Resource | None:
    """Return a resource, in a hand-over as it was within the last second. For the platform itself."""
    return tasks.recently(("resource", resource_id), lambda: next(iter(_with_id(resource_id)), None))


@prepared
def _with_id(resource_id: str) -> QuerySet[Resource]:
    return Resource.objects.filter(pk=resource_id).defer("config", "facts")


def count_live_jobs(resource: Resource) -> Mapping[str, int]:
    """Return how many jobs run on a resource (`running`) and wait for it (`pending`, suspended ones too)."""
    live = Job.objects.filter(resource=resource, is_live=True)
    pending = live.filter(state__in=sorted(IDLE)).count()
    return {"pending": pending, "running": live.count() - pending}


def list_faults() -> Mapping[str, str]:
    """Return why attached resources do not answer, by the names of those that do not. Everybody may see them."""
    away = Resource.objects.filter(detached_at=None, state=ResourceState.UNREACHABLE)
    return dict(away.values_list("name", "error"))


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


def find_cluster_facts(resource: Resource) -> Mapping[str, Any] | None:
    """Return the `ClusterFacts` of a resource as they were written down; None: there are none."""
    cluster: Mapping[str, Any] | None = resource.facts.get("cluster")
    return cluster


def is_other_cluster(resource: Resource, cluster: ClusterFacts) -> bool:
    """Return whether a cluster, or the namespace there, is another one than a resource was, as far as that is known."""
    known = find_cluster_facts(resource) or {}
    pairs = ((known.get("id"), cluster.id), (known.get("namespace"), cluster.namespace))
    return any(before and now and before != now for before, now in pairs)


def list_cluster_warnings(resource: Resource) -> list[str]:
    """Return, as sentences, what a cluster keeps jobs from, and what its account may not do."""
    cluster = find_cluster_facts(resource) or {}
    return [*cluster.get("warnings", ()), *cluster.get("lacks", ())]


def require_use(*, actor: Actor, resources: Iterable[Resource]) -> None:
    """Raise ResourceUnconfined unless the actor may run jobs on these resources."""
    for resource in resources:
        if not (actor.is_site_admin or _is_open(resource)):
            raise ResourceUnconfined(_refusal(resource), resource=resource.name)


def require_use_of_templates(*, actor: Actor, full_names: Iterable[str]) -> None:
    """Raise ResourceUnconfined unless the actor may run jobs of these templates; unknown ones are ignored.

    Raises ResourceUnconfined.
    """
    shapes = Template.objects.filter(resource__detached_at=None).select_related("resource").order_by("pk")
    names = set(full_names)
    shapes = shapes.filter(name__in={name.partition(".")[2] for name in names})
    require_use(actor=actor, resources=[shape.resource for shape in shapes if shape.full_name in names])


def require_launch(job: Job) -> None:
    """Let a job start if who submitted it may run jobs on its resource, as that is now. Raises ResourceUnconfined."""
    if not (_is_open(job.resource) or is_site_admin(job.submitted_by)):
        raise ResourceUnconfined(_refusal(job.resource), resource=job.resource.name)


def describe_unconfined() -> list[str]:
    """Return for each resource without a sandbox what that means, as a text for the terminal."""
    unconfined = Resource.objects.filter(detached_at=None).exclude(unconfined_reason="").order_by("name")
    who = "The setting NEARLINE_ALLOW_UNCONFINED_JOBS lets everybody" if is_open_to_all() else "Only site admins may"
    return [
        f"Jobs on {resource.name} are not confined: {resource.unconfined_reason}\n"
        f"They can read and change the platform's files. {who} run them."
        for resource in unconfined
    ]


def is_open_to_all() -> bool:
    """Whether this installation lets everybody run jobs that are not confined."""
    return bool(settings.NEARLINE.allow_unconfined_jobs)


def _is_open(resource: Resource) -> bool:
    return not resource.unconfined_reason or is_open_to_all()


def _refusal(resource: Resource) -> str:
    return f"Jobs on {resource.name} are not confined, so only site admins may run them: {resource.unconfined_reason}"


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


def sites_by_resource(resource_ids: Collection[str] | None = None) -> dict[str, list[str]]:
    """Return the cache sites, nearest first, of attached resources that read any; by default of all of them."""
    links = ResourceSite.objects.filter(resource__detached_at=None).order_by("resource", "position")
    if resource_ids is not None:
        links = links.filter(resource__in=resource_ids)
    sites: dict[str, list[str]] = {}
    for resource_id, site in links.values_list("resource_id", "site"):
        sites.setdefault(resource_id, []).append(site)
    return sites


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


def count_missing_bytes(commits_of: Mapping[K, Sequence[str]]) -> dict[K, Mapping[str, int]]:
    """Return, by key, the bytes of these commits that each resource with cache sites lacks, by its id.

    Three queries for any number of keys; none where nobody reads a commit.
    """
    distinct = {key: tuple(dict.fromkeys(commits)) for key, commits in commits_of.items() if commits}
    if not distinct:
        return {}
    located = locality.locate_commits({id_ for commits in distinct.values() for id_ in commits})
    sites = sites_by_resource()
    # Thousands of jobs read the same few commits.
    sums = {
        commits: {
            resource_id: sum(located[id_].missing_bytes(names) for id_ in commits if id_ in located)
            for resource_id, names in sites.items()
        }
        for commits in set(distinct.values())
    }
    return {key: sums[commits] for key, commits in distinct.items()}


def list_arrivals(commit_ids: Sequence[str], resource_ids: Collection[str]) -> dict[str, DataArrival]:
    """Return how far commits are on each of these resources that reads cache sites, by its id; without commits none."""
    if not commit_ids:
        return {}
    sites = sites_by_resource(resource_ids)
    known = locality.read_locality(commit_ids, {site for names in sites.values() for site in names})
    return {resource_id: known.arrival(commit_ids, names) for resource_id, names in sites.items()}
