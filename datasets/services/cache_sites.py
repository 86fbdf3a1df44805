"""Cache sites: made, changed, and the one that exists from the first start on."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction

from accounts import audit
from accounts.actor import Actor
from accounts.permissions import require_site_admin
from accounts.services.projects import check_name
from core import hosts
from datasets.adapters.sites.registry import get_kind, open_site
from datasets.adapters.sites.volume import shares
from datasets.adapters.sites.volume.kind import connection_of, open_driver, read_class
from datasets.adapters.sites.volume.probe import StorageProbe
from datasets.engine.cache_ports import ProbeStep
from datasets.engine.cache_states import LIVE
from datasets.engine.volumes import SHARED, is_pool
from datasets.errors import CacheSiteExists, InvalidCacheSite
from datasets.models import CachedCommit, CacheSite, CacheSiteKind
from datasets.selectors.caches import LOCAL_SITE


def ensure_default_site(*, actor: Actor) -> CacheSite:
    """Return the site `local` in the home folder, made at the first start."""
    site = CacheSite.objects.filter(name=LOCAL_SITE).first()
    if site is not None:
        return site
    try:
        root = settings.NEARLINE.home / "cache"
        return create_site(actor=actor, name=LOCAL_SITE, root=root, host=hosts.this_host())
    except CacheSiteExists:
        return CacheSite.objects.get(name=LOCAL_SITE)


def require_manage(*, actor: Actor) -> None:
    """Raise PermissionDenied unless the actor may add and change cache sites."""
    require_site_admin(actor, "manage cache sites")


def create_site(
    *,
    actor: Actor,
    name: str,
    kind: str = CacheSiteKind.FOLDER,
    root: Path | str = "",
    config: Mapping[str, object] | None = None,
    capacity_bytes: int | None = None,
    idle_days: float = 1,
    host: str = "",
) -> CacheSite:
    """Make a cache site, once it has answered. `root` is for sites in a folder, which is made too; `config` for others.

    A folder is that of a `host`, given by name or id; without one, of the only host there is. In a folder of another
    host nothing is made or measured before its first copy, so its capacity must be given.

    Without a capacity: four fifths of what is free in a folder, all of a simulated site.
    Raises InvalidName, InvalidCacheSite, CacheSiteExists and CacheSiteUnavailable.
    """
    require_manage(actor=actor)
    check_name(name)
    site_kind = get_kind(kind)
    site = CacheSite(
        name=name, kind=kind, root=str(root), config=dict(config or {}), capacity_bytes=0, idle_days=idle_days
    )
    if site_kind.has_host:
        site.host = hosts.choose(host)
        if capacity_bytes is None and not hosts.is_here(site.host):
            raise InvalidCacheSite("Give the capacity of a folder on another host: only that host sees its disk.")
    site_kind.check(site)
    usage = open_site(site).usage()
    default_bytes = int(usage.free_bytes * site_kind.default_part)
    site.capacity_bytes = default_bytes if capacity_bytes is None else capacity_bytes
    _check_numbers(site)
    try:
        with transaction.atomic():
            site.save(force_insert=True)
            audit.record(actor, "datasets.create_cache_site", site, kind=kind, capacity_bytes=site.capacity_bytes)
    except IntegrityError as error:
        raise CacheSiteExists(f"There is a cache site called '{name}' already.") from error
    return site


def have_site(*, actor: Actor, name: str, kind: str, root: str, config: Mapping[str, object]) -> CacheSite:
    """Return the site of this name and kind that a cluster or host has, made if it is not there.

    One that is there is that of its earlier attachment; its copies are found again. Raises what `create_site` raises.
    """
    require_manage(actor=actor)
    found = CacheSite.objects.filter(name=name, kind=kind).first()
    if found is None:
        return create_site(actor=actor, name=name, kind=kind, root=root, config=config)
    if CachedCommit.objects.filter(site=found, state__in=LIVE).exists():
        if is_pool(found.config) != is_pool(config):
            raise InvalidCacheSite(f"The copies on {name} lie in the other way of sharing volumes. Clear them first.")
        if root and root.rstrip("/") != found.root:
            raise InvalidCacheSite(f"The copies on {name} lie in {found.root}. Give that folder, or clear them first.")
    shared = {key: value for key, value in found.config.items() if key == SHARED}
    found.config, found.root = dict(config), root
    get_kind(found.kind).check(found)
    found.config |= shared
    found.save(update_fields=["config", "root"])
    audit.record(actor, "datasets.move_cache_site", found)
    return found


def probe_storage(*, actor: Actor, connection: Any, storage_class: str) -> Sequence[ProbeStep]:
    """Try a storage class of a cluster with a small claim, and return how long each step took. Nothing is left there.

    `connection` is the cluster's, which need not be attached. Takes seconds, with a slow provisioner minutes. Raises
    StorageUnfit, InvalidCacheSite for a class that is not there, and CacheSiteUnavailable.
    """
    require_manage(actor=actor)
    return StorageProbe(connection, read_class(connection.gateway, storage_class)).run()


def share_site(*, actor: Actor, site: CacheSite, resource: str, reader: Any) -> None:
    """Let jobs of a resource in another namespace of its cluster read a site's copies, by claims that share volumes.

    `reader` is the connection of the resource, which is given by id; None: it is no cluster. In the namespace of the
    site nothing is to be done. Raises InvalidCacheSite and CacheSiteUnavailable.
    """
    require_manage(actor=actor)
    source = connection_of(site) if site.kind == CacheSiteKind.VOLUME else None
    shares.check(site, source, reader)
    if source is None or source.namespace == reader.namespace:
        return
    with transaction.atomic():
        site = CacheSite.objects.select_for_update().get(pk=site.pk)
        site.config["namespace"] = source.namespace
        _set_shared(actor, site, {**site.config.get(SHARED, {}), resource: reader.namespace})
    open_driver(site).settle_shares()


def unshare_site(*, actor: Actor, site: CacheSite, resource: str) -> None:
    """Share claims of a site no more with the namespace of a resource, given by id. What is shared by now stays."""
    require_manage(actor=actor)
    with transaction.atomic():
        site = CacheSite.objects.select_for_update().get(pk=site.pk)
        shared = site.config.get(SHARED, {})
        if resource in shared:
            _set_shared(actor, site, {id_: namespace for id_, namespace in shared.items() if id_ != resource})


def _set_shared(actor: Actor, site: CacheSite, shared: Mapping[str, str]) -> None:
    site.config[SHARED] = shared
    site.save(update_fields=["config"])
    audit.record(actor, "datasets.share_cache_site", site, namespaces=sorted(set(shared.values())))


@transaction.atomic
def update_site(
    *, actor: Actor, site: CacheSite, capacity_bytes: int | None = None, idle_days: float | None = None
) -> CacheSite:
    """Change a site's capacity or idle days; None leaves one as it is.

    A capacity below what is promised evicts nothing by itself, but nothing new fits until enough has left.
    """
    require_manage(actor=actor)
    site = CacheSite.objects.select_for_update().get(pk=site.pk)
    site.capacity_bytes = site.capacity_bytes if capacity_bytes is None else capacity_bytes
    site.idle_days = site.idle_days if idle_days is None else idle_days
    _check_numbers(site)
    site.save(update_fields=["capacity_bytes", "idle_days"])
    audit.record(
        actor, "datasets.update_cache_site", site, capacity_bytes=site.capacity_bytes, idle_days=site.idle_days
    )
    return site


def _check_numbers(site: CacheSite) -> None:
    if site.capacity_bytes < 0 or site.idle_days < 0:
        raise InvalidCacheSite("Capacity and idle days cannot be negative.")
