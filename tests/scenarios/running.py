"""Runs a scenario: one pass over its actions, or rounds in which the world moves on between cycles."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from scheduler.engine.cycle import ACTIONS
from scheduler.engine.session import Session
from scheduler.engine.snapshot import PARITY, JobView, PodState, PodView, Policy, Snapshot
from tests.scenarios.outcome import compare, outcomes, outcomes_of
from tests.scenarios.reading import Scenario, read_policy, read_snapshot

CYCLE = ("allocate", "consolidate", "reclaim", "preempt", "evict_stale_gangs")


@dataclass(frozen=True)
class Played:
    """A scenario that was played through: what came out otherwise, and its rounds as they stood after the actions."""

    misses: list[str]
    rounds: list[Session]


def run(scenario: Scenario, base: Policy = PARITY) -> Played:
    """Play a scenario through and compare states and nodes."""
    policy, snapshot = read_policy(scenario, base), read_snapshot(scenario)
    if scenario["mode"] == "step":
        session = decide(snapshot, policy, scenario["actions"])
        return Played(compare(scenario, outcomes(session)), [session])
    settle, hold = scenario["rounds"]["settle"], scenario["rounds"]["hold"]
    comes_back = {job["name"]: job["comes_back_after_eviction"] for job in scenario["jobs"]}
    sessions, misses = [], []
    for number in range(settle + hold):
        session = decide(snapshot, policy, CYCLE)
        sessions.append(session)
        if number >= settle and not misses:
            misses = [f"hold {number - settle + 1}: {miss}" for miss in compare(scenario, outcomes(session))]
        snapshot = move_on(snapshot, session, comes_back)
        if number == settle - 1:
            misses = compare(scenario, outcomes_of(snapshot))
    return Played(misses, sessions)


def decide(snapshot: Snapshot, policy: Policy, actions: Iterable[str]) -> Session:
    """Run the actions and return the session with what they decided."""
    session = Session(snapshot, policy)
    for name in actions:
        ACTIONS[name](session)
    return session


def move_on(snapshot: Snapshot, session: Session, comes_back: Mapping[str, bool]) -> Snapshot:
    """Return what the next round begins with: starts run, promises are lost, the evicted are gone or come back."""
    now = {pod.id: pod for job in session.jobs.values() for pod in job.pods}

    def next_pod(pod: PodView, job: JobView) -> PodView:
        state, node, devices = now[pod.id].state, now[pod.id].node, now[pod.id].devices
        if state is PodState.RESERVED or (state is PodState.TERMINATING and comes_back[job.id]):
            return replace(pod, state=PodState.PENDING, node_id=None, devices=())
        state = PodState.RUNNING if state is PodState.STARTING else state
        return replace(pod, state=state, node_id=node.view.id if node else None, devices=devices)

    def evictions_of(job: JobView) -> int:
        lost = any(pod.state is PodState.RUNNING is not now[pod.id].state for pod in job.pods)
        return job.evictions + lost

    jobs = [
        replace(job, pods=tuple(next_pod(pod, job) for pod in job.pods), evictions=evictions_of(job))
        for job in snapshot.jobs
    ]
    return replace(snapshot, jobs=jobs)
