"""What a copy on a claim waits for, in words that say what to do: from what the cluster tells of its objects.

The words follow "waits for".
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from datasets.adapters.sites.volume.manifests import CONTAINER, MISUNDERSTOOD

Json = dict[str, Any]

_FAILED = "ProvisioningFailed"
_MOST_FAILURES = 3
"""So often a provisioner may fail before its claim is given up. Trident waits longer after each."""
_ADVICE = (
    ("no available storage", "No online backend serves this class: look at `kubectl get tridentbackends -A`."),
    ("no available backends", "Restart the Trident controller, or apply its backend again."),
    ("too large", "The storage has not enough free space: clear copies, or enlarge it."),
    ("Ruleset default not found", "Give the backend an `exportPolicy` that exists, or `autoExportPolicy`."),
    ("unknown storage class", "Trident refuses the class: look into the log of its controller."),
    ("exceeded quota", "Raise the ResourceQuota of the namespace, or clear copies."),
    ("storageclass", "Choose a storage class that exists: `kubectl get storageclass`."),
)
_NEVER = {"InvalidImageName", "ErrImageNeverPull"}
_IMAGE = _NEVER | {"ErrImagePull", "ImagePullBackOff"}


def explain(message: str) -> str:
    """Return what the cluster said, and what to do about it where that is known."""
    advice = next((advice for words, advice in _ADVICE if words.lower() in message.lower()), "")
    return f"{message.rstrip('. ')}. {advice}".strip()


def provisioning_failure(events: Iterable[Json]) -> tuple[str, bool]:
    """Return why a claim has no volume, from its events of any type, and whether that is final; empty: no failure."""
    failures = sorted((event for event in events if event.get("reason") == _FAILED), key=_when)
    if not failures:
        return "", False
    tries = sum(event.get("count") or 1 for event in failures)
    return explain(str(failures[-1].get("message", ""))), tries >= _MOST_FAILURES


def why_pods_wait(pods: Sequence[Json], job_events: Iterable[Json]) -> str:
    """Return what keeps the pods of a Job from running; empty: nothing that the cluster tells."""
    for pod in pods:
        for waiting in _waiting_containers(pod):
            if waiting.get("reason") in _IMAGE:
                detail = waiting.get("message") or waiting["reason"]
                return f"the image of Nearline, which cannot be pulled: {detail} Check its name and the pull secrets."
            if waiting.get("reason") == "CreateContainerConfigError":
                return f"the start of the pod: {waiting.get('message')}"
        for condition in (pod.get("status") or {}).get("conditions") or []:
            if condition.get("type") == "PodScheduled" and condition.get("reason") == "Unschedulable":
                return f"a node on which the pod fits: {condition.get('message')}"
    refused = [event for event in job_events if event.get("reason") == "FailedCreate"]
    if not pods and refused:
        return f"a pod, which the cluster refuses: {explain(str(max(refused, key=_when).get('message', '')))}"
    return ""


def never_start(pods: Iterable[Json]) -> bool:
    """Return whether a pod has an image that no later try can bring."""
    return any(waiting.get("reason") in _NEVER for pod in pods for waiting in _waiting_containers(pod))


def mount_failure(events: Iterable[Json]) -> str:
    """Return why a volume cannot be mounted, from the events of a pod."""
    failures = [event for event in events if event.get("reason") in {"FailedMount", "FailedAttachVolume"}]
    if not failures:
        return ""
    message = str(max(failures, key=_when).get("message", ""))
    # A node repeats its long command first, and then what that said.
    words = " ".join((message.partition("\nOutput:")[2] or message).split()).rstrip(".")
    return f"the mount of the volume: {words}. Check that the export policy lets the nodes in."


def read_result(pods: Iterable[Json]) -> Json:
    """Return what the pod that ended last wrote about its work; empty when none did."""
    ended = []
    for pod in pods:
        for container in (pod.get("status") or {}).get("containerStatuses") or []:
            state = (container.get("state") or {}).get("terminated")
            if state is not None and container["name"] == CONTAINER:
                ended.append((str(state.get("finishedAt")), state))
    for _, state in sorted(ended, key=lambda item: item[0], reverse=True):
        try:
            result: Json = json.loads(state.get("message") or "")
        except ValueError:
            continue
        return result
    return {}


def find_old_image(pods: Iterable[Json]) -> str:
    """Return the image of a pod that did not know what it was told to do; empty: there is none."""
    for pod in pods:
        for container in (pod.get("status") or {}).get("containerStatuses") or []:
            end = (container.get("state") or {}).get("terminated") or {}
            if container["name"] == CONTAINER and end.get("exitCode") == MISUNDERSTOOD and not end.get("message"):
                return str(container.get("image") or "its image")
    return ""


def read_message(pods: Iterable[Json]) -> str:
    """Return what the container of a pod said at its end; empty: nothing, or it has not ended."""
    for pod in pods:
        for container in (pod.get("status") or {}).get("containerStatuses") or []:
            message = ((container.get("state") or {}).get("terminated") or {}).get("message")
            if message:
                return str(message)
    return ""


def _waiting_containers(pod: Json) -> Iterator[Json]:
    for container in (pod.get("status") or {}).get("containerStatuses") or []:
        if waiting := (container.get("state") or {}).get("waiting"):
            yield waiting


def _when(event: Json) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")
