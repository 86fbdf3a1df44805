"""The driver of kind `existing`: files that are not ours, read where they are.

A pod compares them with the commit, with the volume mounted read-only. Removal takes away our records alone.
"""

from collections.abc import Callable

from core.kubernetes.connections import ClusterConnection
from datasets.adapters.sites import charges
from datasets.adapters.sites.volume import manifests
from datasets.adapters.sites.volume.manifests import Storage
from datasets.adapters.sites.volume.pods import as_site_errors
from datasets.adapters.sites.volume.pool import PoolSite
from datasets.engine.cache_ports import CacheSiteDriver, Sharing
from datasets.engine.volumes import claim_name
from datasets.models import CacheSite


class ExistingSite(PoolSite):
    """One copy, which was there before us."""

    fills_by = verifies_by = "check"

    def __init__(self, site: CacheSite, connection: ClusterConnection) -> None:
        self._storage = manifests.existing_storage(site.config)
        super().__init__(site, connection, self._storage)

    @property
    def sharing(self) -> Sharing:
        """Nothing is shared with files that others may change."""
        return Sharing.NONE

    def can_read(self, other: CacheSiteDriver) -> bool:  # noqa: ARG002 (nothing is written here)
        """Need no other copy."""
        return False

    def storage_of(self, copy_id: str) -> Storage:  # noqa: ARG002 (there is one)
        """Return the folder."""
        return self._storage

    def delete(
        self,
        copy_id: str,
        *,
        location: str,  # noqa: ARG002 (no file is touched)
        token: str,  # noqa: ARG002 (the row's state is the fence)
        settle: Callable[[int], None] | None,
        keep_going: Callable[[], bool],  # noqa: ARG002 (it takes a few calls)
    ) -> bool:
        """Forget the copy. Its files stay, and pods that read them go on."""
        if settle is not None:
            settle(charges.freed_bytes(self._copies, copy_id))
        with as_site_errors(unreachable=True):
            self._hide(claim_name(copy_id))
            self._forget(claim_name(copy_id))
        return True
