"""Resources are attached, probed and detached; their nodes are reported to the scheduler."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from django.db import IntegrityError, transaction

from accounts import audit
from accounts.permissions import Actor, require_site_admin
from accounts.services.projects import check_name
from compute.adapters import drivers
from compute.adapters.kinds import Config, ConfigForm, Credentials
from compute.adapters.local.machine import describe_machine
from compute.engine.ports import ClusterFacts, DescribesCluster, NodeFacts
from compute.errors import (
    InvalidResource,
    OtherCluster,
    ResourceChanged,
    ResourceExists,
    ResourceInUse,
    ResourceNotFound,
)
from compute.models import Job, Resource, ResourceSite
from compute.selectors import resources as resource_selectors
from compute.services import node_reports, templates
from compute.services.templates import Shape
from core import clock, hosts
from core.units import ONE_GPU
from datasets.errors import InvalidCacheSite
from datasets.selectors import caches as cache_selectors
from datasets.services import cache_sites
from datasets.services.cache_sites import Share
from scheduler.selectors import nodes as node_selectors
from scheduler.services import nodes, resource_nodes

GIB = 2**30
_NONE: Mapping[str, Any] = MappingProxyType({})
LOCAL_CACHE_SITE = "local"
THIS_CLUSTER = "this-cluster"
_CLUSTER_SHAPES = {
    "small": Shape(1000, GIB),
    "medium": Shape(2000, 4 * GIB),
    "gpu-1": Shape(4000, 32 * GIB, ONE_GPU),
}
_LAB_NODE = {
    "cpu_millicores": 40_000,
    "memory_bytes": 512 * GIB,
    "gpus": 8,
    "gpu_model": "Tesla V100-SXM2-32GB",
    "gpu_memory_bytes": 32 * GIB,
}
_LAB = [{"name": f"lab-{number}", **_LAB_NODE} for number in (1, 2)]
_LAB_SHAPES = {
    "gpu-half": Shape(2000, 16 * GIB, ONE_GPU // 2),
    "gpu-1": Shape(4000, 32 * GIB, ONE_GPU),
    "gpu-8": Shape(32_000, 256 * GIB, 8000),
}


def ensure_first_resources(*, actor: Actor, has_machine: bool = True) -> None:
    """Register this machine and the simulated lab, on the first start only: what an admin detached stays away."""
    if not Resource.objects.exists():
        with transaction.atomic():
            if has_machine:
                machine = _create(actor, "this-machine", "local", {}, host=hosts.this_host())
                _create_templates(actor, machine, _shapes_of(describe_machine()))
            lab = _create(actor, "lab", "simulated", {"nodes": _LAB})
            _create_templates(actor, lab, _LAB_SHAPES)


def read_this_cluster(*, actor: Actor, fields: Mapping[str, str]) -> Config:
    """Return the config of the cluster whose pod this is, from fields of its kind's form. Raises InvalidResource."""
    require_attach(actor=actor)
    kind = drivers.get_kind("kubernetes")
    return _read_fields(kind.name, kind.form, {**fields, "own_account": "true"}).read_config(THIS_CLUSTER)


def keep_this_cluster(*, actor: Actor, fields: Mapping[str, str]) -> None:
    """Attach the cluster whose pod this is, or give it other settings; once detached by an admin it stays away.

    With a storage class it has a cache site, as soon as the cluster answers. Whether it does is found out by the next
    probe. Raises InvalidResource where the settings cannot be taken.
    """
    config = read_this_cluster(actor=actor, fields=fields)
    with transaction.atomic():
        known = Resource.objects.filter(name=THIS_CLUSTER).order_by("pk").last()
        if known is None:
            try:
                known = _create(actor, THIS_CLUSTER, "kubernetes", config)
            except ResourceExists:  # another process was quicker
                return
            _create_templates(actor, known, _CLUSTER_SHAPES)
        elif known.config != config and known.config.get("own_account"):
            known.config, known.credentials = config, drivers.encrypt_anew(bytes(known.credentials))
            known.save(update_fields=["config", "credentials"])
            audit.record(actor, "compute.set_config", known)
    if known.detached_at is None and known.config.get("own_account"):
        _keep_own_site(actor, known)


