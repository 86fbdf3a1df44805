"""Taking what earlier versions made for the host that has it."""

from pathlib import Path

from django.conf import settings

from core import hosts
from datasets.models import CacheSite


def bind_sites() -> None:
    """Take the cache sites in folders that an earlier version made for the host that has these folders."""
    for site in CacheSite.objects.filter(host=hosts.UNBOUND).order_by("pk"):
        if settings.NEARLINE.is_embedded or Path(site.root).is_dir():
            CacheSite.objects.filter(pk=site.pk, host=hosts.UNBOUND).update(host=hosts.this_host())
