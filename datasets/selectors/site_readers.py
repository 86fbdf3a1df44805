"""Who reads the copies on a cache site. The app whose jobs read them adds what it knows when it starts."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from accounts.permissions import Actor
from core import hosts
from datasets.errors import CacheSiteAway
from datasets.models import CacheSite


@dataclass(frozen=True)
class SiteReader:
    """A place whose jobs read a cache site, such as a compute resource; `error` says why it does not answer.

    One that is not attached any more is listed only at the sites that are on it.
    """

    name: str
    url: str
    error: str = ""
    is_attached: bool = True


Find = Callable[[Collection[str]], Mapping[str, Sequence[SiteReader]]]
"""Returns the readers of cache sites, which are given by name, in the order of their names."""

_sources: list[Find] = []


def add_source(find: Find) -> None:
    """Let the pages of cache sites show what an app knows."""
    _sources.append(find)


def find_fault(actor: Actor, site: CacheSite, readers: Sequence[SiteReader]) -> str:
    """Say why the cluster or host that a site is on cannot be asked, or its folder is not there; empty: it is there.

    Where its folder should be is told to site admins.
    All readers of a cluster's site are there, and one that does not answer may have lost its own account alone.
    """
    if not hosts.is_here(site.host) and (host := hosts.list_hosts().get(site.host)) and host.is_away:
        return (
            f"Its host {host.name} is away: no controller runs there, and nothing is cached or removed until one does. "
            f"A host that never comes back is given up by `manage.py give_up_host {host.name}`."
        )
    if site.absence:
        away = CacheSiteAway.of(site.name, site.absence)
        return away.for_admins if actor.is_site_admin else away.message
    errors = [reader.error for reader in readers if not reader.is_attached] or [reader.error for reader in readers]
    return errors[0] if site.cluster and errors and all(errors) else ""


def list_readers(sites: Collection[str]) -> dict[str, list[SiteReader]]:
    """Return who reads each of these sites."""
    readers_of: dict[str, list[SiteReader]] = {site: [] for site in sites}
    for find in _sources:
        for site, readers in find(sites).items():
            readers_of[site].extend(readers)
    return readers_of
