"""From what a cluster says of its storage to what an admin should see of it: pure.

Kubernetes does not tell whether the volumes of a class can be mounted on many nodes: that is known of the provisioners
here, and of Trident by the driver of its backends.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from compute.engine.ports import BackendFacts, QuotaFacts, StorageFacts
from core.kubernetes import provisioners

Json = Mapping[str, Any]

_MANY, _ONE, _UNKNOWN = "many nodes", "one node", "unknown"
# Beginnings or ends of the names of provisioners.
_OF_MANY = ("nfs.csi.k8s.io", "cephfs.csi.ceph.com", "efs.csi.aws.com", "file.csi.azure.com", "filestore.csi", "lustre")
_OF_ONE = ("rbd.csi.ceph.com", "ebs.csi.aws.com", "disk.csi.azure.com", "pd.csi.storage.gke.io", "local-path")
_FILE_DRIVERS = ("ontap-nas", "azure-netapp-files", "google-cloud-netapp-volumes", "gcp-cvs", "aws-cvs")
_WORDS = {None: "unknown", True: "yes", False: "no"}
_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def read_classes(
    classes: Iterable[Json], backends: Collection[BackendFacts], snapshot_classes: Iterable[Json] | None = None
) -> tuple[StorageFacts, ...]:
    """Return the storage classes by name. `snapshot_classes` is None where the account may not read them."""
    drivers = None if snapshot_classes is None else {item.get("driver") for item in snapshot_classes}
    facts = [
        StorageFacts(
            name=item["metadata"]["name"],
            provisioner=str(item.get("provisioner", "")),
            access=_access_of(item, backends),
            is_default=(item["metadata"].get("annotations") or {}).get(_DEFAULT) == "true",
            snapshots=_WORDS[None if drivers is None else item.get("provisioner") in drivers],
            clones=_WORDS[provisioners.can_clone(str(item.get("provisioner", "")))],
        )
        for item in classes
    ]
    return tuple(sorted(facts, key=lambda storage: storage.name))


def read_backends(backends: Iterable[Json]) -> tuple[BackendFacts, ...]:
    """Return the backends that Trident's objects tell, by name."""
    facts = [
        BackendFacts(
            name=str(item.get("backendName", "")),
            driver=_driver_of(item),
            state=_state_of(item),
            reason=str(item.get("stateReason") or ""),
        )
        for item in backends
    ]
    return tuple(sorted(facts, key=lambda backend: backend.name))


def read_trident_version(versions: Iterable[Json]) -> str:
    """Return the version that Trident has written down of itself; empty: it has written none."""
    return next(filter(None, (str(item.get("trident_version") or "") for item in versions)), "")


def read_quotas(quotas: Iterable[Json]) -> tuple[QuotaFacts, ...]:
    """Return what the quotas of a namespace leave, by name and resource."""
    facts = []
    for item in quotas:
        status = item.get("status") or {}
        hard, used = status.get("hard") or item.get("spec", {}).get("hard") or {}, status.get("used") or {}
        facts += [
            QuotaFacts(item["metadata"]["name"], resource, str(used.get(resource, "0")), str(amount))
            for resource, amount in hard.items()
        ]
    return tuple(sorted(facts, key=lambda quota: (quota.quota, quota.resource)))


def _driver_of(backend: Json) -> str:
    """Return the name of a backend's driver, which lies in the part of its config that is named after its family."""
    parts = (backend.get("config") or {}).values()
    names = (
        part.get("storageDriverName") or part.get("CommonStorageDriverConfig", {}).get("storageDriverName")
        for part in parts
        if isinstance(part, Mapping)
    )
    return str(next(filter(None, names), ""))


def _state_of(backend: Json) -> str:
    state = str(backend.get("state") or "unknown")
    return f"{state}, suspended" if backend.get("userState") == "suspended" else state


def _access_of(storage_class: Json, backends: Collection[BackendFacts]) -> str:
    provisioner = str(storage_class.get("provisioner", ""))
    if provisioner == provisioners.TRIDENT:
        backend_type = (storage_class.get("parameters") or {}).get("backendType", "")
        drivers = {backend_type} if backend_type else {backend.driver for backend in backends if backend.driver}
        are_files = {driver.startswith(_FILE_DRIVERS) for driver in drivers}
        return {frozenset({True}): _MANY, frozenset({False}): _ONE}.get(frozenset(are_files), _UNKNOWN)
    if "nfs" in provisioner or provisioner.endswith(_OF_MANY) or provisioner.startswith(_OF_MANY):
        return _MANY
    return _ONE if provisioner.endswith(_OF_ONE) else _UNKNOWN
