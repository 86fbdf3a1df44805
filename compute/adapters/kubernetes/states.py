"""From what a cluster says about a pod to a report about its job: pure, one table a question.

A pod of ours has a finalizer, so that it stays until its end was recorded, whoever deletes it. A job has ended only
when nothing of it can run any more: a pod on a node that does not answer is said to run until the cluster knows better,
or until somebody who knows it removes the pod by force.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from compute.adapters.kubernetes.manifests import (
    BRING,
    GRACE,
    KEEP,
    MAIN,
    MOST_REPLICAS,
    NAME,
    REPLICA,
    REPLICAS,
    RESUME,
    TIMEOUT,
    TOKEN,
    VERDICT,
)
from compute.engine.gangs import find_failed, has_succeeded, join_reports
from compute.engine.job_spec import DEFAULT_GRACE_PERIOD_S
from compute.engine.ports import EndCause, JobReport, ReportState

Json = Mapping[str, Any]
Pod = dict[str, Any]

START_TIMEOUT = timedelta(minutes=2)
"""So long may a cluster fail to place a pod, or to bring its image, until it is given up."""
END_TIMEOUT = timedelta(seconds=10)
"""So long may the other replicas of a gang go on once replica 0 has ended."""
_NEVER = frozenset({"InvalidImageName", "ErrImageNeverPull"})
_IMAGE = _NEVER | {"ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable"}
_CONTAINER = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError", "CrashLoopBackOff"}
)
_NEVER_BEGAN = frozenset({"StartError", "ContainerCannotRun"})
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
    if "deletionTimestamp" not in pod["metadata"]:
        return False
    # One that was deleted before it came to a node never comes to one.
    return not pod.get("spec", {}).get("nodeName") or _is_removed_by_force(pod)


def _is_removed_by_force(pod: Json) -> bool:
    return pod["metadata"].get("deletionGracePeriodSeconds") == 0 and is_node_away(pod)


def is_node_away(pod: Json) -> bool:
    """Whether the cluster has lost the node of a pod. It then says that the pod is not ready; a node would say why."""
    ready = _condition(pod, "Ready")
    return ready.get("status") == "False" and not ready.get("reason")


def is_running(pod: Json) -> bool:
    """Whether the user's command runs in a pod."""
    return "running" in container_of(pod, MAIN).get("state", {})


def started_at_of(pod: Json) -> datetime | None:
    """Return since when the user's command runs in a pod; None: it does not."""
    return _time((container_of(pod, MAIN).get("state", {}).get("running") or {}).get("startedAt"))


def kept_root(pod: Json) -> str | None:
    """Return the root of the tree that holds the output; empty: there was none; None: it is not stored."""
    ended = container_of(pod, KEEP).get("state", {}).get("terminated") or {}
    if ended.get("exitCode") != 0:
        return None
    try:
        return str(json.loads(ended.get("message") or "")["root"])
    except (ValueError, KeyError, TypeError):
        return None


def report_of(pod: Json) -> JobReport:
    """Return what a pod says about its job."""
    main = container_of(pod, MAIN).get("state", {})
    ended, running = main.get("terminated"), main.get("running")
    # A command that cannot be started is said to have begun in 1970.
    has_begun = (ended or {}).get("reason") not in _NEVER_BEGAN
    started_at = _time((ended or running or {}).get("startedAt")) if has_begun else None
    name, token = name_of(pod), str(_annotations(pod).get(TOKEN, ""))
    if not has_ended(pod):
        if not (running or ended):
            return JobReport(name, token, ReportState.STARTING, reason=explain_pending(pod))
        return JobReport(name, token, ReportState.RUNNING, started_at=started_at, reason=_explain_doubt(pod))
    finished_at = _time((ended or {}).get("finishedAt")) or _end_of(pod)
    exit_code = ended.get("exitCode") if ended else None
    cause, reason = _explain_end(pod, ended)
    return JobReport(
        name=name,
        token=token,
        state=ReportState.SUCCEEDED if cause is EndCause.EXITED and exit_code == 0 else ReportState.FAILED,
        exit_code=exit_code,
        cause=cause,
        started_at=started_at,
        finished_at=finished_at,
        reason=reason,
    )


def grace_period_of(pod: Json) -> float:
    """Return how long the command of a pod may take to end once it is told to, in seconds."""
    return float(_annotations(pod).get(GRACE, DEFAULT_GRACE_PERIOD_S))


def rank_of(pod: Json) -> int:
    """Return which replica a pod is; 0 where it is no gang's."""
    return int(_annotations(pod).get(REPLICA, 0))


def most_replicas_of(pod: Json) -> int:
    """Return how many replicas the run of a pod has, or may have; 1 where it is no gang's."""
    return int(_annotations(pod).get(MOST_REPLICAS) or _annotations(pod).get(REPLICAS, 1))


def is_elastic(pod: Json) -> bool:
    """Whether a pod is of a gang that gets and loses replicas while it runs."""
    return MOST_REPLICAS in _annotations(pod)


