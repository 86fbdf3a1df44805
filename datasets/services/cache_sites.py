"""Cache sites: made, changed, given up, and the one that exists from the first start on.

The store has every commit that was cached on a site that does not come back, but for what was imported in place from
existing files and not promoted since.
"""

import json
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import QuerySet, Sum

from accounts import audit
from accounts.permissions import Actor, require_site_admin
from accounts.services.projects import check_name
from core import clock, hosts, isolation
from core.encryption import encrypt
from core.tasks import enqueue_on_commit
from core.units import format_bytes
from datasets.adapters.ontap import open_array
from datasets.adapters.sites.folder.copy_folder import make_folder
from datasets.adapters.sites.registry import get_kind, open_site
from datasets.adapters.sites.volume.kind import connection_of, read_class, require_sharing
from datasets.adapters.sites.volume.probe import StorageProbe
from datasets.engine.cache_ports import ProbeStep
from datasets.engine.cache_states import LIVE
from datasets.engine.volumes import SHARED, is_pool
from datasets.errors import CacheSiteExists, CacheSiteUnavailable, InvalidCacheSite
from datasets.models import BYTES_ON_DISK, CachedCommit, CacheSite, CacheSiteKind, Pack, SiteArray, SourceKind
from datasets.selectors import failures
from datasets.selectors.caches import LOCAL_SITE


def ensure_default_site(*, actor: Actor) -> CacheSite:
    """Return the site `local` in the home folder, made at the first start. It follows the home, which may have moved.

    A folder that was removed is made again. One that is there and has not the site's mark stays as it is.
    """
    root = settings.NEARLINE.home / "cache"
    site = CacheSite.objects.filter(name=LOCAL_SITE).first()
    if site is not None:
        if site.kind == CacheSiteKind.FOLDER and hosts.is_here(site.host):
            site.root, site.mark = str(root), site.mark if os.path.lexists(root) else make_folder(root)
            site.save(update_fields=["root", "mark"])
        return site
    try:
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
    site = _plan(name, kind, root, config or {}, capacity_bytes=capacity_bytes, idle_days=idle_days, host=host)
    save_site(actor=actor, site=site)
    return site


def _plan(
    name: str,
    kind: str,
    root: Path | str,
    config: Mapping[str, object],
    *,
    capacity_bytes: int | None = None,
    idle_days: float = 1,
    host: str = "",
) -> CacheSite:
    """Return a site that has answered and is not saved yet. Nothing is made in its folder where its name is taken."""
    if CacheSite.objects.filter(name=name).exists():
        raise _name_taken(name)
    site_kind = get_kind(kind)
    site = CacheSite(name=name, kind=kind, root=str(root), config=dict(config), capacity_bytes=0, idle_days=idle_days)
    if site_kind.has_host:
        site.host = hosts.choose(host)
        if capacity_bytes is None and not hosts.is_here(site.host):
            raise InvalidCacheSite("Give the capacity of a folder on another host: only that host sees its disk.")
    site_kind.check(site)
    usage = open_site(site).usage()
    default_bytes = int(usage.free_bytes * site_kind.default_part)
    site.capacity_bytes = default_bytes if capacity_bytes is None else capacity_bytes
    _check_numbers(site)
    if usage.is_measured:
        _check_size(site, usage.total_bytes)
    return site


def plan_site(*, actor: Actor, name: str, kind: str, root: str, config: Mapping[str, object]) -> CacheSite:
    """Return the site of this name and kind that a cluster or host is to have, once it has answered.

    `save_site` makes it so. One that is there is that of its earlier attachment; its copies are found again. Raises
    what `create_site` raises.
    """
    require_manage(actor=actor)
    site = CacheSite.objects.filter(name=name, kind=kind).first()
    if site is None:
        return _plan(name, kind, root, config)
    _require_place(site, root, config)
    site.config, site.root = dict(config), root
    get_kind(site.kind).check(site)
    return site


@transaction.atomic
def save_site(*, actor: Actor, site: CacheSite) -> None:
    """Keep a site that has answered. Raises CacheSiteExists, and InvalidCacheSite as its copies may have come since."""
    require_manage(actor=actor)
    if not site._state.adding:  # noqa: SLF001 (Django's documented way to tell a new row)
        known = CacheSite.objects.select_for_update().get(pk=site.pk)
        _require_place(known, site.root, site.config)
        own_keys = {SHARED, *_settings_of(site)}
        site.config |= {key: value for key, value in known.config.items() if key in own_keys}
        site.save(update_fields=["config", "root"])
        audit.record(actor, "datasets.move_cache_site", site)
        return
    try:
        with transaction.atomic():
            site.save(force_insert=True)
    except IntegrityError as error:
        raise _name_taken(site.name) from error
    audit.record(actor, "datasets.create_cache_site", site, kind=site.kind, capacity_bytes=site.capacity_bytes)


