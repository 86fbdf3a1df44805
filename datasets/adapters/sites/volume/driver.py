"""The driver of kind `volume`: a claim for each copy.

A claim is named after its copy, owns all else of it, and says that it is ready by an annotation, which is written once
its Job has succeeded. Where the cluster takes snapshots, all clones of a claim are made from one snapshot, which has
its name, and is deleted once no clone is left.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from core.kubernetes.errors import ClusterUnreachable
from core.kubernetes.gateway import Refusal
from core.units import parse_bytes
from datasets.adapters.sites import copy_work
from datasets.adapters.sites.copy_work import ready, wait_until_gone
from datasets.adapters.sites.volume import manifests, reasons
from datasets.adapters.sites.volume.manifests import Storage
from datasets.adapters.sites.volume.pods import (
    DUTIES,
    ENDED,
    NOT_THERE,
    ClusterSite,
    Share,
    as_site_errors,
    pods_of,
)
from datasets.engine.cache_ports import CopyProgress, CopyRequest, Sharing, SiteUsage
from datasets.engine.cache_states import UNFINISHED
from datasets.engine.volumes import claim_bytes, claim_name, count_pods
from datasets.errors import RemovalHeldUp

Json = dict[str, Any]


class _NotReady(Exception):
    """A snapshot cannot be cloned yet."""


class VolumeSite(ClusterSite):
    """Copies on claims of one storage class."""

    @property
    def sharing(self) -> Sharing:
        """How copies share files: a clone has its source's blocks, where the storage can clone."""
        return Sharing.REFLINK if self._config.get("clones") else Sharing.NONE

    def usage(self) -> SiteUsage:
        """Return the declared size, less what the claims of the site ask for."""
        with as_site_errors():
            asked = sum(parse_bytes(_asked(claim)) for claim in self._list_claims())
        size_bytes = int(self._config["size_bytes"])
        return SiteUsage(size_bytes, max(0, size_bytes - asked))

    def delete(
        self,
        copy_id: str,
        *,
        location: str,  # noqa: ARG002 (the claim is named after the copy)
        token: str,  # noqa: ARG002 (the row's state is the fence)
        settle: Callable[[int], None] | None,
        keep_going: Callable[[], bool],
    ) -> bool:
        """Take the mark of a ready copy away, wait until no pod mounts its claim, then delete claim and volume.

        Raises RemovalHeldUp where something outside of us is waited for.
        """
        if settle is not None:
            settle(copy_work.freed_bytes(self._copies, copy_id))
        name = claim_name(copy_id)
        with as_site_errors(unreachable=True):
            claim = self._gateway.get(f"{self._claims}/{name}")
            if claim is not None and manifests.read_made(claim) is not None:
                self._gateway.patch(
                    f"{self._claims}/{name}", {"metadata": {"name": name, "annotations": {manifests.MADE: None}}}
                )
            for duty in DUTIES:
                self._end_job(name + duty)
            return wait_until_gone(lambda: self._go_on_removing(name), keep_going)

    def list(self) -> Mapping[str, str]:
        """Return the copies of which there is a claim."""
        with as_site_errors(unreachable=True):
            claims = self._list_claims()
        copies = {}
        for claim in claims:
            annotations = claim["metadata"].get("annotations") or {}
            if copy_id := annotations.get(manifests.COPY):
                is_ready = manifests.read_made(claim) is not None
                copies[copy_id] = annotations[manifests.LOCATION] if is_ready else ""
        return copies

    def storage_of(self, copy_id: str) -> Storage:
        """Return the copy's claim."""
        return manifests.claim_storage(claim_name(copy_id))

    def _find_owner(self, copy_id: str) -> Json | None:
        return self._gateway.get(f"{self._claims}/{claim_name(copy_id)}")

    def _ensure(self, copy: CopyRequest) -> CopyProgress:
        name = claim_name(copy.id)
        claim = self._gateway.get(f"{self._claims}/{name}")
        if claim is None:
            try:
                claim = self._create_claim(copy, self._find_source(copy))
            except _NotReady:
                return self._progress(copy, waits_for="a snapshot of the volume from which it is cloned")
            except Refusal as error:
                if "exceeded quota" not in error.message:
                    raise
                return self._progress(copy, waits_for=f"the quota of the namespace: {reasons.explain(error.message)}")
        if "deletionTimestamp" in claim["metadata"]:
            return self._progress(copy, waits_for=f"the removal of an earlier claim {name}")
        if made := manifests.read_made(claim):
            return ready(made)
        if reason := self._find_claim_reason(claim):
            return self._progress(copy, waits_for=reason)
        return self._fill(copy, claim, pods=self._count_pods(copy, claim))

    def _count_pods(self, copy: CopyRequest, claim: Json) -> int:
        """Return how many pods fill a claim: one, where it is a clone, or where one node alone mounts it."""
        modes = (claim.get("status") or {}).get("accessModes") or claim["spec"]["accessModes"]
        if claim["spec"].get("dataSource") or "ReadWriteMany" not in modes:
            return 1
        return count_pods(copy.size_bytes, self._config)

    def _create_claim(self, copy: CopyRequest, source: manifests.Source | None) -> Json:
        manifest = manifests.build_claim(copy, site_id=self._site_id, config=self._config, source=source)
        created = self._gateway.create(self._claims, manifest)
        claim = created or self._gateway.get(f"{self._claims}/{manifest['metadata']['name']}")
        if claim is None:
            raise ClusterUnreachable("The claim was deleted while it was made.")
        return claim

    def _find_source(self, copy: CopyRequest) -> manifests.Source | None:
        """Return what to clone: a claim that is there and large enough, or its snapshot. Raises _NotReady."""
        if copy.base is None or self.sharing is Sharing.NONE:
            return None
        name = claim_name(self.copy_at(copy.base.location))
        claim = self._gateway.get(f"{self._claims}/{name}")
        if claim is None or manifests.read_made(claim) is None or "deletionTimestamp" in claim["metadata"]:
            return None
        capacity = ((claim.get("status") or {}).get("capacity") or {}).get("storage", "")
        needed = claim_bytes(files=copy.files, size_bytes=copy.size_bytes)
        if not capacity or parse_bytes(capacity) < needed:
            return None
        source = manifests.Source(name, capacity)
        try:
            return self._take_snapshot(source, copy) if self._config.get("snapshot_class") else source
        except Refusal as error:
            if error.status in NOT_THERE:
                return None  # all of it is fetched; the check of the site tells why
            raise

    def _take_snapshot(self, source: manifests.Source, copy: CopyRequest) -> manifests.Source:
        """Have the snapshot of a claim, and return what to clone. One that fails is left out.

        Trident would take one of its own for each clone of a claim, and a volume can have 1,023. Raises _NotReady.
        """
        path = f"{self._snapshots}/{source.claim}"
        snapshot = self._gateway.get(path)
        if snapshot is None:
            snapshot_class = str(self._config["snapshot_class"])
            manifest = manifests.build_snapshot(
                source.claim, site_id=self._site_id, snapshot_class=snapshot_class, copy_id=copy.id
            )
            snapshot = self._gateway.create(self._snapshots, manifest) or self._gateway.get(path) or manifest
        meta, status = snapshot["metadata"], snapshot.get("status") or {}
        if "deletionTimestamp" in meta:
            raise _NotReady
        if _copy_of(snapshot) != copy.id:  # so that it is not collected before it is cloned
            self._gateway.patch(path, {"metadata": {"annotations": {manifests.COPY: copy.id}}})
        if status.get("readyToUse"):
            return replace(source, has_snapshot=True)
        if status.get("error"):
            return source
        raise _NotReady

    def _collect_snapshots(self) -> None:
        """Delete the snapshots of which there is no clone, and from which none is about to be made."""
        if not self._config.get("snapshot_class"):
            return
        try:
            snapshots = self._gateway.list(self._snapshots, labelSelector=f"{manifests.SITE}={self._site_id}").items
        except Refusal as error:
            if error.status not in NOT_THERE:
                raise
            return  # Trident's volume, which is waited for, tells of them
        if not snapshots:
            return
        claims = self._list_claims()
        names = {claim["metadata"]["name"] for claim in claims}
        cloned = set(map(manifests.snapshot_of, claims))
        unfinished = set(self._copies.filter(state__in=UNFINISHED).values_list("pk", flat=True))
        for snapshot in snapshots:
            meta = snapshot["metadata"]
            is_awaited = meta["name"] in names and _copy_of(snapshot) in unfinished
            if meta["name"] not in cloned and not is_awaited and "deletionTimestamp" not in meta:
                self._gateway.delete(f"{self._snapshots}/{meta['name']}", uid=meta["uid"])

    def _mark(self, owner: Json, made: Mapping[str, Any]) -> None:
        annotations = {manifests.MADE: json.dumps(made)}
        metadata = {"uid": owner["metadata"]["uid"], "annotations": annotations}
        self._gateway.patch(f"{self._claims}/{owner['metadata']['name']}", {"metadata": metadata})

    def _go_on_removing(self, name: str) -> str:
        """Take the next step of a removal that is possible, and return what it waits for; empty: all is gone.

        Raises RemovalHeldUp for pods of others: nobody knows when they end, so no thread waits for them.
        """
        claim = self._gateway.get(f"{self._claims}/{name}")
        if claim is not None:
            pods = [pod for pod in self._gateway.list(self._pods).items if name in _claims_of(pod)]
            users = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in ENDED]
            if users:
                foreign = [pod for pod in users if manifests.SITE not in (pod["metadata"].get("labels") or {})]
                user = (foreign or users)[0]["metadata"]["name"]
                reason = f"the end of the pod {user}, which mounts the claim {name}"
                if foreign:
                    raise RemovalHeldUp(reason)
                return reason
            if reason := self._find_reader(self._list_shares(claim["spec"].get("volumeName", ""))):
                raise RemovalHeldUp(reason)
            if "deletionTimestamp" not in claim["metadata"]:
                self._gateway.delete(f"{self._claims}/{name}", uid=claim["metadata"]["uid"])
            if pods:  # the cluster counts an ended pod as a user until it is deleted
                return f"the removal of the ended pod {pods[0]['metadata']['name']}, which names the claim {name}"
            finalizers = ", ".join(claim["metadata"].get("finalizers") or [])
            return f"the claim {name}, which the cluster has not let go of yet ({finalizers})"
        for volume in self._gateway.list("/api/v1/persistentvolumes").items:
            reference = volume["spec"].get("claimRef") or {}
            if (reference.get("namespace"), reference.get("name")) != (self._connection.namespace, name):
                continue
            volume_name, policy = volume["metadata"]["name"], volume["spec"].get("persistentVolumeReclaimPolicy")
            if policy == "Retain":
                return f"the volume {volume_name}, which its storage class retains: delete it and its data by hand"
            message = (volume.get("status") or {}).get("message", "")
            return f"the volume {volume_name}, which the cluster is deleting. {message}".strip()
        self._collect_snapshots()  # Trident keeps a volume as long as there is a snapshot of it
        return self._find_trident_volume(name)

    def _find_reader(self, shares: Sequence[Share]) -> str:
        """Return what is waited for where claims of other namespaces share a volume; empty: none does."""
        for share in shares:
            pods = [pod for pod in self._gateway.list(pods_of(share)).items if share.claim in _claims_of(pod)]
            if users := [pod for pod in pods if (pod.get("status") or {}).get("phase") not in ENDED]:
                return f"the end of the pod {users[0]['metadata']['name']}, which mounts the claim {share}"
        return f"the removal of the claim {shares[0]}" if shares else ""

    def _find_trident_volume(self, name: str) -> str:
        """Return what Trident still has of a claim; it may keep a volume whose clones or snapshots are there."""
        for volume in self._list_trident_volumes():
            config = volume.get("config") or {}
            if (config.get("namespace"), config.get("requestName")) == (self._connection.namespace, name):
                return (
                    f"Trident's volume {volume['metadata']['name']} (state {volume.get('state')}): snapshots or "
                    "clones of it must go first"
                )
        return ""


def _copy_of(item: Json) -> str:
    return str((item["metadata"].get("annotations") or {}).get(manifests.COPY, ""))


def _asked(claim: Json) -> str:
    return str(claim["spec"]["resources"]["requests"]["storage"])


def _claims_of(pod: Json) -> set[str]:
    volumes = pod["spec"].get("volumes") or []
    return {volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume}