def report_of_run(pods: Collection[Json]) -> JobReport | None:
    """Return what the pods of one run say about their job; None while some of them have yet to be made.

    Who finds a start that was interrupted then starts the job again, which makes the missing ones.
    """
    first = _leader_of(pods)
    if most_replicas_of(first) == 1:
        return report_of(first)
    if _is_partly_made(pods):
        return None
    return join_reports(_reports_by_rank(pods), is_elastic=is_elastic(first))


def judge_run(pods: Collection[Pod], now: datetime) -> Iterator[tuple[Pod, Verdict]]:
    """Yield the pods of one run that should be ended by us, and why."""
    judged = set()
    for pod in pods:
        if (verdict := judge(pod, now)) is not None:
            judged.add(rank_of(pod))
            yield pod, verdict
    if most_replicas_of(_leader_of(pods)) > 1 and (verdict := _judge_gang(pods, now)) is not None:
        for pod in pods:
            if rank_of(pod) not in judged and not has_ended(pod) and "deletionTimestamp" not in pod["metadata"]:
                yield pod, verdict


def is_settled(pods: Collection[Json]) -> bool:
    """Whether time alone gives no reason to end the pods of one run: only that one of them changes does."""
    if any(most_replicas_of(pod) > 1 or TIMEOUT in _annotations(pod) for pod in pods):
        return False
    return all(has_ended(pod) or (is_running(pod) and next(_waiting(pod), None) is None) for pod in pods)


def _judge_gang(pods: Collection[Json], now: datetime) -> Verdict | None:
    """Return why the pods of a gang should be ended that run; None: they should not."""
    if _is_partly_made(pods):
        made_at = max(filter(None, (_time(pod["metadata"]["creationTimestamp"]) for pod in pods)))
        reason = "Not all pods of the gang could be made."
        return Verdict(EndCause.NOT_STARTED, reason) if now - made_at >= START_TIMEOUT else None
    reports = _reports_by_rank(pods)
    if has_succeeded(reports):
        is_over = now - (reports[0].finished_at or now) >= END_TIMEOUT
        return Verdict(EndCause.STOPPED, "Replica 0 has ended.") if is_over else None
    # Those of an elastic gang that are behind its last one begin or end while the others go on.
    ending = [rank_of(pod) for pod in pods if "deletionTimestamp" in pod["metadata"] and rank_of(pod) < len(reports)]
    rank = min(ending, default=None) if (failed := find_failed(reports)) is None else failed
    return None if rank is None else Verdict(EndCause.STOPPED, f"Replica {rank} has ended.")


def _leader_of(pods: Collection[Json]) -> Json:
    """Return the pod that says how many replicas a run has now: that of replica 0, unless it is gone."""
    return min(pods, key=rank_of)


def _count_replicas(pods: Collection[Json]) -> int:
    return int(_annotations(_leader_of(pods)).get(REPLICAS, 1))


def _is_partly_made(pods: Collection[Json]) -> bool:
    """Whether a gang lacks pods, and none of those that it has was ended or has begun its command."""
    if len(pods) >= _count_replicas(pods):
        return False
    return not any(
        "deletionTimestamp" in pod["metadata"]
        or VERDICT in _annotations(pod)
        or report_of(pod).state is not ReportState.STARTING
        for pod in pods
    )


def _reports_by_rank(pods: Collection[Json]) -> Sequence[JobReport]:
    """Return what the pods of a gang say. One that is gone was removed by force: it has failed."""
    first = _leader_of(pods)
    reports = {rank_of(pod): report_of(pod) for pod in pods}
    gone = replace(
        report_of(first),
        state=ReportState.FAILED,
        exit_code=None,
        cause=EndCause.DELETED,
        finished_at=_end_of(first),
        reason="Its pod was removed by force.",
    )
    return [reports.get(rank, gone) for rank in range(_count_replicas(pods))]


def judge(pod: Json, now: datetime) -> Verdict | None:
    """Return why a pod that has not ended should be ended by us; None: it should not."""
    if has_ended(pod) or "deletionTimestamp" in pod["metadata"]:
        return None
    limit_s = _annotations(pod).get(TIMEOUT)
    # A node tells the start by its own clock, which may be late; nothing starts before the cluster has its pod.
    started_at = (start := started_at_of(pod)) and max(start, _time(pod["metadata"].get("creationTimestamp")) or start)
    if limit_s and started_at and now - started_at >= timedelta(seconds=float(limit_s)):
        return Verdict(EndCause.TIMEOUT)
    condition = _condition(pod, "PodScheduled")
    is_overdue = _is_overdue(condition, now)
    if condition.get("status") == "False" and condition.get("reason") == "Unschedulable" and is_overdue:
        return Verdict(EndCause.UNSCHEDULABLE, f"The cluster does not place its pod: {_sentence(condition)}")
    # The node begins with the others once those are done that bring things.
    initialized = _condition(pod, "Initialized")
    if initialized.get("status") == "True":
        is_overdue = _is_overdue(initialized, now)
    for container, waiting in _waiting(pod):
        reason = waiting.get("reason", "")
        if reason in _IMAGE and (is_overdue or reason in _NEVER):
            image = container.get("image", "")
            return Verdict(EndCause.IMAGE_UNAVAILABLE, f"The image {image} cannot be pulled: {_sentence(waiting)}")
        if reason in _CONTAINER and is_overdue:
            return Verdict(EndCause.NOT_STARTED, f"Its container cannot be made: {_sentence(waiting)}")
    return None


