"""The cache sites of a host that does not come back are removed. The store has every commit that was cached there."""

from dataclasses import dataclass

from django.db import transaction
from django.db.models import Sum

from accounts import audit
from accounts.actor import Actor
from accounts.permissions import require_site_admin
from datasets.engine.cache_states import LIVE
from datasets.models import BYTES_ON_DISK, CachedCommit, CacheSite


@dataclass(frozen=True)
class LostSite:
    """A cache site in a folder of a host, and the copies on it."""

    name: str
    copies: int
    size_bytes: int


def list_sites(*, actor: Actor, host: str) -> tuple[LostSite, ...]:
    """Return the sites that giving up a host would remove."""
    require_site_admin(actor, "give up hosts")
    return tuple(map(_describe, CacheSite.objects.filter(host=host).order_by("name")))


@transaction.atomic
def remove_sites(*, actor: Actor, host: str) -> None:
    """Remove the sites of a host with their copies, whoever holds them: nobody can read them any more."""
    require_site_admin(actor, "give up hosts")
    for site in CacheSite.objects.select_for_update().filter(host=host).order_by("pk"):
        audit.record(actor, "datasets.remove_cache_site", site, host=host)
        CachedCommit.objects.filter(site=site).delete()
        site.delete()


def _describe(site: CacheSite) -> LostSite:
    copies = CachedCommit.objects.filter(site=site, state__in=LIVE)
    return LostSite(site.name, copies.count(), copies.aggregate(size=Sum(BYTES_ON_DISK))["size"] or 0)
