"""GPUs of a cluster that jobs share: pure. A pod of ours reserves each such device, whole, for all who share it.

A cluster gives whole devices only. So the pods of the jobs ask it for none: they are gated until the reservation has
told which device it got, and see just that one. Who shares a device is written in the pods, so any process goes on
where another one was killed: a reservation is made for pods that lack it, and deleted once no pod is left that uses it.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from compute.adapters.kubernetes import manifests, states
from compute.adapters.kubernetes.manifests import DEVICE, GATE, RESERVES, SHARES, PodSettings
from compute.adapters.kubernetes.states import Verdict
from compute.engine.ports import EndCause, JobReport, ReportState

Json = dict[str, Any]

_TELL, _HOLD = "tell", "hold"
# The first process of a container has no default action for a signal.
_WAIT = "import signal as s; s.pthread_sigmask(s.SIG_BLOCK, {s.SIGTERM}); s.sigwait({s.SIGTERM})"


@dataclass
class Settlement:
    """What is to be done about shared devices now.

    `missing` are reservations to be made, each with the pods that wait for it; `open` are gated pods, each with the
    device that it is to see; `end` are pods that cannot go on, and why; `unused` are reservations that no pod uses;
    `waits` says by run what its pods wait for.
    """

    missing: list[tuple[Json, Sequence[Json]]] = field(default_factory=list)
    open: list[tuple[Json, str]] = field(default_factory=list)
    end: list[tuple[Json, Verdict]] = field(default_factory=list)
    unused: list[Json] = field(default_factory=list)
    waits: dict[str, str] = field(default_factory=dict)


def is_reservation(pod: Mapping[str, Any]) -> bool:
    """Whether a pod of ours reserves a device, and is no job's."""
    return RESERVES in (pod["metadata"].get("labels") or {})


def reservation_of(pod: Json) -> str:
    """Return the name of the reservation of the device that a pod shares; empty: it shares none."""
    return str((pod["metadata"].get("labels") or {}).get(SHARES, ""))


def is_concerned(pod: Json) -> bool:
    """Whether `settle` has to know of a pod."""
    return is_reservation(pod) or bool(reservation_of(pod))


def build_reservation(settings: PodSettings, name: str, sharer: Json) -> Json:
    """Return the pod that reserves a device on the node of one that shares it, and tolerates what that one does.

    It takes neither CPU nor memory from what jobs were given.
    """
    whole = {settings.gpu_resource: "1"}
    resources = {"requests": {"cpu": "0", "memory": "0", **whole}, "limits": {"memory": "128Mi", **whole}}

    def container(name: str, *command: str) -> Json:
        return {
            "name": name,
            "image": settings.agent_image,
            "imagePullPolicy": settings.pull_policy,
            "command": ["python3", *command],
            "env": [
                {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
                {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"},
            ],
            "resources": resources,
            "securityContext": {**manifests.confined(), "readOnlyRootFilesystem": True},
        }

    # A device that an init container was given goes on to the containers behind it.
    pod: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": settings.namespace,
            "labels": {**manifests.labels(settings), RESERVES: "gpu"},
        },
        "spec": {
            **manifests.common_spec(settings, manifests.node_of(sharer), with_gpus=True),
            "tolerations": sharer["spec"].get("tolerations", []),
            "terminationGracePeriodSeconds": 5,
            "initContainers": [container(_TELL, "-m", "nearline.pod.devices")],
            "containers": [container(_HOLD, "-I", "-S", "-c", _WAIT)],
        },
    }
    return pod


def device_of(reservation: Mapping[str, Any]) -> str:
    """Return the device that a reservation has told; empty: it has told none, or holds it no more."""
    if states.has_ended(reservation) or "deletionTimestamp" in reservation["metadata"]:
        return ""
    return told_device(reservation)


def told_device(pod: Mapping[str, Any]) -> str:
    """Return the device that a pod has told, whether or not it still holds it; empty: none."""
    ended = states.container_of(pod, _TELL).get("state", {}).get("terminated") or {}
    if ended.get("exitCode") != 0:
        return ""
    try:
        return str(json.loads(ended.get("message") or "")["device"])
    except (ValueError, KeyError, TypeError):
        return ""


