"""The storage array behind a cache site: who reads its space, and with what account."""

import json
from urllib.parse import urlsplit

from django.db import transaction

from accounts import audit
from accounts.actor import Actor
from accounts.permissions import require_site_admin
from core import clock, isolation
from core.encryption import encrypt
from datasets.adapters.ontap import open_array
from datasets.errors import InvalidCacheSite
from datasets.models import CacheSite, SiteArray
from datasets.selectors import failures


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
