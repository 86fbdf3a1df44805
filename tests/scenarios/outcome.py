"""Where pods ended up, in the words of the scenarios, and in what that differs from what is wanted."""

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.engine.session import Session
from scheduler.engine.snapshot import PodState, Snapshot
from tests.scenarios.reading import Scenario

NAMES = {
    PodState.PENDING: "pending",
    PodState.STARTING: "binding",
    PodState.RUNNING: "running",
    PodState.RESERVED: "pipelined",
    PodState.TERMINATING: "releasing",
    PodState.STUCK_TERMINATING: "stuck_releasing",
    PodState.SUCCEEDED: "succeeded",
    PodState.FAILED: "failed",
}


@dataclass(frozen=True)
class Outcome:
    """Where a pod ended up: the name of its state in the scenarios, its node, its devices."""

    state: str
    node: str | None
    devices: tuple[str, ...] = ()


Outcomes = Mapping[str, Outcome]


def outcomes(session: Session) -> Outcomes:
    """Return where every pod of a session stands."""
    return {
        pod.id: Outcome(NAMES[pod.state], pod.node.view.id if pod.node else None, pod.devices)
        for job in session.jobs.values()
        for pod in job.pods
    }


def outcomes_of(snapshot: Snapshot) -> Outcomes:
    """Return where every pod of a snapshot stands."""
    return {pod.id: Outcome(NAMES[pod.state], pod.node_id, pod.devices) for job in snapshot.jobs for pod in job.pods}


def renaming(scenario: Scenario, out: Outcomes) -> dict[str, str]:
    """Return which node stands for which, where several were empty and alike: the one that its first pod took."""
    renamed: dict[str, str] = {}
    for group in scenario["expected"].get("interchangeable_nodes") or []:
        free = list(group)
        for pod_id, want in _wanted(scenario):
            node = out[pod_id].node if want.get("node") in group and want["state"] != "pending" else None
            if node in free and want["node"] not in renamed:
                free.remove(node)
                renamed[want["node"]] = node
        renamed |= zip((name for name in group if name not in renamed), free, strict=True)
    return renamed


def compare(scenario: Scenario, out: Outcomes) -> list[str]:
    """Return the differences in states and nodes; nothing if there are none."""
    renamed = renaming(scenario, out)
    misses = []
    for pod_id, want in _wanted(scenario):
        got = out[pod_id]
        node = renamed.get(want["node"], want["node"]) if "node" in want else None
        wrong_node = "node" in want and want["state"] != "pending" and got.node != node
        if got.state != want["state"] or wrong_node:
            misses.append(f"{pod_id}: wanted {want['state']} on {node or 'any'}, got {got.state} on {got.node}")
    return misses


def _wanted(scenario: Scenario) -> list[tuple[str, Scenario]]:
    expected = scenario["expected"]
    of_jobs = expected.get("jobs") or {}
    return [
        *((pod["id"], want) for job in scenario["jobs"] if (want := of_jobs.get(job["name"])) for pod in job["tasks"]),
        *(expected.get("tasks") or {}).items(),
    ]
