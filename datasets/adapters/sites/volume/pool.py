"""The driver of sites whose copies are folders of one volume: a claim that they share, or an export of an NFS server.

A record, a Secret without content, stands for a copy from before its first file until after its last one, and owns all
else of it. A second one says that it is ready. Pods make a copy in its folder, and take it away by a rename.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.db.models import Sum

from core.kubernetes.connections import ClusterConnection
from core.kubernetes.errors import ClusterUnreachable
from core.kubernetes.gateway import Refusal
from datasets.adapters.sites import copy_work
from datasets.adapters.sites.copy_work import ready, wait_until_gone
from datasets.adapters.sites.volume import manifests, reasons
from datasets.adapters.sites.volume.manifests import Storage, claim_storage
from datasets.adapters.sites.volume.pods import DUTIES, ENDED, ClusterSite, as_site_errors, pods_of
from datasets.engine.cache_ports import CopyProgress, CopyRequest, Sharing, SiteUsage
from datasets.engine.volumes import claim_name, count_pods, pool_claim_name
from datasets.errors import RemovalHeldUp, VolumeRefused
from datasets.models import BYTES_ON_DISK, CacheSite

Json = dict[str, Any]

_BASE = f"{manifests.DOMAIN}/base"
"""The annotation of a record that names the copy to share files with."""
_RECORD, _READY, _REMOVE = "-copy", "-ready", "-remove"
"""What the names of a copy's records, and of the Job that removes it, end with."""


class PoolSite(ClusterSite):
    """Copies as folders of one volume, which share files by hard links unless `hard_links` of the site says no."""

    def __init__(self, site: CacheSite, connection: ClusterConnection, volume: Storage) -> None:
        super().__init__(site, connection)
        self._volume = volume.volume

    @property
    def sharing(self) -> Sharing:
        """How copies share files."""
        return Sharing.HARD_LINK if self._config.get("hard_links", True) else Sharing.NONE

    def usage(self) -> SiteUsage:
        """Return the declared size, less what the copies take."""
        used: int = self._copies.aggregate(used=Sum(BYTES_ON_DISK))["used"] or 0
        size_bytes = int(self._config["size_bytes"])
        return SiteUsage(size_bytes, max(0, size_bytes - used))

    def delete(
        self,
        copy_id: str,
        *,
        location: str,  # noqa: ARG002 (the folder is named after the copy)
        token: str,  # noqa: ARG002 (the row's state is the fence)
        settle: Callable[[int], None] | None,
        keep_going: Callable[[], bool],
    ) -> bool:
        """Take the mark of a ready copy away; when no pod mounts it, have a pod remove its folder.

        Raises RemovalHeldUp where something outside of us is waited for.
        """
        if settle is not None:
            settle(copy_work.freed_bytes(self._copies, copy_id))
        name = claim_name(copy_id)
        with as_site_errors(unreachable=True):
            self._hide(name)
            if (record := self._find_owner(copy_id)) is None:
                return True
            if user := self._find_user(copy_id):
                raise RemovalHeldUp(f"the end of the pod {user}, which mounts the folder {copy_id}")
            if self._has_files() and not wait_until_gone(lambda: self._go_on_removing(copy_id, record), keep_going):
                return False
            self._end_job(name + _REMOVE)
            self._forget(name)
        return True

    def list(self) -> Mapping[str, str]:
        """Return the copies that have a record."""
        with as_site_errors(unreachable=True):
            secrets = self._gateway.list(self._secrets, labelSelector=f"{manifests.SITE}={self._site_id}").items
        noted = [secret["metadata"].get("annotations") or {} for secret in secrets]
        are_ready = {notes[manifests.COPY] for notes in noted if manifests.MADE in notes}
        return {
            notes[manifests.COPY]: notes[manifests.LOCATION] if notes[manifests.COPY] in are_ready else ""
            for notes in noted
            if manifests.LOCATION in notes
        }

    def storage_of(self, copy_id: str) -> Storage:
        """Return the copy's folder."""
        return Storage(self._volume, copy_id)

    def _find_owner(self, copy_id: str) -> Json | None:
        return self._gateway.get(f"{self._secrets}/{claim_name(copy_id)}{_RECORD}")

    def _ensure(self, copy: CopyRequest) -> CopyProgress:
        name = claim_name(copy.id)
        if marked := self._gateway.get(f"{self._secrets}/{name}{_READY}"):
            return ready(manifests.read_made(marked) or {})
        record = self._find_owner(copy.id) or self._create_record(copy)
        if reason := self._find_reason():
            return self._progress(copy, waits_for=reason)
        base = record["metadata"]["annotations"][_BASE]
        if base:  # most of it is linked
            return self._fill(copy, record, ("--base", base))
        return self._fill(copy, record, pods=self._count_pods(copy))

    def _count_pods(self, copy: CopyRequest) -> int:
        """Return how many pods fill the folder of a copy."""
        return count_pods(copy.size_bytes, self._config)

    def _find_reason(self) -> str:
        """Return what the volume waits for; empty: it can be mounted."""
        return ""

    def _has_files(self) -> bool:
        """Say whether there is a volume on which something may lie."""
        return True

    def _create_record(self, copy: CopyRequest) -> Json:
        base = self.copy_at(copy.base.location) if copy.base and self.sharing is not Sharing.NONE else ""
        notes = {manifests.COPY: copy.id, manifests.LOCATION: copy.location, _BASE: base}
        manifest = manifests.build_record(f"{claim_name(copy.id)}{_RECORD}", site_id=self._site_id, annotations=notes)
        record = self._gateway.create(self._secrets, manifest) or self._find_owner(copy.id)
        if record is None:
            raise ClusterUnreachable("The record of the copy was deleted while it was made.")
        return record

    def _mark(self, owner: Json, made: Mapping[str, Any]) -> None:
        copy_id = owner["metadata"]["annotations"][manifests.COPY]
        notes = {manifests.COPY: copy_id, manifests.MADE: json.dumps(made)}
        name = f"{claim_name(copy_id)}{_READY}"
        self._gateway.create(
            self._secrets, manifests.build_record(name, site_id=self._site_id, annotations=notes, owner=owner)
        )

    def _hide(self, name: str) -> None:
        """Take the mark of a ready copy away, and end the Jobs that work on it."""
        self._gateway.delete(f"{self._secrets}/{name}{_READY}")
        for duty in DUTIES:
            self._end_job(name + duty)

    def _forget(self, name: str) -> None:
        """Delete the record of a copy, and with it all that it owns."""
        self._gateway.delete(f"{self._secrets}/{name}{_RECORD}")

    def _find_user(self, copy_id: str) -> str:
        """Return a pod of others that mounts the folder, what it lies in, or something in it; empty: there is none."""
        for path, storage in self._list_places(self.storage_of(copy_id)):
            for pod in self._gateway.list(path).items:
                is_ours = manifests.SITE in (pod["metadata"].get("labels") or {})
                if is_ours or (pod.get("status") or {}).get("phase") in ENDED:
                    continue
                if manifests.mounts(pod, storage):
                    return str(pod["metadata"]["name"])
        return ""

    def _list_places(self, storage: Storage) -> Sequence[tuple[str, Storage]]:
        """Return the paths of the pods that can mount the volume, and as what: an export is of no namespace."""
        return [("/api/v1/pods", storage)]

    def _go_on_removing(self, copy_id: str, record: Json) -> str:
        """Take the next step of a removal, and return what it waits for; empty: the folder is gone."""
        name = claim_name(copy_id)
        for duty in DUTIES:
            if any((pod.get("status") or {}).get("phase") not in ENDED for pod in self._pods_of(name + duty)):
                return f"the end of the pods of {name}{duty}"
        job = self._have_job(name + _REMOVE, record, copy_id, duty="remove")
        end, pods = manifests.end_of(job), self._pods_of(name + _REMOVE)
        if end == "Complete":
            return ""
        if end == "Failed":
            self._end_job(name + _REMOVE)
            why = reasons.read_result(pods).get("error", "look at its events")
            raise RemovalHeldUp(f"a pod that removes the folder {copy_id}; the last one failed: {why}")
        return f"the pod that removes the folder {copy_id}. {self._find_pod_reason(job, pods)}".rstrip(". ")


