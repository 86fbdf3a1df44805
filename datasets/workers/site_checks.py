"""Sites on volumes are compared with their clusters: how they take snapshots, and with whom their claims are shared."""

from django.db import transaction

from core import isolation
from datasets.adapters.sites.volume.kind import connection_of, open_driver, settle_snapshots
from datasets.models import CacheSite, CacheSiteKind

_FOUND = ("snapshot_class", "warning")


def check_sites(*, site_id: str | None = None) -> None:
    """Ask the clusters of all sites on volumes, or of one. One that does not answer holds up no other."""
    sites = CacheSite.objects.filter(kind=CacheSiteKind.VOLUME, **({} if site_id is None else {"pk": site_id}))
    isolation.for_each("datasets.check_site", sites.order_by("pk"), _check_site)


def _check_site(site: CacheSite) -> None:
    settled = settle_snapshots(site.config, connection_of(site))
    if settled != site.config:
        with transaction.atomic():
            fresh = CacheSite.objects.select_for_update().get(pk=site.pk)
            config = {key: value for key, value in fresh.config.items() if key not in _FOUND}
            fresh.config = config | {key: settled[key] for key in _FOUND if key in settled}
            fresh.save(update_fields=["config"])
    open_driver(site).settle_shares()
