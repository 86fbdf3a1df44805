"""Tells the pages of cache sites which resources read them."""

from collections.abc import Collection, Mapping, Sequence

from django.urls import reverse

from compute.selectors import resources
from datasets.selectors import site_readers
from datasets.selectors.site_readers import SiteReader


def find_readers(sites: Collection[str]) -> Mapping[str, Sequence[SiteReader]]:
    """Return the resources that read each of these sites, and those that the sites are on though they are detached."""
    url, faults = reverse("compute:compute"), resources.list_faults()
    readers = {
        site: [SiteReader(name, url, faults.get(name, "")) for name in names]
        for site, names in resources.list_readers(sites).items()
    }
    for site, name in resources.list_detached_owners(sites).items():
        error = (
            f"{name} is detached: nothing is cached here or removed until it is attached again under this name, "
            f"or given up by `nearline compute give-up {name}`."
        )
        readers[site].append(SiteReader(name, url, error, is_attached=False))
    return readers


site_readers.add_source(find_readers)
