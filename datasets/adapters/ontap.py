"""Reads space from the REST API of NetApp's ONTAP, with an account that may only read.

Its certificate is always checked: against one that an admin gives, or the authorities of this host.
"""

import json
import ssl
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode, urlsplit

from urllib3 import PoolManager, Timeout, make_headers
from urllib3.exceptions import HTTPError

from core.encryption import decrypt
from datasets.engine import arrays
from datasets.engine.arrays import Space
from datasets.errors import ArrayPartDenied, ArrayUnreadable
from datasets.models import SiteArray

Json = dict[str, Any]

_TIMEOUT = Timeout(connect=3, read=10)
_PAGE, _MOST_PAGES = 1000, 20
_OK, _UNAUTHORISED, _FORBIDDEN, _NOT_FOUND = 200, 401, 403, 404
_AGGREGATE_FIELDS = "name,space.block_storage"
_SVM_FIELDS = "name,aggregates.name,aggregates.available_size,storage.limit,storage.allocated"
_VOLUME_FIELDS = (
    "name,space.size,space.used,space.available,space.physical_used,space.snapshot.used,space.logical_space.used"
)


class Ontap:
    """One array, as one account sees one SVM of it."""

    def __init__(self, url: str, *, svm: str, volumes: str, user: str, password: str, certificate: str = "") -> None:
        self._url = url.rstrip("/")
        self._svm, self._volumes = svm, volumes
        try:
            context = ssl.create_default_context(cadata=certificate or None)
        except (ssl.SSLError, ValueError) as error:
            raise ArrayUnreadable("The certificate cannot be read: it is no PEM.", field="certificate") from error
        headers = {**make_headers(basic_auth=f"{user}:{password}"), "Accept": "application/json"}
        self._pool = PoolManager(ssl_context=context, headers=headers, timeout=_TIMEOUT, retries=False)

    def read_space(self) -> list[Space]:
        """Return the space of the SVM, of its volumes together, and of the aggregates as far as the account sees them.

        Raises ArrayUnreadable.
        """
        names = {"svm.name": self._svm, **({"name": self._volumes} if self._volumes else {})}
        svm = list(self._list(arrays.SVMS, _SVM_FIELDS, {"name": self._svm}))
        if not svm:
            raise ArrayUnreadable(f"The account sees no SVM '{self._svm}'.", field="svm")
        volumes = list(self._list(arrays.VOLUMES, _VOLUME_FIELDS, names))
        what = f"volumes {self._volumes}" if self._volumes else "all volumes"
        spaces = [*arrays.read_svm(svm), arrays.sum_volumes(volumes, f"{what} of SVM {self._svm}")]
        with suppress(ArrayPartDenied):  # an account of an SVM sees no aggregates
            spaces = [*arrays.read_aggregates(self._list(arrays.AGGREGATES, _AGGREGATE_FIELDS, {})), *spaces]
        return spaces

    def _list(self, path: str, fields: str, names: dict[str, str]) -> Iterator[Json]:
        # Releases differ in what they can tell.
        query = {**names, "fields": fields, "ignore_unknown_fields": "true", "max_records": str(_PAGE)}
        following = f"{path}?{urlencode(query)}"
        for _ in range(_MOST_PAGES):
            page = self._get(following)
            yield from page.get("records") or []
            following = ((page.get("_links") or {}).get("next") or {}).get("href") or ""
            if not following:
                return
        raise ArrayUnreadable(f"The array lists more than {_PAGE * _MOST_PAGES} records at {path}.")

    def _get(self, path: str) -> Json:
        if urlsplit(path).netloc or not path.startswith("/"):
            raise ArrayUnreadable("The array names a next page on another host.")
        try:
            answer = self._pool.request("GET", f"{self._url}{path}", redirect=False)
            body = answer.json() if answer.status == _OK else {}
        except HTTPError as error:
            raise ArrayUnreadable(f"The array does not answer: {error}.") from error
        except json.JSONDecodeError as error:
            raise ArrayUnreadable("The array answers with something else than JSON.") from error
        route = path.partition("?")[0]
        if answer.status in {_FORBIDDEN, _NOT_FOUND}:
            raise ArrayPartDenied(f"The account may not read {route}.")
        if answer.status == _UNAUTHORISED:
            raise ArrayUnreadable("The array does not know this user and password.", field="password")
        if answer.status != _OK or not isinstance(body, dict):
            raise ArrayUnreadable(f"The array answers {answer.status} at {route}.")
        return body


def open_array(array: SiteArray) -> Ontap:
    """Return what reads the array behind a site. Raises CredentialsUnreadable and ArrayUnreadable."""
    account = json.loads(decrypt(bytes(array.credentials), f"The account at {array.url}"))
    return Ontap(array.url, svm=array.svm, volumes=array.volumes, certificate=array.certificate, **account)