class ClaimPoolSite(PoolSite):
    """Copies as folders of one claim, which is made with the first."""

    def __init__(self, site: CacheSite, connection: ClusterConnection) -> None:
        super().__init__(site, connection, manifests.claim_storage(pool_claim_name(site.pk)))

    def _find_reason(self) -> str:
        path = f"{self._claims}/{pool_claim_name(self._site_id)}"
        claim = self._gateway.get(path)
        if claim is None:
            manifest = manifests.build_pool_claim(site_id=self._site_id, config=self._config)
            try:
                claim = self._gateway.create(self._claims, manifest) or self._gateway.get(path)
            except Refusal as error:
                if "exceeded quota" not in error.message:
                    raise
                return f"the quota of the namespace: {reasons.explain(error.message)}"
        if claim is None or "deletionTimestamp" in claim["metadata"]:
            raise VolumeRefused(f"The claim {pool_claim_name(self._site_id)} of the site is being deleted.")
        return self._find_claim_reason(claim)

    def _has_files(self) -> bool:
        return bool(self._find_volume())

    def _list_places(self, storage: Storage) -> Sequence[tuple[str, Storage]]:
        shares = self._list_shares(self._find_volume())
        return [(self._pods, storage), *((pods_of(each), claim_storage(each.claim, storage.folder)) for each in shares)]

    def _find_volume(self) -> str:
        """Return the name of the volume; empty: there is none yet."""
        claim = self._gateway.get(f"{self._claims}/{pool_claim_name(self._site_id)}") or {}
        return str(claim.get("spec", {}).get("volumeName", ""))


class ExportSite(PoolSite):
    """Copies as folders of an export of an NFS server."""

    def __init__(self, site: CacheSite, connection: ClusterConnection) -> None:
        super().__init__(
            site, connection, manifests.export_storage(str(site.config["server"]), str(site.config["path"]))
        )