def _keep_own_site(actor: Actor, resource: Resource) -> None:
    """Give a cluster the cache site of its storage class, or other settings to the one that it has.

    Raises what `plan_site` raises.
    """
    own = drivers.get_kind(resource.kind).site_of(resource)
    if own is None:
        return
    site = next(iter(cache_selectors.find_sites([resource.name])), None)
    if site is None or site.config != {**site.config, **own.config}:
        site = cache_sites.plan_site(actor=actor, name=resource.name, kind=own.kind, root=own.root, config=own.config)
        with transaction.atomic():
            cache_sites.save_site(actor=actor, site=site)
            if resource.name not in resource.sites:
                _link_sites(actor, resource, [resource.name, *resource.sites], [])


def require_attach(*, actor: Actor) -> None:
    """Raise PermissionDenied unless the actor may attach resources."""
    require_site_admin(actor, "attach compute resources")


def attach_resource(
    *,
    actor: Actor,
    name: str,
    kind: str,
    config: Config = _NONE,
    credentials: Credentials = _NONE,
    sites: Sequence[str] = (),
    host: str = "",
) -> Resource:
    """Add a resource once it has answered. `config` is what its kind asks for; `credentials` are kept encrypted.

    A machine of another `host` than this answers to its own controller, after it is added. Without a name it is the
    only host there is.

    `sites` are the cache sites whose copies its jobs can read, the nearest first; without them this machine reads the
    local one. A storage class is tried first, unless the config has `skip_storage_probe`, which may take minutes.

    Raises ResourceExists, InvalidResource, StorageUnfit, CacheSiteNotFound, ResourceUnreachable, and OtherCluster where
    copies lie on another one that had the name before; then nothing is kept.
    """
    require_attach(actor=actor)
    check_name(name)
    drivers.get_kind(kind).check(config, credentials)
    resource = _plan(name, kind, config, credentials, host=host)
    with drivers.reachable(resource):
        resource.facts = _probe_storage(actor, resource)
        own = drivers.get_kind(kind).site_of(resource)
        own_site = None
        if own is not None:
            config = {**own.config, **_settled_by_probe(resource)}
            own_site = cache_sites.plan_site(actor=actor, name=name, kind=own.kind, root=own.root, config=config)
        shares = _find_shares(actor, resource, sites)
        driver = drivers.driver_of(resource)
        nodes = driver.probe() if hosts.is_here(resource.host) else None
        if nodes is not None and not nodes:
            raise InvalidResource(f"{name} answers, but has no nodes.")
        cluster = driver.describe() if isinstance(driver, DescribesCluster) else None
        if own_site is not None and cluster is not None:
            _require_no_copies_elsewhere(actor, name, cluster)
        with transaction.atomic():
            _insert(actor, resource)
            if cluster is not None:
                node_reports.write_facts(resource, cluster)
            if own_site is not None:
                cache_sites.save_site(actor=actor, site=own_site)
                sites = [name, *sites]
            if sites:
                _link_sites(actor, resource, sites, shares)
            if nodes is not None:
                node_reports.write(resource, nodes)
    return resource


def _require_free(resource: Resource) -> None:
    """Raise ResourceExists where its name is taken, or it would be a host's machine once more."""
    attached = Resource.objects.filter(detached_at=None)
    if attached.filter(name=resource.name).exists():
        raise _name_taken(resource)
    kind = drivers.get_kind(resource.kind)
    if kind.has_host(resource.config):
        rivals = attached.filter(kind=kind.name, host__in=(hosts.ANY, resource.host))
        if other := next((row for row in rivals if kind.has_host(row.config)), None):
            raise ResourceExists(f"This machine is attached already, as '{other.name}'.", field="kind")


def _name_taken(resource: Resource) -> ResourceExists:
    return ResourceExists(f"There is a compute resource called '{resource.name}' already.")


def _require_no_copies_elsewhere(actor: Actor, name: str, cluster: ClusterFacts) -> None:
    """Raise OtherCluster where the cache site of this name has copies on another cluster, which had the name before."""
    for site in cache_selectors.find_sites([name]):
        earlier = Resource.objects.filter(pk=site.cluster).first()
        if earlier is None or not resource_selectors.is_other_cluster(earlier, cluster):
            continue
        lost = cache_sites.list_lost_sites(actor=actor, cluster=earlier.pk)
        if any(each.copies for each in lost if each.name == name):
            raise OtherCluster(
                f"The cache site {name} has copies on another cluster or namespace, which had this name before. "
                f"If it never comes back, give it up: `nearline compute give-up {name}`."
            )


