"""Reads about the storage arrays behind cache sites. Everybody may see their numbers, nobody their accounts."""

from collections.abc import Collection

from accounts.actor import Actor
from datasets.errors import ArrayNotFound
from datasets.models import CacheSite, SiteArray


def list_arrays(sites: Collection[str]) -> list[SiteArray]:
    """Return the arrays behind the sites of these names."""
    return list(SiteArray.objects.filter(site__name__in=sites).select_related("site").order_by("site__name"))


def get_array(*, actor: Actor, site: CacheSite) -> SiteArray:  # noqa: ARG001 (every actor sees all)
    """Return the array behind a site. Raises ArrayNotFound."""
    row = SiteArray.objects.filter(site=site).select_related("site").first()
    if row is None:
        raise ArrayNotFound(f"Nearline reads no storage array for the site {site.name}.")
    return row
