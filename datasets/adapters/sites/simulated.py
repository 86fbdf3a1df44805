"""Cache sites of kind `simulated`: they do not exist. For locality, warm-up and finish times without a cluster.

A size and a rate are declared, and the bookkeeping is real. No bytes are moved. How far a copy is follows from when its
filling began and the present time, so every worker on every host sees the same, and there is nothing to lose. What lies
on the site is what the database says lies there.
"""

from collections.abc import Callable, Mapping

from django import forms
from django.db.models import Sum

from core import bounds, clock
from core.form_fields import SizeField
from datasets.adapters.sites import copy_work
from datasets.adapters.sites.kinds import SiteKind
from datasets.engine.cache_ports import CacheSiteDriver, CopyLease, CopyProgress, CopyRequest, Sharing, SiteUsage
from datasets.engine.cache_states import LIVE, CacheState
from datasets.errors import InvalidCacheSite
from datasets.models import BYTES_ON_DISK, CachedCommit, CacheSite


class SimulatedForm(forms.Form):
    """What the site pretends to be."""

    size_bytes = SizeField(required=False, label="Size", help_text="As 2 TB.")
    rate_bytes_s = SizeField(required=False, label="Bytes a second", help_text="As 500 MB.")


def check(site: CacheSite) -> None:
    """Require a size and a rate. Raises InvalidCacheSite."""
    for key in ("size_bytes", "rate_bytes_s"):
        value = site.config.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= bounds.MAX_QUANTITY:
            raise InvalidCacheSite(f"A simulated site needs '{key}': a whole number of bytes above 0.")
    unknown = sorted(set(site.config) - {"size_bytes", "rate_bytes_s"})
    if unknown:
        raise InvalidCacheSite(f"A simulated site has no setting '{unknown[0]}'.")
    if site.root:
        raise InvalidCacheSite("A simulated site has no folder.")
    site.root = f"simulated://{site.name}"


class SimulatedSite:
    """A cache site that does not exist."""

    folder = verifier = None
    # As a volume that is cloned: what both copies have is stored once.
    sharing = Sharing.REFLINK

    def __init__(self, site: CacheSite) -> None:
        self._copies = CachedCommit.objects.filter(site=site, state__in=LIVE)
        self._size_bytes = int(site.config["size_bytes"])
        self._rate_bytes_s = float(site.config["rate_bytes_s"])

    def usage(self) -> SiteUsage:
        """Return the declared size, less what its copies take."""
        used: int = self._copies.aggregate(used=Sum(BYTES_ON_DISK))["used"] or 0
        return SiteUsage(self._size_bytes, max(0, self._size_bytes - used))

    def now_ns(self) -> int:
        """Return the platform's time."""
        return int(clock.now().timestamp() * 10**9)

    def can_read(self, other: CacheSiteDriver) -> bool:
        """Read what is simulated as well: all else would move bytes that nobody reads."""
        return isinstance(other, SimulatedSite)

    def ensure(self, copy: CopyRequest, lease: CopyLease) -> CopyProgress:
        """Return how far the copy is at the declared rate."""
        missing_bytes = copy.size_bytes - copy.bytes_shared
        passed_s = (clock.now() - copy.started_at).total_seconds()
        brought = min(missing_bytes, max(0, int(passed_s * self._rate_bytes_s)))
        is_ready = brought == missing_bytes
        bytes_done = copy.bytes_shared + brought
        progress = CopyProgress(
            files_done=copy.files if is_ready else copy.files * bytes_done // copy.size_bytes,
            bytes_done=bytes_done,
            bytes_shared=copy.bytes_shared,
            bytes_copied=brought if copy.donor else 0,
            bytes_moved=0 if copy.donor else brought,
            rate_bytes_s=self._rate_bytes_s,
            is_ready=is_ready,
        )
        lease.report(progress)
        return progress

    def delete(
        self,
        copy_id: str,
        *,
        location: str,  # noqa: ARG002 (there is nothing that could be seen)
        token: str,  # noqa: ARG002 (the row's state is the fence)
        settle: Callable[[int], None] | None,
        keep_going: Callable[[], bool],  # noqa: ARG002 (it takes no time)
    ) -> bool:
        """Free what the copy is charged for, less what was cloned from it and stays."""
        if settle is not None:
            settle(copy_work.freed_bytes(self._copies, copy_id))
        return True

    def list(self) -> Mapping[str, str]:
        """Return the copies that the database has."""
        rows = self._copies.values_list("pk", "location", "state")
        return {id_: location if state == CacheState.READY else "" for id_, location, state in rows}


KIND = SiteKind(
    name="simulated",
    label="simulated: it does not exist; its copies take as long as its rate says",
    form=SimulatedForm,
    check=check,
    open=SimulatedSite,
    default_part=1.0,
    works_alone=True,
    pauses=True,
    parallel_copies=1,  # so that its rate is never exceeded
    is_simulated=True,
)
