"""From a copy to the objects of the cluster: pure, so that the same copy makes the same objects."""

import json
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from core.kubernetes import provisioners
from core.kubernetes.connections import ClusterConnection
from datasets.engine.cache_ports import CopyRequest
from datasets.engine.volumes import FILES, GIB, SHARED, claim_bytes, claim_name, pool_claim_name

Json = dict[str, Any]
Config = Mapping[str, Any]

DOMAIN = "nearline.dev"
SITE = f"{DOMAIN}/cache-site"
"""The label of all that belongs to a site. Its value is the site's id, which no other installation has."""
SNAPSHOTS = "snapshot.storage.k8s.io"
"""The group of the cluster's snapshots of volumes."""
COPY, LOCATION, MADE = f"{DOMAIN}/copy", f"{DOMAIN}/location", f"{DOMAIN}/made"
"""Annotations of a claim or record: its copy's id and location, and what was made of it, once it is ready."""
SIGNED_AT = f"{DOMAIN}/signed-at"
CONTAINER = "copy"
_MANAGED = {"app.kubernetes.io/managed-by": "nearline"}
HOPELESS = 3
"""The exit code by which a pod says that another one would fail as well."""
MISUNDERSTOOD = 2
"""The exit code of a pod whose image does not know what it is told to do, as it is older than the platform."""
_TOKEN_FOLDER = "/token"  # noqa: S105 (a path)
_RETRIES = 6
_RESOURCES = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}}


@dataclass(frozen=True)
class Storage:
    """A volume as pods name it, such as `{"nfs": {...}}`, and the folder of a copy in it; empty: its top.

    One that `is_ours` holds what we have made. Another one is only read, and its folder has the files themselves.
    """

    volume: Mapping[str, Mapping[str, Any]]
    folder: str = ""
    is_ours: bool = True

    @property
    def files(self) -> str:
        """The folder that has the files of the copy."""
        if not self.is_ours:
            return self.folder
        return f"{self.folder}/{FILES}" if self.folder else FILES

    def mounted(self, name: str, *, read_only: bool = False) -> Json:
        """Return the volume of a pod."""
        (kind, source), *_ = self.volume.items()
        return {"name": name, kind: {**source, **({"readOnly": True} if read_only or not self.is_ours else {})}}


def claim_storage(claim: str, folder: str = "") -> Storage:
    """Return a claim of the namespace."""
    return Storage({"persistentVolumeClaim": {"claimName": claim}}, folder)


def export_storage(server: str, path: str, folder: str = "") -> Storage:
    """Return an export of an NFS server."""
    return Storage({"nfs": {"server": server, "path": path}}, folder)


def existing_storage(config: Mapping[str, Any]) -> Storage:
    """Return a folder of a claim or export that is not ours."""
    made = claim_storage(config["claim"]) if config.get("claim") else export_storage(config["server"], config["path"])
    return replace(made, folder=str(config.get("folder", "")), is_ours=False)


@dataclass(frozen=True)
class Source:
    """A claim to clone: its name and its exact size. It is cloned from a snapshot of its name, if it `has_snapshot`."""

    claim: str
    capacity: str
    has_snapshot: bool = False

    @property
    def reference(self) -> Json:
        """What a clone names as its source."""
        if self.has_snapshot:
            return {"apiGroup": SNAPSHOTS, "kind": "VolumeSnapshot", "name": self.claim}
        return {"kind": "PersistentVolumeClaim", "name": self.claim}


def build_claim(copy: CopyRequest, *, site_id: str, config: Config, source: Source | None) -> Json:
    """Return the claim of a copy. A clone asks for exactly the size of its source, which storage requires."""
    whole_gib = claim_bytes(files=copy.files, size_bytes=copy.size_bytes) // GIB
    spec: Json = {
        # Read-only claims could not be filled; readers mount it read-only.
        "accessModes": ["ReadWriteMany"],
        "storageClassName": config["storage_class"],
        "resources": {"requests": {"storage": source.capacity if source else f"{whole_gib}Gi"}},
    }
    if source is not None:
        spec["dataSource"] = source.reference
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": claim_name(copy.id),
            "labels": labels(site_id),
            "annotations": {COPY: copy.id, LOCATION: copy.location, **_annotations(config)},
        },
        "spec": spec,
    }


def build_snapshot(claim: str, *, site_id: str, snapshot_class: str, copy_id: str) -> Json:
    """Return the snapshot of a claim from which all its clones are made; the copy is the one that needs it first."""
    return {
        "apiVersion": f"{SNAPSHOTS}/v1",
        "kind": "VolumeSnapshot",
        "metadata": {"name": claim, "labels": labels(site_id), "annotations": {COPY: copy_id}},
        "spec": {"volumeSnapshotClassName": snapshot_class, "source": {"persistentVolumeClaimName": claim}},
    }