def settle(pods: Collection[Json], settings: PodSettings, now: datetime) -> Settlement:
    """Return what is to be done about the GPUs that pods share: these are all it concerns that are not forgotten."""
    settlement = Settlement()
    reservations = {pod["metadata"]["name"]: pod for pod in pods if is_reservation(pod)}
    sharers = [pod for pod in pods if reservation_of(pod) and not states.has_ended(pod)]
    orphans: dict[str, list[Json]] = {}
    for pod in sharers:
        if "deletionTimestamp" not in pod["metadata"]:
            reservation = reservations.get(reservation_of(pod))
            _settle_sharer(settlement, pod, reservation, now)
            if reservation is None and is_gated(pod):
                orphans.setdefault(reservation_of(pod), []).append(pod)
    for name, waiting in orphans.items():
        settlement.missing.append((build_reservation(settings, name, waiting[0]), waiting))
    used = {reservation_of(pod) for pod in sharers}
    for name, reservation in reservations.items():
        # Sharers of one that has ended are ended too: the next ones get another.
        if (name not in used or states.has_ended(reservation)) and "deletionTimestamp" not in reservation["metadata"]:
            settlement.unused.append(reservation)
    return settlement


def explain(report: JobReport, waits: Mapping[str, str]) -> JobReport:
    """Return the report of a run with what it waits for, as `settle` told, unless it has begun or ended."""
    wait = waits.get(report.name)
    return report if wait is None or report.state is not ReportState.STARTING else replace(report, reason=wait)


def _settle_sharer(settlement: Settlement, pod: Json, reservation: Json | None, now: datetime) -> None:
    if not is_gated(pod):
        if not states.is_node_away(pod) and (reservation is None or device_of(reservation) != device_seen_by(pod)):
            reason = "The pod that reserved the GPU it shares has ended, so the GPU may be given to others."
            settlement.end.append((pod, Verdict(EndCause.EVICTED, reason)))
        return
    wait = f"The GPU that it shares is being reserved on {manifests.node_of(pod)}."
    if reservation is not None and "deletionTimestamp" not in reservation["metadata"]:
        if (verdict := _judge(reservation, now)) is not None:
            settlement.end.append((pod, verdict))
        elif device := device_of(reservation):
            settlement.open.append((pod, device))
        else:
            wait = f"{wait} {states.explain_pending(reservation)}"
    settlement.waits[states.name_of(pod)] = wait


def _judge(reservation: Json, now: datetime) -> Verdict | None:
    """Return why a device is not reserved and will not be; None: it is, or may be."""
    if states.has_ended(reservation):
        terminated = states.container_of(reservation, _TELL).get("state", {}).get("terminated") or {}
        message = terminated.get("message") if terminated.get("exitCode") else ""
        return refuse(EndCause.NOT_STARTED, message or states.report_of(reservation).reason)
    verdict = states.judge(reservation, now)
    return None if verdict is None else refuse(verdict.cause, verdict.reason)


def refuse(cause: EndCause, why: str) -> Verdict:
    """Return the verdict on a pod whose GPU cannot be reserved."""
    return Verdict(cause, f"The GPU that it shares could not be reserved. {why}")


def is_gated(pod: Mapping[str, Any]) -> bool:
    """Whether a pod waits for us to let the cluster place it."""
    gates: Iterable[Mapping[str, str]] = pod.get("spec", {}).get("schedulingGates") or ()
    return any(gate.get("name") == GATE for gate in gates)


def device_seen_by(pod: Mapping[str, Any]) -> str:
    """Return the device that a pod was let see; empty: none yet."""
    return str((pod["metadata"].get("annotations") or {}).get(DEVICE, ""))


def opening(pod: Json, device: str) -> Json:
    """Return the patch that lets a gated pod see a device and be placed."""
    return {
        "metadata": {"uid": pod["metadata"]["uid"], "annotations": {DEVICE: device}},
        "spec": {"schedulingGates": None},
    }
