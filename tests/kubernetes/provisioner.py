"""A stand-in for Trident in tests: it provisions claims of class `csi.trident.netapp.io` as folders of this machine.

It is not Trident. It repeats what a platform sees of the real controller: order and content of objects, events and
their texts, size rules of clones, retries, a full backend. Volumes are hostPath volumes, so only pods of a node on this
machine can mount them. It does not do: imports, resizing, quotas of volumes. It stands in for the cluster's snapshot
controller too.
"""

import contextlib
import shutil
import subprocess
import threading
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty, Queue

import httpx

from core.units import parse_bytes
from tests.kubernetes.api import Api, Manifest

DRIVER = "csi.trident.netapp.io"
STORAGE_CLASS = "trident-nas"
NAMESPACE = "trident"
BACKEND = "nas1"
LEAST_BYTES = 20 * 1024**2
"""What the NAS driver rounds smaller requests up to."""

_CRDS = {
    "TridentVolume": "tridentvolumes",
    "TridentBackend": "tridentbackends",
    "TridentVolumeReference": "tridentvolumereferences",
    "TridentVersion": "tridentversions",
}
SNAPSHOT_CLASS = "trident-snapshots"
_SNAPSHOTS = "/apis/snapshot.storage.k8s.io/v1"
_SNAPSHOT_CRDS = {
    "VolumeSnapshot": ("volumesnapshots", "Namespaced"),
    "VolumeSnapshotClass": ("volumesnapshotclasses", "Cluster"),
}
_OBJECTS = f"/apis/trident.netapp.io/v1/namespaces/{NAMESPACE}"
_CLAIMS = "/api/v1/persistentvolumeclaims"
_VOLUMES = "/api/v1/persistentvolumes"
_SNAPSHOT_FINALIZER = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection"
_FINALIZER = "external-provisioner.volume.kubernetes.io/finalizer"
_UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_RELIST_S = 2
_MAX_RETRY_S = 300


class RefusedError(Exception):
    """A claim cannot be provisioned now; the text is what the real controller says."""


@dataclass
class _Retry:
    """When a claim that failed is tried again: after a growing delay, or at once when the claim changed."""

    version: str
    due_at: float
    delay_s: float


@dataclass
class _Backend:
    capacity_bytes: int
    error: str = ""
    uuid: str = field(default_factory=lambda: str(uuid.uuid4()))


