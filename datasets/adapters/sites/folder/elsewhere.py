"""The folder of another host, as this one sees it: what the database says of it. Workers of its own host fill it."""

from collections.abc import Callable, Mapping
from typing import NoReturn

from django.db.models import Sum

from core import hosts
from datasets.engine.cache_ports import CacheSiteDriver, CopyLease, CopyProgress, CopyRequest, Sharing, SiteUsage
from datasets.engine.cache_states import LIVE
from datasets.errors import CacheSiteUnavailable
from datasets.models import BYTES_ON_DISK, CachedCommit, CacheSite


class ElsewhereSite:
    """Stands for the driver of a site of kind `folder` in processes of other hosts."""

    folder = verifier = None
    # What can be shared is found out on its host; until then the best is expected.
    sharing = Sharing.REFLINK

    def __init__(self, site: CacheSite) -> None:
        self._site = site

    def usage(self) -> SiteUsage:
        """Return the capacity, less what the copies take: how full its disk is only its host sees."""
        copies = CachedCommit.objects.filter(site=self._site, state__in=LIVE)
        used: int = copies.aggregate(used=Sum(BYTES_ON_DISK))["used"] or 0
        return SiteUsage(self._site.capacity_bytes, max(0, self._site.capacity_bytes - used), is_measured=False)

    def now_ns(self) -> int:
        """Refuse."""
        self._refuse()

    def can_read(self, other: CacheSiteDriver) -> bool:  # noqa: ARG002
        """Read nothing from here."""
        return False

    def ensure(self, copy: CopyRequest, lease: CopyLease) -> CopyProgress:  # noqa: ARG002
        """Refuse."""
        self._refuse()

    def delete(
        self,
        copy_id: str,  # noqa: ARG002
        *,
        location: str,  # noqa: ARG002
        token: str,  # noqa: ARG002
        settle: Callable[[int], None] | None,  # noqa: ARG002
        keep_going: Callable[[], bool],  # noqa: ARG002
    ) -> bool:
        """Refuse."""
        self._refuse()

    def list(self) -> Mapping[str, str]:
        """Refuse."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise CacheSiteUnavailable(f"{self._site.name} is a folder of the host {hosts.name_of(self._site.host)}.")
