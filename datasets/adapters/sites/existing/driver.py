"""The driver of kind `existing`: files that are not ours, read where they are.

A pod compares them with the commit, or makes the commit of them, with the volume mounted read-only. Removal takes away
our records alone.
"""

from collections.abc import Callable

from django.db.models import QuerySet

from core.kubernetes.connections import ClusterConnection
from datasets.adapters.copy_tokens import sign_import
from datasets.adapters.sites import charges
from datasets.adapters.sites.copy_work import COUNTS, ready
from datasets.adapters.sites.volume import manifests
from datasets.adapters.sites.volume.manifests import Storage
from datasets.adapters.sites.volume.pods import as_site_errors, failure
from datasets.adapters.sites.volume.pool import PoolSite
from datasets.engine.cache_ports import CacheSiteDriver, CopyProgress, CopyRequest, Sharing
from datasets.engine.volumes import claim_name
from datasets.models import CachedCommit, CacheSite


class ExistingSite(PoolSite):
    """One copy, which was there before us."""

    fills_by = verifies_by = "check"

    def __init__(self, site: CacheSite, connection: ClusterConnection) -> None:
        self._storage = manifests.existing_storage(site.config)
        super().__init__(site, connection, self._storage)
        self._all_copies: QuerySet[CachedCommit] = CachedCommit.objects.filter(site=site)

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

    def work_on_import(self, import_id: str, *, duty: str) -> str:
        """Have the Job of an import; return what it waits for, and nothing once it has succeeded.

        `duty` is `import` or `promote`. Raises VolumeRefused where it failed, and CacheSiteUnavailable.
        """
        name = claim_name(import_id)
        with as_site_errors(unreachable=True):
            path = f"{self._secrets}/{name}"
            record = manifests.build_record(f"{name}-import", site_id=self._site_id, annotations={})
            owner = self._gateway.create(self._secrets, record) or self._gateway.get(f"{path}-import") or {}
            job = self._have_job(name, owner, import_id, duty=duty, sign=sign_import)
            end, pods = manifests.end_of(job), self._pods_of(name)
            if not end:
                return self._find_pod_reason(job, pods) or "the pod that reads the files"
            self.end_import(import_id)
        if end == "Failed":
            raise failure(pods)
        return ""

    def end_import(self, import_id: str) -> None:
        """Leave nothing behind of the Job of an import."""
        name = claim_name(import_id)
        with as_site_errors(unreachable=True):
            self._end_job(name)
            self._gateway.delete(f"{self._secrets}/{name}-import")

    def _count_pods(self, copy: CopyRequest) -> int:  # noqa: ARG002 (nothing is brought)
        """Have one pod compare the files."""
        return 1

    def _ensure(self, copy: CopyRequest) -> CopyProgress:
        """Take the first copy of files that became the commit as it is: each was read and hashed just now."""
        if not self._config.get("imported") or self._all_copies.exclude(pk=copy.id).exists():
            return super()._ensure(copy)
        made = dict.fromkeys(COUNTS, 0)
        made |= {"files_done": copy.files, "bytes_done": copy.size_bytes, "bytes_shared": copy.size_bytes}
        self._mark(self._find_owner(copy.id) or self._create_record(copy), made)
        return ready(made)
