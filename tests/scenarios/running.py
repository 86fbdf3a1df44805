"""Runs a scenario: one pass over its actions, or rounds in which the world moves on between cycles."""

from dataclasses import dataclass, replace
from itertools import permutations, product
from typing import Any

from scheduler.engine.cycle import ACTIONS
from scheduler.engine.session import Session
from scheduler.engine.snapshot import JobView, Policy, Snapshot, TaskState, TaskView
from tests.scenarios.reading import Scenario, read_policy, read_snapshot

NAMES = {
    TaskState.PENDING: "pending",
    TaskState.STARTING: "binding",
    TaskState.RUNNING: "running",
    TaskState.PLANNED: "pipelined",
    TaskState.LEAVING: "releasing",
    TaskState.STUCK: "stuck_releasing",
    TaskState.SUCCEEDED: "succeeded",
    TaskState.FAILED: "failed",
}
_CYCLE = ("allocate", "consolidate", "reclaim", "preempt", "evict_stale_gangs")


@dataclass(frozen=True)
class Outcome:
    """Where a task ended up: the name of its state in the scenarios, its node, its devices."""

    state: str
    node: str | None
    devices: tuple[str, ...] = ()


Outcomes = dict[str, Outcome]


def run(scenario: Scenario) -> list[str]:
    """Return what differs from what the scenario wants; nothing if it passes."""
    policy, snapshot = read_policy(scenario), read_snapshot(scenario)
    if scenario["mode"] == "step":
        session = decide(snapshot, policy, scenario["actions"])
        return compare(scenario, outcomes(session))
    rounds = scenario["rounds"]
    comes_back = {job["name"]: job["comes_back_after_eviction"] for job in scenario["jobs"]}
    for _ in range(rounds["settle"]):
        snapshot = move_on(snapshot, decide(snapshot, policy, _CYCLE), comes_back)
    misses = compare(scenario, _as_outcomes(snapshot))
    for number in range(rounds["hold"]):
        if misses:
            break
        session = decide(snapshot, policy, _CYCLE)
        misses = [f"hold {number + 1}: {miss}" for miss in compare(scenario, outcomes(session))]
        snapshot = move_on(snapshot, session, comes_back)
    return misses


def decide(snapshot: Snapshot, policy: Policy, actions: Any) -> Session:
    """Run the actions and return the session with what they decided."""
    session = Session(snapshot, policy)
    for name in actions:
        ACTIONS[name](session)
    return session


def outcomes(session: Session) -> Outcomes:
    """Return where every task of a session stands."""
    return {
        task.id: Outcome(NAMES[task.state], task.node.view.id if task.node else None, task.devices)
        for job in session.jobs.values()
        for task in job.tasks
    }


def _as_outcomes(snapshot: Snapshot) -> Outcomes:
    return {
        task.id: Outcome(NAMES[task.state], task.node_id, task.devices) for job in snapshot.jobs for task in job.tasks
    }


def move_on(snapshot: Snapshot, session: Session, comes_back: dict[str, bool]) -> Snapshot:
    """Return what the next round begins with: starts run, promises wait, the evicted are gone or come back."""

    def next_task(task: TaskView, job: JobView) -> TaskView:
        now = next(t for t in session.jobs[job.id].tasks if t.id == task.id)
        if now.state is TaskState.STARTING:
            return replace(
                task, state=TaskState.RUNNING, node_id=now.node.view.id if now.node else None, devices=now.devices
            )
        if now.state is TaskState.PLANNED:
            return replace(task, state=TaskState.PENDING, node_id=None, devices=())
        if now.state is TaskState.LEAVING and comes_back[job.id]:
            return replace(task, state=TaskState.PENDING, node_id=None, devices=())
        return replace(task, state=now.state, node_id=now.node.view.id if now.node else None, devices=now.devices)

    jobs = [replace(job, tasks=tuple(next_task(task, job) for task in job.tasks)) for job in snapshot.jobs]
    jobs = [_running(job, before) for job, before in zip(jobs, snapshot.jobs, strict=True)]
    return replace(snapshot, jobs=jobs)


def _running(job: JobView, before: JobView) -> JobView:
    del before
    return job


def compare(scenario: Scenario, out: Outcomes) -> list[str]:
    """Return the differences under the best renaming of nodes that are empty and alike; nothing if there are none."""
    groups = scenario["expected"].get("interchangeable_nodes") or []
    best: list[str] | None = None
    for chosen in product(*(permutations(group) for group in groups)):
        renamed = {
            old: new for group, order in zip(groups, chosen, strict=True) for old, new in zip(group, order, strict=True)
        }
        misses = _differences(scenario, out, renamed)
        if best is None or len(misses) < len(best):
            best = misses
        if not best:
            break
    return best or []


def _differences(scenario: Scenario, out: Outcomes, renamed: dict[str, str]) -> list[str]:
    expected = scenario["expected"]
    wanted = [
        (task["id"], want)
        for job in scenario["jobs"]
        if (want := (expected.get("jobs") or {}).get(job["name"]))
        for task in job["tasks"]
    ]
    wanted += list((expected.get("tasks") or {}).items())
    misses = []
    for task_id, want in wanted:
        got = out[task_id]
        node = renamed.get(want["node"], want["node"]) if "node" in want else None
        wrong_node = "node" in want and want["state"] != "pending" and got.node != node
        if got.state != want["state"] or wrong_node:
            misses.append(f"{task_id}: wanted {want['state']} on {node or 'any'}, got {got.state} on {got.node}")
    return misses