def snapshot_of(claim: Json) -> str:
    """Return the name of the snapshot of which a claim is a clone; empty: of none."""
    source = claim["spec"].get("dataSource") or {}
    return str(source["name"]) if source.get("kind") == "VolumeSnapshot" else ""


def build_pool_claim(*, site_id: str, config: Config) -> Json:
    """Return the claim in which each copy of a site is a folder."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": pool_claim_name(site_id),
            "labels": labels(site_id),
            "annotations": _annotations(config),
        },
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": config["storage_class"],
            "resources": {"requests": {"storage": f"{-(-int(config['size_bytes']) // GIB)}Gi"}},
        },
    }


def share_annotation(config: Config) -> dict[str, str | None]:
    """Return with which namespaces the claims of a site are shared; without a value, the annotation is to go."""
    return {provisioners.SHARED_WITH: ",".join(sorted(set(config.get(SHARED, {}).values()))) or None}


def _annotations(config: Config) -> dict[str, str]:
    """Return what the provisioner is to be told of a claim."""
    if config.get("provisioner") != provisioners.TRIDENT:
        return {}
    return provisioners.CLAIM_ANNOTATIONS | {key: value for key, value in share_annotation(config).items() if value}


def build_record(name: str, *, site_id: str, annotations: Mapping[str, str], owner: Json | None = None) -> Json:
    """Return an object that notes something of a copy in a pool. It holds no secret: the account may make no other."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "labels": labels(site_id),
            "annotations": dict(annotations),
            "ownerReferences": [_owner(owner)] if owner else [],
        },
        "type": "Opaque",
    }