def _name_taken(name: str) -> CacheSiteExists:
    return CacheSiteExists(f"There is a cache site called '{name}' already.")


def _require_place(site: CacheSite, root: str, config: Mapping[str, object]) -> None:
    """Raise InvalidCacheSite where a site has copies that would not be found with another root or config."""
    if not CachedCommit.objects.filter(site=site, state__in=LIVE).exists():
        return
    if is_pool(site.config) != is_pool(config):
        raise InvalidCacheSite(f"The copies on {site.name} lie in the other way of sharing volumes. Clear them first.")
    if root and root.rstrip("/") != site.root:
        raise InvalidCacheSite(f"The copies on {site.name} lie in {site.root}. Give that folder, or clear them first.")


def probe_storage(*, actor: Actor, connection: Any, storage_class: str) -> Sequence[ProbeStep]:
    """Try a storage class of a cluster with a small claim, and return how long each step took. Nothing is left there.

    `connection` is the cluster's, which need not be attached. Takes seconds, with a slow provisioner minutes. Raises
    StorageUnfit, InvalidCacheSite for a class that is not there, and CacheSiteUnavailable.
    """
    require_manage(actor=actor)
    return StorageProbe(connection, read_class(connection.gateway, storage_class)).run()


@dataclass(frozen=True)
class Share:
    """A site in one namespace of a cluster, and another namespace whose jobs are to read its copies."""

    site: CacheSite
    namespace: str
    reader: str


def find_share(*, actor: Actor, site: CacheSite, reader: Any) -> Share | None:
    """Return how jobs of another resource of its cluster can read a site; None: they are in its namespace.

    `reader` is the connection of the resource; None: it is no cluster. Raises InvalidCacheSite and
    CacheSiteUnavailable.
    """
    require_manage(actor=actor)
    source = connection_of(site) if site.kind == CacheSiteKind.VOLUME else None
    require_sharing(site, source, reader)
    if source is None or source.namespace == reader.namespace:
        return None
    return Share(site, source.namespace, reader.namespace)


@transaction.atomic
def share_site(*, actor: Actor, share: Share, resource: str) -> None:
    """Let jobs of a resource, given by id, read the copies of a site by claims that share volumes."""
    require_manage(actor=actor)
    site = CacheSite.objects.select_for_update().get(pk=share.site.pk)
    site.config["namespace"] = share.namespace
    _set_shared(actor, site, {**site.config.get(SHARED, {}), resource: share.reader})
    enqueue_on_commit("datasets.check_sites", site_id=site.pk)


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


def update_site(
    *,
    actor: Actor,
    site: CacheSite,
    capacity_bytes: int | None = None,
    idle_days: float | None = None,
    config: Mapping[str, object] | None = None,
) -> CacheSite:
    """Change a site's capacity, its idle days, and what can be changed of its `config`; None leaves one as it is.

    What is None in the `config` has its usual value from now on. A capacity or a number of volumes below what is
    promised evicts nothing by itself, but nothing new fits until enough has left. Raises InvalidCacheSite, also for a
    capacity that is larger than the site, as far as its size is known.
    """
    require_manage(actor=actor)
    size_bytes = None if capacity_bytes is None else _find_size(site)
    with transaction.atomic():
        site = CacheSite.objects.select_for_update().get(pk=site.pk)
        site.capacity_bytes = site.capacity_bytes if capacity_bytes is None else capacity_bytes
        site.idle_days = site.idle_days if idle_days is None else idle_days
        _check_numbers(site)
        if size_bytes is not None:
            _check_size(site, size_bytes)
        _change_config(site, config or {})
        site.save(update_fields=["capacity_bytes", "idle_days", "config"])
        facts = {key: site.config.get(key) for key in config or {}}
        audit.record(
            actor,
            "datasets.update_cache_site",
            site,
            capacity_bytes=site.capacity_bytes,
            idle_days=site.idle_days,
            **facts,
        )
        return site


def _change_config(site: CacheSite, changes: Mapping[str, object]) -> None:
    if unknown := sorted(set(changes) - set(_settings_of(site))):
        known = ", ".join(sorted(_settings_of(site)))
        others = f". These can be: {known}." if known else f": sites of kind {site.kind} have no such settings."
        raise InvalidCacheSite(f"'{unknown[0]}' of {site.name} cannot be changed{others}")
    unchanged = {key: value for key, value in site.config.items() if key not in changes}
    site.config = unchanged | {key: value for key, value in changes.items() if value is not None}
    get_kind(site.kind).check_settings(site)


def _settings_of(site: CacheSite) -> Collection[str]:
    """Return the keys of the config that can be changed."""
    return get_kind(site.kind).settings_of(site).base_fields.keys()