class Provisioner:
    """Serves one cluster from a thread until `stop`. `retry_s` is the first delay after a failure; Trident's is 10."""

    def __init__(self, api: Api, folder: Path, *, capacity_bytes: int = 100 * 2**30, retry_s: float = 10) -> None:
        self._api = api
        self._folder = folder
        self._first_retry_s = retry_s
        self._backend = _Backend(capacity_bytes)
        self._name = f"{DRIVER}_trident-controller_{uuid.uuid4()}"
        self._retries: dict[str, _Retry] = {}
        self._changes: Queue[Manifest] = Queue()
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Install the storage class and Trident's objects, and begin to provision."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._install()
        self.resume()

    def resume(self) -> None:
        """Go on after `stop` with what the cluster holds, as another process would."""
        self._stopped.clear()
        self._retries.clear()
        self._threads = [
            threading.Thread(target=self._watch, args=(_CLAIMS,)),
            threading.Thread(target=self._watch, args=(_VOLUMES,)),
            threading.Thread(target=self._watch, args=(f"{_SNAPSHOTS}/volumesnapshots",)),
            threading.Thread(target=self._serve),
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def resize_backend(self, capacity_bytes: int) -> None:
        """Change how much all volumes together may promise."""
        self._backend.capacity_bytes = capacity_bytes

    def break_backend(self, error: str) -> None:
        """Fail every create with this text from the array; empty: work again. The backend still says `online`."""
        self._backend.error = error

    def set_backend_state(self, state: str, reason: str = "") -> None:
        """Say what the array's next poll would find: `online`, or `offline` with a reason."""
        changes = {"state": state, "online": state == "online", "stateReason": reason or None}
        self._api.patch(f"{_OBJECTS}/tridentbackends/{BACKEND}", changes)

    def folder_of(self, volume: str) -> Path:
        """Return where the data of a persistent volume is on this machine."""
        return self._folder / volume

    def _install(self) -> None:
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        kinds = [("trident.netapp.io", kind, plural, "Namespaced") for kind, plural in _CRDS.items()]
        kinds += [("snapshot.storage.k8s.io", kind, *others) for kind, others in _SNAPSHOT_CRDS.items()]
        for group, kind, plural, scope in kinds:
            self._api.create(definitions, _definition(group, kind, plural, scope))
        for group, _, plural, _ in kinds:
            self._api.wait(f"{definitions}/{plural}.{group}", _is_established)
            self._api.wait_until_there(f"/apis/{group}/v1/{plural}")  # said a moment before it is served
        snapshots = {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass"}
        named = {"metadata": {"name": SNAPSHOT_CLASS}, "driver": DRIVER, "deletionPolicy": "Delete"}
        self._api.create(f"{_SNAPSHOTS}/volumesnapshotclasses", {**snapshots, **named})
        self._api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        backend = {"backendName": BACKEND, "backendUUID": self._backend.uuid, "state": "online", "online": True}
        self._create_object("TridentBackend", BACKEND, {**backend, "userState": "normal", "version": "1"})
        self._create_object(
            "TridentVersion", "trident", {"trident_version": "26.06.0", "trident_store_version": "crdv1"}
        )
        self._api.create(
            "/apis/storage.k8s.io/v1/storageclasses",
            {
                "metadata": {"name": STORAGE_CLASS},
                "provisioner": DRIVER,
                "parameters": {"backendType": "ontap-nas"},
                "reclaimPolicy": "Delete",
                "volumeBindingMode": "Immediate",
                "allowVolumeExpansion": True,
            },
        )

    def _create_object(self, kind: str, name: str, content: Manifest) -> None:
        manifest = {"apiVersion": "trident.netapp.io/v1", "kind": kind, "metadata": {"name": name}, **content}
        self._api.create(f"{_OBJECTS}/{_CRDS[kind]}", manifest)

    def _watch(self, path: str) -> None:
        """Feed the serving thread; each watch starts with all objects, so nothing is missed for long."""
        while not self._stopped.is_set():
            try:
                for kind, found in self._api.watch(path, timeout_s=_RELIST_S):
                    if kind in ("ADDED", "MODIFIED"):
                        self._changes.put(found)
            except (httpx.HTTPError, RuntimeError):  # the API server is away, or its client was closed
                self._stopped.wait(0.2)

    def _serve(self) -> None:
        while not self._stopped.is_set():
            with contextlib.suppress(Empty):
                changed = self._changes.get(timeout=0.2)
                with contextlib.suppress(httpx.HTTPError):  # the next list brings the object again
                    if "persistentVolumeReclaimPolicy" in changed["spec"]:
                        self._reclaim(changed)
                    elif "volumeSnapshotClassName" in changed["spec"]:
                        self._snapshot(changed)
                    else:
                        self._provision(changed)

    def _provision(self, claim: Manifest) -> None:
        metadata, spec = claim["metadata"], claim["spec"]
        annotations = metadata.get("annotations", {})
        is_ours = annotations.get("volume.kubernetes.io/storage-provisioner") == DRIVER
        volume = f"pvc-{metadata['uid']}"
        if not is_ours or spec.get("volumeName") or self._api.exists(f"{_VOLUMES}/{volume}"):
            return
        retry = self._retries.get(metadata["uid"])
        if retry and retry.version == metadata["resourceVersion"] and time.monotonic() < retry.due_at:
            return
        path = f"/api/v1/namespaces/{metadata['namespace']}/persistentvolumeclaims/{metadata['name']}"
        if not self._api.exists(path) or self._api.get(path)["metadata"]["uid"] != metadata["uid"]:
            return  # it went while it was queued here
        claim_name = f"{metadata['namespace']}/{metadata['name']}"
        self._record(
            claim, "Normal", "Provisioning", f'External provisioner is provisioning volume for claim "{claim_name}"'
        )
        try:
            size, source = self._admit(claim, volume)
        except RefusedError as refused:
            delay_s = min(retry.delay_s * 2, _MAX_RETRY_S) if retry else self._first_retry_s
            prefix = f'failed to provision volume with StorageClass "{spec["storageClassName"]}": '
            self._record(claim, "Warning", "ProvisioningFailed", f"{prefix}{refused}")
            self._retries[metadata["uid"]] = _Retry(metadata["resourceVersion"], time.monotonic() + delay_s, delay_s)
            return
        self._retries.pop(metadata["uid"], None)
        if is_share := _SHARE_OF in annotations:
            folder = self.folder_of(source)
        else:
            folder = self._make_folder(volume, source, annotations.get("trident.netapp.io/unixPermissions", "0777"))
        self._create_trident_volume(claim, volume, size, source, is_share=is_share)
        self._record(claim, "Normal", "ProvisioningSuccess", "provisioned a volume", component=DRIVER)
        self._create_volume(claim, volume, size, folder)
        self._record(claim, "Normal", "ProvisioningSucceeded", f"Successfully provisioned volume {volume}")

    def _admit(self, claim: Manifest, volume: str) -> tuple[int, str]:
        """Return the size of the new volume and the volume that it clones or shares, if any; raise Refused."""
        requested = parse_bytes(claim["spec"]["resources"]["requests"]["storage"])
        if shared := claim["metadata"].get("annotations", {}).get(_SHARE_OF):
            return requested, self._shared_volume(claim, shared, requested)
        source_claim = self._source_of(claim)
        volumes = self._api.list(f"{_OBJECTS}/tridentvolumes")
        source, size = "", max(requested, LEAST_BYTES)
        if (claim["spec"].get("dataSource") or {}).get("kind") == "VolumeSnapshot":
            source, size = self._source_snapshot(claim)
        elif source_claim:
            source = source_claim["spec"]["volumeName"]
            source_bytes = parse_bytes(source_claim["status"]["capacity"]["storage"])
            if requested > source_bytes:
                raise RefusedError(
                    f"rpc error: code = Unknown desc = requested PVC size '{requested}' is too large for the clone "
                    f"source '{source_bytes}'"
                )
            size = source_bytes
        sizes = [int(other["config"]["size"]) for other in volumes if other["state"] != _SUBORDINATE]
        free = self._backend.capacity_bytes - sum(sizes)
        failure = self._backend.error
        if not failure and size > free:
            failure = f"requested volume is too large, requested {size} bytes, have {free} available in pool aggr1"
        if failure:
            raise RefusedError(
                "rpc error: code = Unknown desc = encountered error(s) in creating the volume: [Failed to create "
                f"volume {volume} on storage pool aggr1 from backend {BACKEND}: backend cannot satisfy create request "
                f"for volume {_internal(volume)}: ({failure})]"
            )
        return size, source

    def _shared_volume(self, claim: Manifest, shared: str, requested: int) -> str:
        """Return the volume of a claim of another namespace, if that may be shared here; raise Refused."""
        namespace = claim["metadata"]["namespace"]
        source_namespace, name = shared.split("/")
        path = f"/apis/trident.netapp.io/v1/namespaces/{namespace}/tridentvolumereferences"
        references = [(each["spec"]["pvcNamespace"], each["spec"]["pvcName"]) for each in self._api.list(path)]
        if (source_namespace, name) not in references:
            raise RefusedError(f"volume reference {namespace}_{shared} not found in cache")
        path = f"/api/v1/namespaces/{source_namespace}/persistentvolumeclaims/{name}"
        source = self._api.get(path) if self._api.exists(path) else {"metadata": {}, "spec": {}}
        allowed = source["metadata"].get("annotations", {}).get("trident.netapp.io/shareToNamespace", "").split(",")
        if namespace not in allowed:
            raise RefusedError(f"subordinate volume source PVC is not shared with namespace {namespace}")
        if source["spec"]["storageClassName"] != claim["spec"]["storageClassName"]:
            raise RefusedError(
                f"subordinate PVC {claim['metadata']['name']} must have the same storage class as its source PVC {name}"
            )
        if "volumeName" not in source["spec"] or requested > parse_bytes(source["status"]["capacity"]["storage"]):
            volume = source["spec"].get("volumeName", "")
            raise RefusedError(f"source volume {volume} may not be smaller than subordinate volume")
        return source["spec"]["volumeName"]

    def _source_snapshot(self, claim: Manifest) -> tuple[str, int]:
        """Return the folder of the snapshot that a claim names, and the size of its volume; a smaller request will do."""
        path = f"{_SNAPSHOTS}/namespaces/{claim['metadata']['namespace']}/volumesnapshots"
        path = f"{path}/{claim['spec']['dataSource']['name']}"
        found = self._api.get(path) if self._api.exists(path) else {}
        if not found.get("status", {}).get("readyToUse"):
            raise RefusedError(f"error getting handle for DataSource Type VolumeSnapshot: snapshot {path} is not Ready")
        return _snapshot_name(found), int(found["metadata"]["annotations"][_VOLUME_SIZE])

    def _snapshot(self, snapshot: Manifest) -> None:
        """Keep what a volume holds, or remove it; a volume that was deleted before goes with its last snapshot."""
        meta = snapshot["metadata"]
        path = f"{_SNAPSHOTS}/namespaces/{meta['namespace']}/volumesnapshots/{meta['name']}"
        if "deletionTimestamp" in meta:
            shutil.rmtree(self.folder_of(_snapshot_name(snapshot)), ignore_errors=True)
            self._api.patch(path, {"metadata": {"finalizers": None}})
            self._release(_volume_of(snapshot))
        elif "status" not in snapshot and "status" not in self._api.get(path):  # it may be kept since it was listed
            source = snapshot["spec"]["source"]["persistentVolumeClaimName"]
            claim = self._api.get(f"/api/v1/namespaces/{meta['namespace']}/persistentvolumeclaims/{source}")
            volume = claim["spec"]["volumeName"]
            size = str(parse_bytes(claim["status"]["capacity"]["storage"]))
            self._make_folder(_snapshot_name(snapshot), volume, "")
            annotations = {_VOLUME: volume, _VOLUME_SIZE: size}
            kept = {"finalizers": [_SNAPSHOT_FINALIZER], "annotations": annotations}
            # The array tells what is in use as the size to restore, not the size of the volume.
            self._api.patch(path, {"metadata": kept, "status": {"readyToUse": True, "restoreSize": "2Mi"}})

    def _release(self, volume: str) -> None:
        """Remove a volume whose claim is gone, unless a snapshot of it is left, or a claim that shares it."""
        path = f"{_OBJECTS}/tridentvolumes/{volume}"
        if not volume or not self._api.exists(path) or self._api.get(path)["state"] != "deleting":
            return
        snapshots = self._api.list(f"{_SNAPSHOTS}/volumesnapshots")
        others = self._api.list(f"{_OBJECTS}/tridentvolumes")
        is_shared = any(other["config"].get("shareSourceVolume") == volume for other in others)
        if not is_shared and not any(_volume_of(snapshot) == volume for snapshot in snapshots):
            shutil.rmtree(self.folder_of(volume), ignore_errors=True)
            self._api.patch(path, {"metadata": {"finalizers": None}})
            self._api.delete(path)

    def _source_of(self, claim: Manifest) -> Manifest | None:
        """Return the claim to clone: by annotation, where any smaller request will do, or by data source."""
        namespace = claim["metadata"]["namespace"]
        annotation = claim["metadata"].get("annotations", {}).get("trident.netapp.io/cloneFromPVC")
        source = claim["spec"].get("dataSource") or {}
        name = annotation or (source.get("name") if source.get("kind") == "PersistentVolumeClaim" else None)
        if name is None:
            return None
        path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"
        found = self._api.get(path) if self._api.exists(path) else None
        if found is None and annotation:
            raise RefusedError(
                f"rpc error: code = Unknown desc = source PVC not found in namespace: PVC {namespace}/{name} was not "
                "in cache after 10.00 seconds"
            )
        if found is None:
            raise RefusedError(
                f"error getting handle for DataSource Type PersistentVolumeClaim by Name {name}: error getting PVC "
                f'{name} (namespace "{namespace}") from api server: persistentvolumeclaim "{name}" not found'
            )
        if found["status"]["phase"] != "Bound":
            raise RefusedError(f"the PVC {name} is not yet bound to a PV")
        requested = parse_bytes(claim["spec"]["resources"]["requests"]["storage"])
        source_bytes = parse_bytes(found["status"]["capacity"]["storage"])
        if not annotation and requested < source_bytes:
            raise RefusedError(
                f"error getting handle for DataSource Type PersistentVolumeClaim by Name {name}: error, new PVC "
                "request must be greater than or equal in size to the specified PVC data source, requested "
                f"{requested} but source is {source_bytes}"
            )
        return found

    def _make_folder(self, volume: str, source: str, mode: str) -> Path:
        """Make the volume's folder, with the source's content in it; the name appears in one step."""
        folder, draft = self.folder_of(volume), self._folder / f"draft-{volume}"
        shutil.rmtree(draft, ignore_errors=True)
        if source:
            copy = ["cp", "--archive", "--reflink=auto", self.folder_of(source), draft]
            subprocess.run(copy, check=True)
        else:
            draft.mkdir()
            draft.chmod(int(mode, 8))
        shutil.rmtree(folder, ignore_errors=True)
        return draft.rename(folder)

    def _create_trident_volume(self, claim: Manifest, volume: str, size: int, source: str, *, is_share: bool) -> None:
        metadata = claim["metadata"]
        annotations = metadata.get("annotations", {})
        options = {
            name: annotations.get(f"trident.netapp.io/{name}", default)
            for name, default in (
                ("snapshotPolicy", "none"),
                ("snapshotDirectory", "false"),
                ("unixPermissions", "0777"),
                ("skipRecoveryQueue", "false"),
            )
        }
        config = {
            "name": volume,
            "internalName": _internal(volume),
            "size": str(size),
            "storageClass": claim["spec"]["storageClassName"],
            "accessMode": claim["spec"]["accessModes"][0],
            "protocol": "file",
            "namespace": metadata["namespace"],
            "requestName": metadata["name"],
            **options,
            **({"shareSourceVolume" if is_share else "cloneSourceVolume": source} if source else {}),
        }
        state = _SUBORDINATE if is_share else "online"
        content = {"backendUUID": self._backend.uuid, "pool": "aggr1", "state": state, "orphaned": False}
        path = f"{_OBJECTS}/tridentvolumes/{volume}"
        if not self._api.exists(path):  # it is there when this process ended before it made the volume
            self._create_object("TridentVolume", volume, {**content, "config": config})
            self._api.patch(path, {"metadata": {"finalizers": ["trident.netapp.io"]}})

    def _create_volume(self, claim: Manifest, volume: str, size: int, folder: Path) -> None:
        metadata, spec = claim["metadata"], claim["spec"]
        storage_class = self._api.get(f"/apis/storage.k8s.io/v1/storageclasses/{spec['storageClassName']}")
        self._api.create(
            _VOLUMES,
            {
                "metadata": {
                    "name": volume,
                    "annotations": {"pv.kubernetes.io/provisioned-by": DRIVER},
                    "finalizers": [_FINALIZER],
                },
                "spec": {
                    "capacity": {"storage": to_quantity(size)},
                    "accessModes": spec["accessModes"],
                    "persistentVolumeReclaimPolicy": storage_class["reclaimPolicy"],
                    "storageClassName": spec["storageClassName"],
                    "volumeMode": "Filesystem",
                    "hostPath": {"path": str(folder), "type": "Directory"},
                    "claimRef": {
                        "apiVersion": "v1",
                        "kind": "PersistentVolumeClaim",
                        "namespace": metadata["namespace"],
                        "name": metadata["name"],
                        "uid": metadata["uid"],
                    },
                },
            },
        )

    def _reclaim(self, volume: Manifest) -> None:
        """Delete a released volume: the data first, then Trident's object, then the volume itself."""
        name = volume["metadata"]["name"]
        is_ours = volume["metadata"].get("annotations", {}).get("pv.kubernetes.io/provisioned-by") == DRIVER
        is_released = volume.get("status", {}).get("phase") == "Released" or "deletionTimestamp" in volume["metadata"]
        if not is_ours or not is_released or volume["spec"]["persistentVolumeReclaimPolicy"] != "Delete":
            return
        trident_volume = f"{_OBJECTS}/tridentvolumes/{name}"
        shared = ""
        if self._api.exists(trident_volume):
            shared = self._api.get(trident_volume)["config"].get("shareSourceVolume", "")
            self._api.patch(trident_volume, {"state": "deleting"})
        self._release(name)
        self._release(shared)
        if self._api.exists(f"{_VOLUMES}/{name}"):
            self._api.delete(f"{_VOLUMES}/{name}")
            self._api.patch(f"{_VOLUMES}/{name}", {"metadata": {"finalizers": None}})

    def _record(self, claim: Manifest, kind: str, reason: str, message: str, *, component: str = "") -> None:
        """Write an event about a claim; the same text again raises its count."""
        metadata = claim["metadata"]
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        path = f"/api/v1/namespaces/{metadata['namespace']}/events"
        name = f"{metadata['name']}.{uuid.uuid5(uuid.UUID(metadata['uid']), reason + message).hex[:16]}"
        if self._api.exists(f"{path}/{name}"):
            count = self._api.get(f"{path}/{name}")["count"] + 1
            self._api.patch(f"{path}/{name}", {"count": count, "lastTimestamp": now})
            return
        involved = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "uid": metadata["uid"]}
        involved |= {"namespace": metadata["namespace"], "name": metadata["name"]}
        event = {
            "type": kind,
            "reason": reason,
            "message": message,
            "count": 1,
            "source": {"component": component or self._name},
        }
        times = {"firstTimestamp": now, "lastTimestamp": now}
        self._api.create(path, {"metadata": {"name": name}, "involvedObject": involved, **event, **times})


def to_quantity(size: int) -> str:
    """Write bytes as the largest binary unit that divides them."""
    unit = next((unit for unit in ("Ti", "Gi", "Mi", "Ki") if size % _UNITS[unit] == 0), "")
    return f"{size // _UNITS[unit]}{unit}"


_VOLUME, _VOLUME_SIZE = "stand-in/volume", "stand-in/size"
_SHARE_OF, _SUBORDINATE = "trident.netapp.io/shareFromPVC", "subordinate"


def _volume_of(snapshot: Manifest) -> str:
    return snapshot["metadata"].get("annotations", {}).get(_VOLUME, "")


def _snapshot_name(snapshot: Manifest) -> str:
    return f"snapshot-{snapshot['metadata']['uid']}"


def _internal(volume: str) -> str:
    return f"trident_{volume.replace('-', '_')}"


def _definition(group: str, kind: str, plural: str, scope: str = "Namespaced") -> Manifest:
    """Define a kind of objects; as with Trident's real ones, any content passes."""
    approved = {"api-approved.kubernetes.io": "https://github.com/kubernetes-csi/external-snapshotter/pull/814"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "metadata": {"name": f"{plural}.{group}", "annotations": approved},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def _is_established(definition: Manifest) -> bool:
    conditions = definition.get("status", {}).get("conditions") or []
    return any(item["type"] == "Established" and item["status"] == "True" for item in conditions)
