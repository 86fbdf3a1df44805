"""Claims of another namespace that jobs read: a claim here shares the volume of one there, under the same name.

Trident mounts a volume in a further namespace where the claim says so (the cache site sees to that), and a
TridentVolumeReference and a claim with an annotation are there. Both are made with the first job that reads the volume,
and deleted when no pod names the claim any more.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from compute.adapters.kubernetes import manifests
from compute.adapters.kubernetes.manifests import PodSettings
from compute.engine.job_spec import Mount, Volume
from compute.errors import ResourceUnreachable
from core.kubernetes import provisioners
from core.kubernetes.gateway import Gateway

Json = dict[str, Any]

_USED_AT = f"{manifests.DOMAIN}/used-at"
KEEP = timedelta(minutes=10)
"""So long a claim stays after a job was to start with it: that may not have its pod yet."""


def have_shares(gateway: Gateway, settings: PodSettings, mounts: Iterable[Mount], now: datetime) -> None:
    """Have the claims that share what these mounts read in other namespaces.

    Raises Refusal, and ResourceUnreachable while an earlier one is being removed.
    """
    for volume in _volumes_of(mounts, settings):
        path = f"{_claims(settings)}/{volume.claim}"
        claim = gateway.get(path)
        if claim is None:
            gateway.create(_references(settings), _build_reference(volume, settings))
            gateway.create(_claims(settings), _build_claim(volume, settings, now))
        elif "deletionTimestamp" in claim["metadata"]:
            raise ResourceUnreachable(
                f"The claim {volume.claim}, by which others read the same volume, is being removed."
            )
        elif _is_older(claim["metadata"], now - KEEP / 2):
            gateway.patch(path, {"metadata": {"annotations": {_USED_AT: now.isoformat()}}})


def delete_idle(gateway: Gateway, settings: PodSettings, now: datetime, leaving: Collection[str] = ()) -> None:
    """Delete the claims that share volumes and that no pod names, ended ones included. Raises Refusal.

    Those of volumes that are to go, `leaving`, go at once: no job begins to read them any more.
    """
    selector = f"{manifests.selector(settings)},{manifests.SHARED}"
    claims = gateway.list_metadata(_claims(settings), selector)
    due = [meta for meta in claims if meta["name"] in leaving or _is_older(meta, now - KEEP)]
    if not due:
        return
    used = manifests.claims_of(gateway.list(f"/api/v1/namespaces/{settings.namespace}/pods").items)
    for meta in due:
        if meta["name"] not in used:
            gateway.delete(f"{_references(settings)}/{meta['name']}")
            gateway.delete(f"{_claims(settings)}/{meta['name']}", uid=meta["uid"])


def _volumes_of(mounts: Iterable[Mount], settings: PodSettings) -> Sequence[Volume]:
    sources = dict.fromkeys(mount.source for mount in mounts)
    return [each for each in sources if isinstance(each, Volume) and each.namespace not in {"", settings.namespace}]


def _build_reference(volume: Volume, settings: PodSettings) -> Json:
    return {
        "apiVersion": f"{provisioners.TRIDENT_GROUP}/v1",
        "kind": "TridentVolumeReference",
        "metadata": {"name": volume.claim, "labels": _labels(settings)},
        "spec": {"pvcName": volume.claim, "pvcNamespace": volume.namespace},
    }


def _build_claim(volume: Volume, settings: PodSettings, now: datetime) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": volume.claim,
            "labels": _labels(settings),
            "annotations": {provisioners.SHARE_OF: f"{volume.namespace}/{volume.claim}", _USED_AT: now.isoformat()},
        },
        "spec": {
            "accessModes": ["ReadOnlyMany"],
            "storageClassName": volume.storage_class,
            # No quota of the volume: it may only not be more than that has, which is a GiB at least.
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def _labels(settings: PodSettings) -> dict[str, str]:
    return {**manifests.labels(settings), manifests.SHARED: "true"}


def _claims(settings: PodSettings) -> str:
    return f"/api/v1/namespaces/{settings.namespace}/persistentvolumeclaims"


def _references(settings: PodSettings) -> str:
    return f"/apis/{provisioners.TRIDENT_GROUP}/v1/namespaces/{settings.namespace}/tridentvolumereferences"


def _is_older(meta: Json, moment: datetime) -> bool:
    used_at = (meta.get("annotations") or {}).get(_USED_AT)
    return used_at is not None and datetime.fromisoformat(used_at) < moment