def _find_size(site: CacheSite) -> int | None:
    """Return the size that was declared, or what the storage says of itself; None: it is not known now."""
    if "size_bytes" in site.config:
        return int(site.config["size_bytes"])
    with suppress(CacheSiteUnavailable):
        usage = open_site(site).usage()
        return usage.total_bytes if usage.is_measured else None
    return None


def _check_size(site: CacheSite, size_bytes: int) -> None:
    if site.capacity_bytes > size_bytes:
        capacity, size = format_bytes(site.capacity_bytes), format_bytes(size_bytes)
        raise InvalidCacheSite(
            f"{site.name} cannot hold {capacity}: there are {size} in all, whoever uses them.", field="capacity_bytes"
        )


def _check_numbers(site: CacheSite) -> None:
    if site.capacity_bytes < 0 or site.idle_days < 0:
        raise InvalidCacheSite("Capacity and idle days cannot be negative.")


@dataclass(frozen=True)
class LostSite:
    """A cache site, the copies on it, and the bytes of datasets that lie nowhere else. `left` says what stays there."""

    name: str
    copies: int
    size_bytes: int
    only_bytes: int
    left: str


def list_lost_sites(*, actor: Actor, host: str = "", cluster: str = "") -> tuple[LostSite, ...]:
    """Return the sites that giving up a host, or a cluster or SSH host, all by id, would remove."""
    require_site_admin(actor, "give up cache sites")
    return tuple(map(_describe, _sites_of(host, cluster).order_by("name")))


@transaction.atomic
def remove_lost_sites(*, actor: Actor, host: str = "", cluster: str = "") -> None:
    """Remove such sites with their copies, whoever holds them: nobody can read them any more."""
    require_site_admin(actor, "give up cache sites")
    for site in _sites_of(host, cluster).select_for_update().order_by("pk"):
        audit.record(actor, "datasets.remove_cache_site", site, host=host or cluster)
        CachedCommit.objects.filter(site=site).delete()
        site.delete()


def _sites_of(host: str, cluster: str) -> QuerySet[CacheSite]:
    return CacheSite.objects.filter(host=host) if host else CacheSite.objects.filter(config__resource=cluster)


def _describe(site: CacheSite) -> LostSite:
    copies = CachedCommit.objects.filter(site=site, state__in=LIVE)
    origins = {"origin__source__kind": SourceKind.SITE, "origin__source__location": f"site://{site.name}"}
    return LostSite(
        name=site.name,
        copies=copies.count(),
        size_bytes=copies.aggregate(size=Sum(BYTES_ON_DISK))["size"] or 0,
        only_bytes=Pack.objects.filter(**origins).aggregate(size=Sum("size_bytes"))["size"] or 0,
        left=_left_by(site),
    )


def _left_by(site: CacheSite) -> str:
    if site.kind == CacheSiteKind.EXISTING:
        return "Its files are not ours, and stay as they are."
    if site.kind == CacheSiteKind.VOLUME:
        namespace = f" in the namespace {site.config['namespace']}" if "namespace" in site.config else ""
        return f"What is labelled nearline.dev/cache-site={site.pk}{namespace} stays on the cluster."
    return f"What lies in {site.root} stays there."


def set_array(
    *,
    actor: Actor,
    site: CacheSite,
    url: str,
    svm: str,
    user: str,
    password: str,
    volumes: str = "",
    certificate: str = "",
) -> SiteArray:
    """Have the space of an array read from now on, once it has told it. The account is kept encrypted.

    Raises InvalidCacheSite and ArrayUnreadable; then nothing changes.
    """
    require_site_admin(actor, "name the storage arrays of cache sites")
    split = urlsplit(url)
    if split.scheme != "https" or not split.hostname or split.path.strip("/") or split.query or split.username:
        raise InvalidCacheSite(f"An array is reached at https://HOST, unlike '{url}'.")
    for name, value in (("SVM", svm), ("user", user), ("password", password)):
        if not value:
            raise InvalidCacheSite(f"Give the {name} by which the array is read.")
    array = SiteArray(site=site, url=url.rstrip("/"), svm=svm, volumes=volumes, certificate=certificate)
    array.credentials = encrypt(json.dumps({"user": user, "password": password}))
    array.space = [space.to_json() for space in open_array(array).read_space()]
    array.read_at = clock.now()
    with transaction.atomic():
        SiteArray.objects.filter(site=site).delete()
        array.save(force_insert=True)
        audit.record(actor, "datasets.set_site_array", site, url=array.url, svm=svm)
    return array


@transaction.atomic
def remove_array(*, actor: Actor, site: CacheSite) -> None:
    """Read the array behind a site no more, and forget its account. None is no error."""
    require_site_admin(actor, "name the storage arrays of cache sites")
    row = SiteArray.objects.select_for_update().filter(site=site).first()
    if row is not None:
        isolation.forget(failures.READ_ARRAY, [row.pk])
        row.delete()
        audit.record(actor, "datasets.remove_site_array", site)