def _probe_storage(actor: Actor, resource: Resource) -> dict[str, Any]:
    """Return how long each step of trying a storage class took, and when it was; nothing where there is none to try."""
    site = drivers.get_kind(resource.kind).site_of(resource)
    if site is None or "storage_class" not in site.config or resource.config.get("skip_storage_probe"):
        return {}
    connection = drivers.connection_by(drivers.driver_of(resource), resource)
    storage_class = str(site.config["storage_class"])
    steps = cache_sites.probe_storage(actor=actor, connection=connection, storage_class=storage_class)
    report = {"storage_class": storage_class, "at": clock.now().isoformat(), "steps": [asdict(step) for step in steps]}
    return {"storage_probe": report}


def _settled_by_probe(resource: Resource) -> dict[str, Any]:
    """Return the settings of its own site that the trial of its storage class decides."""
    steps = resource.facts.get("storage_probe", {}).get("steps", ())
    return {"clones": False} if any(step["refusal"] for step in steps) else {}


def attach_by_fields(
    *, actor: Actor, name: str, kind: str, fields: Mapping[str, str], sites: Sequence[str] = ()
) -> Resource:
    """Add a resource as the form of its kind asks for it. Raises what `attach_resource` raises."""
    require_attach(actor=actor)
    form = _read_fields(kind, drivers.get_kind(kind).form, fields)
    return attach_resource(
        actor=actor,
        name=name,
        kind=kind,
        config=form.read_config(name),
        credentials=form.read_credentials(),
        sites=sites,
    )


def set_sites(*, actor: Actor, resource: Resource, sites: Sequence[str]) -> Resource:
    """Set the cache sites whose copies jobs of a resource can read, the nearest first. What jobs hold stays held.

    A site on volumes of the same cluster may be that of another namespace, where Trident can share them.

    Raises InvalidResource, CacheSiteNotFound, ResourceUnreachable, CacheSiteUnavailable and, for one that was detached
    meanwhile, ResourceNotFound; then nothing changes.
    """
    require_site_admin(actor, "choose the cache sites of compute resources")
    shares = _find_shares(actor, resource, sites)
    with transaction.atomic():
        resource = _lock(resource)
        _link_sites(actor, resource, sites, shares)
        audit.record(actor, "compute.set_sites", resource, sites=list(sites))
    return resource


def replace_credentials(*, actor: Actor, resource: Resource, credentials: Credentials) -> None:
    """Store other credentials for a resource once it has answered with them. Jobs that run go on.

    What a cluster tells of itself is read anew with them: the account may do more, or less, than the one before.

    Raises InvalidResource, ResourceUnreachable, ResourceChanged, OtherCluster and, for one that was detached meanwhile,
    ResourceNotFound; then the old ones stay.
    """
    require_site_admin(actor, "replace the credentials of compute resources")
    drivers.get_kind(resource.kind).check(resource.config, credentials)
    driver = drivers.open_driver(resource, credentials)
    driver.probe()
    cluster = driver.describe() if isinstance(driver, DescribesCluster) else None
    if cluster is not None and resource_selectors.is_other_cluster(resource, cluster):
        raise OtherCluster(
            f"These credentials are of another cluster than {resource.name}, or of another namespace there: its jobs "
            "would count as lost, and its copies as gone."
        )
    with transaction.atomic():
        resource = _lock_unchanged(resource)
        resource.credentials = drivers.encrypt(credentials)
        resource.save(update_fields=["credentials"])
        if cluster is not None:
            node_reports.write_facts(resource, cluster)
        audit.record(actor, "compute.replace_credentials", resource)


def change_settings(*, actor: Actor, resource: Resource, fields: Mapping[str, str]) -> Resource:
    """Change settings by the names of the form's fields, once the resource takes them. What is left out stays.

    They count for what starts from then on: pods that run keep their image.
    Raises InvalidResource, ResourceUnreachable, ResourceChanged and, for one that was detached meanwhile,
    ResourceNotFound; then nothing changes.
    """
    require_site_admin(actor, "change the settings of compute resources")
    names = resource_selectors.list_changeable(resource)
    if not (names or fields):
        raise InvalidResource(f"No setting of {resource.name} can be changed.")
    if unknown := sorted(fields.keys() - set(names)):
        there = f"There are: {', '.join(names)}." if names else "None can."
        chart = " They come with the values of Nearline's chart." * bool(resource.config.get("own_account"))
        raise InvalidResource(f"{resource.name} has no setting '{unknown[0]}' that can be changed. {there}{chart}")
    kind = drivers.get_kind(resource.kind)
    changes = _read_fields(kind.name, kind.form.of_fields(fields), fields).cleaned_data
    kind.check(_changed(resource.config, changes), drivers.decrypt(bytes(resource.credentials)))
    with transaction.atomic():
        resource = _lock_unchanged(resource)
        resource.config = _changed(resource.config, changes)
        resource.credentials = drivers.encrypt_anew(bytes(resource.credentials))
        resource.save(update_fields=["config", "credentials"])
        audit.record(actor, "compute.set_config", resource, **changes)
    return resource


