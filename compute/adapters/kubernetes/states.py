"""From what a cluster says about a pod to a report about its job: pure, one table a question.

A pod of ours has a finalizer, so that it stays until its end was recorded, whoever deletes it. A job has ended only
when nothing of it can run any more: a pod on a node that does not answer is said to run until the cluster knows better.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from compute.adapters.kubernetes.manifests import BRING, KEEP, MAIN, NAME, TIMEOUT, TOKEN, VERDICT
from compute.engine.ports import EndCause, JobReport, ReportState

Json = Mapping[str, Any]

START_PATIENCE = timedelta(minutes=2)
"""So long may a cluster fail to place a pod, or to bring its image, until it is given up."""
_NEVER = frozenset({"InvalidImageName", "ErrImageNeverPull"})
_IMAGE = _NEVER | {"ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable"}
_CONTAINER = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError", "CrashLoopBackOff"}
)
_PENDING = {
    "ContainerCreating": "The node prepares the pod.",
    "PodInitializing": "Code and inputs are brought to the pod.",
}
# Why the cluster itself ended a pod: the reason of its condition DisruptionTarget.
_DISRUPTIONS = {
    "PreemptionByScheduler": (EndCause.PREEMPTED, "A pod of a higher priority took its place on {node}."),
    "EvictionByEvictionAPI": (EndCause.EVICTED, "It was evicted from {node}, as when the node is drained."),
    "TerminationByKubelet": (EndCause.EVICTED, "The node {node} ended it to save itself, or was shut down."),
    "DeletionByTaintManager": (EndCause.NODE_LOST, "The node {node} did not answer any more."),
    "DeletionByPodGC": (EndCause.NODE_LOST, "The node {node} left the cluster."),
}


@dataclass(frozen=True)
class Verdict:
    """Why a job is ended by us. Written to its pod before it is ended, so that its report says so after a restart."""

    cause: EndCause
    reason: str = ""

    def to_json(self) -> str:
        """Return the value of the pod's annotation."""
        return json.dumps({"cause": self.cause, "reason": self.reason})


def name_of(pod: Json) -> str:
    """Return the name of the run that a pod is for."""
    return str(_annotations(pod).get(NAME, ""))


def has_ended(pod: Json) -> bool:
    """Whether nothing of a pod runs or can run."""
    if pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}:
        return True
    # One that was deleted before it came to a node never comes to one.
    return "deletionTimestamp" in pod["metadata"] and not pod.get("spec", {}).get("nodeName")


def kept_root(pod: Json) -> str | None:
    """Return the root of the tree that holds the output; empty: there was none; None: it is not stored."""
    ended = _container(pod, KEEP).get("state", {}).get("terminated") or {}
    if ended.get("exitCode") != 0:
        return None
    try:
        return str(json.loads(ended.get("message") or "")["root"])
    except (ValueError, KeyError, TypeError):
        return None


def report_of(pod: Json) -> JobReport:
    """Return what a pod says about its job."""
    main = _container(pod, MAIN).get("state", {})
    ended, running = main.get("terminated"), main.get("running")
    started_at = _time((ended or running or {}).get("startedAt"))
    name, token = name_of(pod), str(_annotations(pod).get(TOKEN, ""))
    if not has_ended(pod):
        if not (running or ended):
            return JobReport(name, token, ReportState.STARTING, reason=_explain_pending(pod))
        return JobReport(name, token, ReportState.RUNNING, started_at=started_at)
    finished_at = _time((ended or {}).get("finishedAt")) or _end_of(pod)
    exit_code = ended.get("exitCode") if ended else None
    cause, reason = _explain_end(pod, ended)
    return JobReport(
        name=name,
        token=token,
        state=ReportState.SUCCEEDED if cause is EndCause.EXITED and exit_code == 0 else ReportState.FAILED,
        exit_code=exit_code,
        cause=cause,
        started_at=started_at or min(finished_at, _time(pod["metadata"]["creationTimestamp"]) or finished_at),
        finished_at=finished_at,
        reason=reason,
    )


def judge(pod: Json, now: datetime) -> Verdict | None:
    """Return why a pod that has not ended should be ended by us; None: it should not."""
    if has_ended(pod) or "deletionTimestamp" in pod["metadata"]:
        return None
    running = _container(pod, MAIN).get("state", {}).get("running")
    limit_s = _annotations(pod).get(TIMEOUT)
    started_at = _time((running or {}).get("startedAt"))
    if limit_s and started_at and now - started_at >= timedelta(seconds=float(limit_s)):
        return Verdict(EndCause.TIMEOUT)
    condition = _condition(pod, "PodScheduled")
    since = _time(condition.get("lastTransitionTime")) or now
    is_overdue = now - since >= START_PATIENCE
    if condition.get("status") == "False" and condition.get("reason") == "Unschedulable" and is_overdue:
        return Verdict(EndCause.UNSCHEDULABLE, f"The cluster does not place its pod: {_sentence(condition)}")
    for container, waiting in _waiting(pod):
        reason = waiting.get("reason", "")
        if reason in _IMAGE and (is_overdue or reason in _NEVER):
            image = container.get("image", "")
            return Verdict(EndCause.IMAGE_UNAVAILABLE, f"The image {image} cannot be pulled: {_sentence(waiting)}")
        if reason in _CONTAINER and is_overdue:
            return Verdict(EndCause.NOT_STARTED, f"Its container cannot be made: {_sentence(waiting)}")
    return None


