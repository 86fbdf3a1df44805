"""Tells the pages of cache sites which resources read them."""

from collections.abc import Collection, Mapping, Sequence

from django.urls import reverse

from compute.selectors import resources
from datasets.selectors import site_readers
from datasets.selectors.site_readers import SiteReader


def find_readers(sites: Collection[str]) -> Mapping[str, Sequence[SiteReader]]:
    """Return the resources that read each of these sites."""
    url, faults = reverse("compute:compute"), resources.list_faults()
    return {
        site: [SiteReader(name, url, faults.get(name, "")) for name in names]
        for site, names in resources.list_readers(sites).items()
    }


site_readers.add_source(find_readers)
