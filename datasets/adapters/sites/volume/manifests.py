"""From a copy to the objects of the cluster: pure, so that the same copy makes the same objects."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.kubernetes import trident
from core.kubernetes.connections import ClusterConnection
from datasets.engine.cache_ports import CopyRequest
from datasets.engine.volumes import FILES, GIB, claim_bytes, claim_name

Json = dict[str, Any]

DOMAIN = "nearline.dev"
SITE = f"{DOMAIN}/cache-site"
"""The label of all that belongs to a site. Its value is the site's id, which no other installation has."""
COPY, LOCATION, MADE = f"{DOMAIN}/copy", f"{DOMAIN}/location", f"{DOMAIN}/made"
"""Annotations of a claim: its copy's id and location, and what was made of it, once it is ready."""
SIGNED_AT = f"{DOMAIN}/signed-at"
CONTAINER = "copy"
_MANAGED = {"app.kubernetes.io/managed-by": "nearline"}
HOPELESS = 3
"""The exit code by which a pod says that another one would fail as well."""
_TOKEN_FOLDER = "/token"  # noqa: S105 (a path)
_RETRIES = 6
_RESOURCES = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}}


@dataclass(frozen=True)
class Source:
    """A claim to clone: its name and its exact size."""

    claim: str
    capacity: str


def build_claim(
    copy: CopyRequest, *, site_id: str, storage_class: str, provisioner: str, source: Source | None
) -> Json:
    """Return the claim of a copy. A clone asks for exactly the size of its source, which storage requires."""
    whole_gib = claim_bytes(files=copy.files, size_bytes=copy.size_bytes) // GIB
    spec: Json = {
        # Read-only claims could not be filled; readers mount it read-only.
        "accessModes": ["ReadWriteMany"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": source.capacity if source else f"{whole_gib}Gi"}},
    }
    if source is not None:
        spec["dataSource"] = {"kind": "PersistentVolumeClaim", "name": source.claim}
    annotations = {COPY: copy.id, LOCATION: copy.location}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": claim_name(copy.id),
            "labels": labels(site_id),
            "annotations": annotations | (trident.CLAIM_ANNOTATIONS if provisioner == trident.PROVISIONER else {}),
        },
        "spec": spec,
    }


def build_secret(name: str, claim: Json, *, site_id: str, token: str, signed_at: str) -> Json:
    """Return the Secret with the token of a copy's pods."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "labels": labels(site_id),
            "annotations": {SIGNED_AT: signed_at},
            "ownerReferences": [_owner(claim)],
        },
        "type": "Opaque",
        "stringData": {"token": token},
    }


def build_job(
    name: str,
    claim: Json,
    connection: ClusterConnection,
    *,
    site_id: str,
    duty: str,
    options: tuple[str, ...] = (),
    donor_claim: str = "",
) -> Json:
    """Return the Job whose pods fill or verify a copy: one pod at a time, and another one where one was killed."""
    volumes: list[Json] = [
        {"name": "volume", "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}},
        {"name": "token", "secret": {"secretName": name}},
    ]
    mounts: list[Json] = [
        {"name": "volume", "mountPath": "/volume"},
        {"name": "token", "mountPath": _TOKEN_FOLDER, "readOnly": True},
    ]
    command = ["python3", "-m", "nearline.pod.copies", duty, "/volume"]
    if donor_claim:
        volumes.append({"name": "donor", "persistentVolumeClaim": {"claimName": donor_claim, "readOnly": True}})
        mounts.append({"name": "donor", "mountPath": "/donor", "subPath": FILES, "readOnly": True})
        command.append("/donor")
    env = {
        "NEARLINE_URL": connection.platform_url.replace("$", "$$"),
        "NEARLINE_COPY_TOKEN_FILE": f"{_TOKEN_FOLDER}/token",
    }
    pod = _build_pod(connection, [*command, *options], env=env, volumes=volumes, mounts=mounts)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels(site_id), "ownerReferences": [_owner(claim)]},
        "spec": {
            "backoffLimit": _RETRIES,
            # Two pods that write the same files would never agree.
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {
                "rules": [
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
                    {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [HOPELESS]}},
                ]
            },
            "template": {"metadata": {"labels": labels(site_id)}, "spec": pod},
        },
    }


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
            "annotations": trident.CLAIM_ANNOTATIONS if storage_class["provisioner"] == trident.PROVISIONER else {},
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


def read_made(claim: Json) -> Mapping[str, Any] | None:
    """Return what was made of a claim; None when it is not ready."""
    text = (claim["metadata"].get("annotations") or {}).get(MADE)
    made: Mapping[str, Any] | None = json.loads(text) if text else None
    return made


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