def _explain_end(pod: Json, ended: Json | None) -> tuple[EndCause, str]:
    """Return the cause and the reason of an end; the first that applies."""
    if ended and ended.get("exitCode") == 0 and kept_root(pod) is not None:
        return EndCause.EXITED, ""
    if verdict := _annotations(pod).get(VERDICT):
        said = json.loads(verdict)
        return EndCause(said["cause"]), said["reason"]
    if ended and ended.get("reason") == "OOMKilled":
        return EndCause.OUT_OF_MEMORY, ""
    return _explain_disruption(pod) or _explain_containers(pod, ended)


def _explain_disruption(pod: Json) -> tuple[EndCause, str] | None:
    """Return what the cluster, or somebody there, has done to a pod; None: nothing."""
    status = pod.get("status", {})
    node = pod.get("spec", {}).get("nodeName") or "its node"
    disruption = _condition(pod, "DisruptionTarget")
    if disruption.get("status") == "True" and disruption.get("reason") in _DISRUPTIONS:
        cause, sentence = _DISRUPTIONS[disruption["reason"]]
        return cause, f"{sentence.format(node=node)} {_sentence(disruption)}".strip()
    if status.get("reason") == "Evicted":
        return EndCause.EVICTED, f"The node {node} evicted it: {_sentence(status)}"
    if status.get("reason") == "NodeLost":
        return EndCause.NODE_LOST, f"The node {node} did not answer any more."
    if "deletionTimestamp" in pod["metadata"]:
        return EndCause.DELETED, "Its pod was deleted on the cluster, not by Nearline."
    return None


def _explain_containers(pod: Json, ended: Json | None) -> tuple[EndCause, str]:
    if ended and ended.get("exitCode") == 0:
        why = _container(pod, KEEP).get("state", {}).get("terminated") or {}
        return EndCause.OUTPUT_LOST, f"The command succeeded, but its output was not stored: {_sentence(why)}"
    if ended:
        return EndCause.EXITED, ""
    brought = _container(pod, BRING).get("state", {}).get("terminated") or {}
    if brought.get("exitCode"):
        return EndCause.NOT_STARTED, f"Its code and inputs could not be brought: {_sentence(brought)}"
    return EndCause.NOT_STARTED, f"Its node did not start it: {_sentence(pod.get('status', {}))}"


def _explain_pending(pod: Json) -> str:
    condition = _condition(pod, "PodScheduled")
    if condition.get("status") == "False":
        return f"The cluster does not place its pod yet: {_sentence(condition)}"
    for _, waiting in _waiting(pod):
        reason = waiting.get("reason", "")
        if reason not in _PENDING:
            return f"{reason}: {_sentence(waiting)}"
    is_bringing = "running" in _container(pod, BRING).get("state", {})
    return _PENDING["PodInitializing" if is_bringing else "ContainerCreating"]


def _waiting(pod: Json) -> Iterator[tuple[Json, Json]]:
    for container in _containers(pod):
        if waiting := container.get("state", {}).get("waiting"):
            yield container, waiting


def _containers(pod: Json) -> Iterator[Json]:
    status = pod.get("status", {})
    yield from status.get("initContainerStatuses") or []
    yield from status.get("containerStatuses") or []


def _container(pod: Json, name: str) -> Json:
    return next((container for container in _containers(pod) if container.get("name") == name), {})


def _condition(pod: Json, kind: str) -> Json:
    conditions = pod.get("status", {}).get("conditions") or []
    return next((condition for condition in conditions if condition.get("type") == kind), {})


def _annotations(pod: Json) -> Json:
    annotations: Json = pod["metadata"].get("annotations") or {}
    return annotations


def _end_of(pod: Json) -> datetime:
    """Return when a pod ended whose command says nothing of its end: at its last change."""
    conditions = pod.get("status", {}).get("conditions") or []
    moments = [condition.get("lastTransitionTime") for condition in conditions]
    moments += [pod["metadata"].get("deletionTimestamp"), pod["metadata"].get("creationTimestamp")]
    return max(filter(None, map(_time, moments)))


def _sentence(entry: Json) -> str:
    """Return the message of a part of the status, or else its reason, as a sentence of a bounded length."""
    text = " ".join(str(entry.get("message") or entry.get("reason") or "it does not say why").split())
    return text[:500].rstrip(".") + "."


def _time(text: object) -> datetime | None:
    return datetime.fromisoformat(str(text)).astimezone(UTC) if text else None
