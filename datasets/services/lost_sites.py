"""The cache sites of what does not come back are removed. The store has every commit that was cached there.

All but what was imported in place from existing files, and not promoted since.
"""

from dataclasses import dataclass

from django.db import transaction
from django.db.models import QuerySet, Sum

from accounts import audit
from accounts.actor import Actor
from accounts.permissions import require_site_admin
from datasets.engine.cache_states import LIVE
from datasets.models import BYTES_ON_DISK, CachedCommit, CacheSite, CacheSiteKind, Pack, SourceKind


@dataclass(frozen=True)
class LostSite:
    """A cache site, the copies on it, and the bytes of datasets that lie nowhere else. `left` says what stays there."""

    name: str
    copies: int
    size_bytes: int
    only_bytes: int
    left: str


def list_sites(*, actor: Actor, host: str = "", cluster: str = "") -> tuple[LostSite, ...]:
    """Return the sites that giving up a host, or a cluster or SSH host, all by id, would remove."""
    require_site_admin(actor, "give up cache sites")
    return tuple(map(_describe, _sites_of(host, cluster).order_by("name")))


@transaction.atomic
def remove_sites(*, actor: Actor, host: str = "", cluster: str = "") -> None:
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