def _changed(config: Config, changes: Config) -> dict[str, Any]:
    return {name: value for name, value in {**config, **changes}.items() if value or name not in changes}


def change_resource(
    *,
    actor: Actor,
    resource: Resource,
    settings: Mapping[str, str] | None = None,
    credentials: Mapping[str, str] | None = None,
    sites: Sequence[str] | None = None,
    is_drained: bool | None = None,
) -> Resource:
    """Change what is given, in this order; `settings` and `credentials` by the names of the form's fields.

    Raises what `change_settings`, `replace_credentials` and `set_sites` raise; what comes before stays changed.
    """
    require_site_admin(actor, "change compute resources")
    if settings is not None:
        resource = change_settings(actor=actor, resource=resource, fields=settings)
    if credentials is not None:
        asked = drivers.get_kind(resource.kind).form.of_secrets()
        if not asked.base_fields:
            raise InvalidResource(f"A resource of kind {resource.kind} has no credentials.")
        form = _read_fields(resource.kind, asked, credentials)
        replace_credentials(actor=actor, resource=resource, credentials=form.read_credentials())
    if sites is not None:
        resource = set_sites(actor=actor, resource=resource, sites=sites)
    if is_drained is not None:
        drain_resource(actor=actor, resource=resource, is_drained=is_drained)
    return resource


@transaction.atomic
def drain_resource(*, actor: Actor, resource: Resource, is_drained: bool) -> int:
    """Let the nodes that a resource has now take nothing new, or open them again; return how many they are."""
    require_site_admin(actor, "drain compute resources")
    node_rows = list(node_selectors.list_nodes(actor=actor, resource=resource.name))
    for node in sorted(node_rows, key=lambda node: node.pk):
        nodes.set_drained(actor=actor, node=node, is_drained=is_drained)
    return len(node_rows)


@transaction.atomic
def detach_resource(*, actor: Actor, resource: Resource) -> None:
    """Take a resource away; the history of its jobs stays.

    Raises ResourceInUse while jobs wait or run there, and ResourceNotFound for one that was detached meanwhile.
    """
    require_site_admin(actor, "detach compute resources")
    resource = _lock(resource)
    _require_unused(resource)
    resource.detached_at = clock.now()
    resource.save(update_fields=["detached_at"])
    _unshare_sites(actor, resource, resource.sites)
    resource_nodes.report_nodes(
        resource_id=resource.pk, resource_name=resource.name, is_simulated=resource.is_simulated, nodes=[]
    )
    # What was submitted meanwhile may be placed until here. What is submitted from now on has no nodes, and is ended
    # by `workers.stranded`.
    _require_unused(resource)
    audit.record(actor, "compute.detach_resource", resource)


def _require_unused(resource: Resource) -> None:
    """Raise ResourceInUse while jobs wait or run there."""
    live = Job.objects.filter(resource=resource, is_live=True).count()
    if live:
        which = "1 job that has not ended is" if live == 1 else f"{live} jobs that have not ended are"
        lost = f" If it never comes back, give it up: `nearline compute give-up {resource.name}`." * resource.is_lost
        raise ResourceInUse(f"{which} on {resource.name}.{lost}", jobs=live)


def _read_fields(kind: str, asked: type[ConfigForm], fields: Mapping[str, str]) -> ConfigForm:
    """Return the valid form. Raises InvalidResource."""
    form = asked(fields)
    if unknown := sorted(fields.keys() - form.fields.keys()):
        raise InvalidResource(
            f"A resource of kind {kind} has no setting '{unknown[0]}'. There are: {', '.join(form.fields) or 'none'}."
        )
    if not form.is_valid():
        raise InvalidResource(f"The settings cannot be taken. {form.describe_faults()}")
    return form


def _create_templates(actor: Actor, resource: Resource, shapes: Mapping[str, Shape]) -> None:
    for name, shape in shapes.items():
        templates.create_template(actor=actor, resource=resource, name=name, shape=shape)