def _is_overdue(condition: Json, now: datetime) -> bool:
    return now - (_time(condition.get("lastTransitionTime")) or now) >= START_TIMEOUT


def _explain_end(pod: Json, ended: Json | None) -> tuple[EndCause, str]:
    """Return the cause and the reason of an end; the first that applies."""
    if ended and ended.get("exitCode") == 0 and (rank_of(pod) or kept_root(pod) is not None):
        return EndCause.EXITED, ""
    if verdict := _annotations(pod).get(VERDICT):
        fields = json.loads(verdict)
        return EndCause(fields["cause"]), fields["reason"]
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
    if _is_removed_by_force(pod):
        return EndCause.NODE_LOST, f"The node {node} did not answer any more, and the pod was removed by force."
    if status.get("reason") == "Evicted":
        return EndCause.EVICTED, f"The node {node} evicted it: {_sentence(status)}"
    if status.get("reason") == "NodeLost":
        return EndCause.NODE_LOST, f"The node {node} did not answer any more."
    if "deletionTimestamp" in pod["metadata"]:
        return EndCause.DELETED, "Its pod was deleted on the cluster, not by Nearline."
    return None


def _explain_containers(pod: Json, ended: Json | None) -> tuple[EndCause, str]:
    if ended and ended.get("exitCode") == 0:
        why = container_of(pod, KEEP).get("state", {}).get("terminated") or {}
        return EndCause.OUTPUT_LOST, f"The command succeeded, but its output was not stored: {_sentence(why)}"
    if ended and ended.get("reason") in _NEVER_BEGAN:
        return EndCause.EXITED, f"The command cannot be started in its image: {_sentence(ended)}"
    if ended:
        return EndCause.EXITED, ""
    for container, what in ((BRING, "code and inputs"), (RESUME, "checkpoint")):
        brought = container_of(pod, container).get("state", {}).get("terminated") or {}
        if brought.get("exitCode"):
            return EndCause.NOT_STARTED, f"Its {what} could not be brought: {_sentence(brought)}"
    return EndCause.NOT_STARTED, f"Its node did not start it: {_sentence(pod.get('status', {}))}"


def explain_pending(pod: Json) -> str:
    """Return what a pod waits for that has not begun."""
    condition = _condition(pod, "PodScheduled")
    if condition.get("status") == "False":
        return f"The cluster does not place its pod yet: {_sentence(condition)}"
    if not pod.get("spec", {}).get("nodeName"):
        return "The cluster has yet to place its pod."
    for _, waiting in _waiting(pod):
        reason = waiting.get("reason", "")
        if reason not in _PENDING:
            return f"{reason}: {_sentence(waiting)}"
    is_bringing = "running" in container_of(pod, BRING).get("state", {})
    return _PENDING["PodInitializing" if is_bringing else "ContainerCreating"]


def _explain_doubt(pod: Json) -> str:
    """Return why a pod that runs may not, or not for long; empty: its node answers, and nobody else ends it."""
    if not is_node_away(pod):
        is_foreign = "deletionTimestamp" in pod["metadata"] and VERDICT not in _annotations(pod)
        return "Its pod was deleted on the cluster, not by Nearline, and ends now." if is_foreign else ""
    node = pod.get("spec", {}).get("nodeName")
    return (
        f"The node {node} does not answer the cluster. The job may still run there, so it is started again only when "
        "the cluster has given the node up, or its pod was removed by force."
    )


def _waiting(pod: Json) -> Iterator[tuple[Json, Json]]:
    for container in _containers(pod):
        if waiting := container.get("state", {}).get("waiting"):
            yield container, waiting


def _containers(pod: Json) -> Iterator[Json]:
    status = pod.get("status", {})
    yield from status.get("initContainerStatuses") or []
    yield from status.get("containerStatuses") or []


def container_of(pod: Json, name: str) -> Json:
    """Return what a pod says of one of its containers; empty: nothing."""
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
    moments = [_time(condition.get("lastTransitionTime")) for condition in conditions]
    moments += [_deleted_at(pod), _time(pod["metadata"].get("creationTimestamp"))]
    return max(filter(None, moments))


def _deleted_at(pod: Json) -> datetime | None:
    """Return when somebody deleted a pod: its timestamp says when its grace ends."""
    ends_at = _time(pod["metadata"].get("deletionTimestamp"))
    grace = timedelta(seconds=pod["metadata"].get("deletionGracePeriodSeconds") or 0)
    return None if ends_at is None else ends_at - grace


def _sentence(entry: Json) -> str:
    """Return the message of a part of the status, or else its reason, as a sentence of a bounded length."""
    text = " ".join(str(entry.get("message") or entry.get("reason") or "it does not say why").split())
    return text[:500].rstrip(".") + "."


def _time(text: object) -> datetime | None:
    return datetime.fromisoformat(str(text)).astimezone(UTC) if text else None
