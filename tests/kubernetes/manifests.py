"""Manifests that tests of clusters share."""

from tests.kubernetes.images import USER_IMAGE


def container(*command: str, image: str = USER_IMAGE, **fields) -> dict:
    """A container as restricted namespaces want it: not root, no capabilities, a read-only root file system."""
    security = {
        "runAsNonRoot": True,
        "runAsUser": 10001,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    base = {"name": "main", "image": image, "imagePullPolicy": "Never", "securityContext": security}
    return {**base, **({"command": list(command)} if command else {}), **fields}


def pod(*containers: dict, name: str = "main", **spec) -> dict:
    """A pod that is not started again."""
    return {"metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": list(containers), **spec}}


def job(pod: dict, *, name: str = "main") -> dict:
    """A job that runs a pod once."""
    return {"metadata": {"name": name}, "spec": {"backoffLimit": 0, "template": {"spec": pod["spec"]}}}


def claim(name: str, storage_class: str, *, size: str = "1Gi", **fields) -> dict:
    """A claim that many pods can mount; fields are those of its metadata."""
    wish = {"storageClassName": storage_class, "accessModes": ["ReadWriteMany"]}
    spec = {**wish, "resources": {"requests": {"storage": size}}}
    return {"metadata": {"name": name, **fields}, "spec": spec}


def mount(claim: str, path: str, *, read_only: bool = False) -> tuple[dict, dict]:
    """The volume of a pod and the mount of a container that bring a claim to a path."""
    source = {"claimName": claim, "readOnly": read_only}
    volume = {"name": claim, "persistentVolumeClaim": source}
    return volume, {"name": claim, "mountPath": path, "readOnly": read_only}


def end_of(job: dict) -> str:
    """The condition that ended a job; empty while it has not ended."""
    conditions = job.get("status", {}).get("conditions", [])
    return next((item["type"] for item in conditions if item["type"] in ("Complete", "Failed")), "")


def has_ended(pod: dict) -> bool:
    return pod["status"]["phase"] in ("Succeeded", "Failed")


def is_bound(claim: dict) -> bool:
    return claim.get("status", {}).get("phase") == "Bound"


def terminated(pod: dict) -> dict:
    """How the only container of a pod ended."""
    (status,) = pod["status"]["containerStatuses"]
    return status["state"]["terminated"]