def _lock(resource: Resource) -> Resource:
    """Return the row, locked until the transaction ends. Raises ResourceNotFound for one that is not attached."""
    locked = Resource.objects.select_for_update().filter(pk=resource.pk, detached_at=None).first()
    if locked is None:
        raise ResourceNotFound(f"{resource.name} was detached meanwhile.")
    return locked


def _lock_unchanged(resource: Resource) -> Resource:
    """Return the row, locked, where settings and credentials are those that new ones were checked with.

    Raises ResourceNotFound, and ResourceChanged: nobody has checked what both changes would make together.
    """
    locked = _lock(resource)
    if _checked_part(locked) != _checked_part(resource):
        raise ResourceChanged(f"Somebody else has changed {resource.name} meanwhile. Nothing of this was stored.")
    return locked


def _checked_part(resource: Resource) -> tuple[str, bytes]:
    # As text: a row that was never read again may hold tuples where the database has lists.
    return json.dumps(resource.config, sort_keys=True), bytes(resource.credentials)


def _create(actor: Actor, name: str, kind: str, config: Config, *, host: str = "") -> Resource:
    resource = _plan(name, kind, config, host=host)
    _insert(actor, resource)
    return resource


def _plan(name: str, kind_name: str, config: Config, credentials: Credentials = _NONE, *, host: str) -> Resource:
    """Return a resource that is not saved yet. Raises ResourceExists and InvalidResource."""
    kind = drivers.get_kind(kind_name)
    resource = Resource(
        name=name,
        kind=kind.name,
        is_simulated=kind.is_simulated,
        config=dict(config),
        credentials=drivers.encrypt(credentials),
        host=hosts.choose(host) if kind.has_host(config) else hosts.ANY,
    )
    _require_free(resource)
    return resource


def _insert(actor: Actor, resource: Resource) -> None:
    """Save a planned resource. Raises ResourceExists where another one was quicker."""
    _require_free(resource)
    try:
        with transaction.atomic():
            resource.save(force_insert=True)
    except IntegrityError as error:
        raise _name_taken(resource) from error
    has_host = drivers.get_kind(resource.kind).has_host(resource.config)
    if has_host and not cache_selectors.is_elsewhere(LOCAL_CACHE_SITE, resource.host):
        ResourceSite.objects.create(resource=resource, site=LOCAL_CACHE_SITE, position=0)
    audit.record(actor, "compute.attach_resource", resource, kind=resource.kind)


def _find_shares(actor: Actor, resource: Resource, sites: Sequence[str]) -> list[Share]:
    """Return which sites of other resources on the same cluster are to be shared with the namespace of this one."""
    shares = []
    for name in sites:
        site = cache_selectors.get_site(actor=actor, name=name)
        if site.cluster not in {"", resource.pk}:
            try:
                shares.append(cache_sites.find_share(actor=actor, site=site, reader=drivers.find_connection(resource)))
            except InvalidCacheSite as error:
                raise InvalidResource(error.message, field="sites") from error
    return list(filter(None, shares))


def _unshare_sites(actor: Actor, resource: Resource, sites: Collection[str]) -> None:
    for site in cache_selectors.find_sites(sorted(sites)):
        cache_sites.unshare_site(actor=actor, site=site, resource=resource.pk)


def _link_sites(actor: Actor, resource: Resource, sites: Sequence[str], shares: Sequence[Share]) -> None:
    if len(set(sites)) < len(sites):
        raise InvalidResource("A cache site is named twice.", field="sites")
    for name in sites:
        site = cache_selectors.get_site(actor=actor, name=name)
        if site.is_simulated and not resource.is_simulated:
            raise InvalidResource(
                f"The cache site {name} does not exist, so jobs that run cannot read it.", field="sites"
            )
    for share in shares:
        cache_sites.share_site(actor=actor, share=share, resource=resource.pk)
    _unshare_sites(actor, resource, set(resource.sites) - set(sites))
    ResourceSite.objects.filter(resource=resource).delete()
    ResourceSite.objects.bulk_create(
        ResourceSite(resource=resource, site=name, position=position) for position, name in enumerate(sites)
    )


def _shapes_of(machine: NodeFacts) -> Mapping[str, Shape]:
    shapes = {"small": Shape(1000, GIB), "medium": Shape(2000, 4 * GIB)}
    if machine.gpus:
        cpu_millicores = max(1000, machine.cpu_millicores // len(machine.gpus) // 1000 * 1000)
        shapes["gpu"] = Shape(min(cpu_millicores, 8000), min(32 * GIB, machine.memory_bytes // 2), ONE_GPU)
    return shapes