def build_secret(name: str, owner: Json, *, site_id: str, token: str, signed_at: str) -> Json:
    """Return the Secret with the token of a copy's pods; the cluster deletes it with its owner."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "labels": labels(site_id),
            "annotations": {SIGNED_AT: signed_at},
            "ownerReferences": [_owner(owner)],
        },
        "type": "Opaque",
        "stringData": {"token": token},
    }


def build_job(
    name: str,
    owner: Json,
    connection: ClusterConnection,
    *,
    site_id: str,
    duty: str,
    storage: Storage,
    options: tuple[str, ...] = (),
    donor: Storage | None = None,
    pods: int = 1,
) -> Json:
    """Return the Job whose pods fill, verify or remove a copy, and another one where one was killed.

    Each of several `pods` has a share of the work, whose number the cluster gives it.
    """
    volumes: list[Json] = [storage.mounted("volume"), {"name": "token", "secret": {"secretName": name}}]
    mounts: list[Json] = [
        {"name": "volume", "mountPath": "/volume", **_mounted_part(storage)},
        {"name": "token", "mountPath": _TOKEN_FOLDER, "readOnly": True},
    ]
    command = ["python3", "-m", "nearline.pod.copies", duty, "/volume"]
    if donor is not None:
        volumes.append(donor.mounted("donor", read_only=True))
        mounts.append({"name": "donor", "mountPath": "/donor", "subPath": donor.files, "readOnly": True})
        command.append("/donor")
    if storage.folder and storage.is_ours:
        command += ["--copy", storage.folder]
    env = {
        "NEARLINE_URL": connection.platform_url.replace("$", "$$"),
        "NEARLINE_COPY_TOKEN_FILE": f"{_TOKEN_FOLDER}/token",
    }
    pod = _build_pod(connection, [*command, *options], env=env, volumes=volumes, mounts=mounts)
    indexed: Json = {}
    if pods > 1:
        indexed = {"completionMode": "Indexed", "completions": pods, "parallelism": pods}
        pod["topologySpreadConstraints"] = [_spread(name)]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels(site_id), "ownerReferences": [_owner(owner)]},
        "spec": {
            **indexed,
            "backoffLimit": _RETRIES * pods,
            # Two pods that write the same files would never agree.
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {
                "rules": [
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
                    {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [MISUNDERSTOOD, HOPELESS]}},
                ]
            },
            "template": {"metadata": {"labels": labels(site_id)}, "spec": pod},
        },
    }


def pods_of_job(job: Json) -> int:
    """Return into how many shares the work of a Job is divided; 1: it is not."""
    spec = job["spec"]
    return int(spec["completions"]) if spec.get("completionMode") == "Indexed" else 1


def _spread(job: str) -> Json:
    """Return that the pods of a Job are put on as many nodes as possible: each brings its own network link."""
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"batch.kubernetes.io/job-name": job}},
    }


def _mounted_part(storage: Storage) -> Json:
    """Return what of a volume pods see that is not ours: the folder, read-only."""
    if storage.is_ours:
        return {}
    return {"readOnly": True, **({"subPath": storage.folder} if storage.folder else {})}


def build_probe_claim(name: str, storage_class: Json, owner: Json, *, source: str) -> Json:
    """Return the claim of a probe, or its clone; the cluster deletes it with its owner, a Job."""
    spec: Json = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": storage_class["metadata"]["name"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    if source:
        spec["dataSource"] = {"kind": "PersistentVolumeClaim", "name": source}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "labels": _MANAGED,
            "annotations": provisioners.CLAIM_ANNOTATIONS
            if storage_class["provisioner"] == provisioners.TRIDENT
            else {},
            "ownerReferences": [_owner(owner)],
        },
        "spec": spec,
    }


def build_probe_job(
    name: str,
    claim: str,
    connection: ClusterConnection,
    *,
    script: str,
    owner: Json | None,
    is_read_only: bool,
    deadline_s: int,
) -> Json:
    """Return a Job of a probe, which runs a Python script with a claim at /volume. After its deadline it is deleted."""
    volumes: list[Json] = [
        {"name": "volume", "persistentVolumeClaim": {"claimName": claim, "readOnly": is_read_only}},
    ]
    mounts: list[Json] = [{"name": "volume", "mountPath": "/volume", "readOnly": is_read_only}]
    pod = _build_pod(connection, ["python3", "-c", script.replace("$", "$$")], env={}, volumes=volumes, mounts=mounts)
    pod["containers"][0]["terminationMessagePolicy"] = "FallbackToLogsOnError"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "labels": _MANAGED,
            "ownerReferences": [_owner(owner)] if owner else [],
        },
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": deadline_s,
            "ttlSecondsAfterFinished": deadline_s,
            "template": {"metadata": {"labels": _MANAGED}, "spec": pod},
        },
    }


def labels(site_id: str) -> dict[str, str]:
    """Return the labels of all that belongs to a site."""
    return {**_MANAGED, SITE: site_id}


def end_of(job: Json) -> str:
    """Return `Complete` or `Failed`; empty: it goes on."""
    conditions = (job.get("status") or {}).get("conditions") or []
    ends = {"Complete", "Failed"}
    return next((item["type"] for item in conditions if item["type"] in ends and item["status"] == "True"), "")


def read_made(item: Json) -> Mapping[str, Any] | None:
    """Return what was made of a copy, as a claim or record says; None when it is not ready."""
    text = (item["metadata"].get("annotations") or {}).get(MADE)
    made: Mapping[str, Any] | None = json.loads(text) if text else None
    return made


def mounts(pod: Json, storage: Storage) -> bool:
    """Say whether a container of a pod mounts the folder of a copy, one that it lies in, or one that lies in it."""
    spec = pod["spec"]
    ((kind, ours),) = storage.volume.items()
    tops = {
        volume["name"]: str(volume[kind].get("path", ""))
        for volume in spec.get("volumes") or []
        if kind in volume and all(volume[kind].get(key) == ours[key] for key in {"claimName", "server"} & set(ours))
    }
    copy = _as_folder(str(ours.get("path", "")), storage.folder)
    containers = [*(spec.get("initContainers") or []), *spec["containers"]]
    folders = [
        _as_folder(tops[mount["name"]], mount.get("subPath", ""))
        for container in containers
        for mount in container.get("volumeMounts") or []
        if mount["name"] in tops
    ]
    return any(folder.startswith(copy) or copy.startswith(folder) for folder in folders)


def _as_folder(top: str, path: str) -> str:
    return posixpath.normpath(f"/{top}/{path}").rstrip("/").replace("//", "/") + "/"


def _build_pod(
    connection: ClusterConnection,
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    volumes: Sequence[Json],
    mounts: Sequence[Json],
) -> Json:
    """Return the spec of a pod of ours, as restricted as clusters ask for."""
    env = {**env, "PYTHONDONTWRITEBYTECODE": "1"}
    pod: Json = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": connection.user_id,
            "runAsGroup": connection.user_id,
            "fsGroup": connection.user_id,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": CONTAINER,
                "image": connection.agent_image,
                "imagePullPolicy": connection.pull_policy,
                "command": list(command),
                "env": [{"name": key, "value": value} for key, value in env.items()],
                "resources": _RESOURCES,
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                    "readOnlyRootFilesystem": True,
                },
                "volumeMounts": list(mounts),
            }
        ],
        "volumes": list(volumes),
    }
    for key, value in (
        ("priorityClassName", connection.priority_class),
        ("imagePullSecrets", [{"name": secret} for secret in connection.image_pull_secrets]),
        ("nodeSelector", dict(connection.node_selector)),
        ("tolerations", [dict(toleration) for toleration in connection.tolerations]),
    ):
        if value:
            pod[key] = value
    return pod


def _owner(owner: Json) -> Json:
    meta = owner["metadata"]
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
