"""What a scenario wants beyond states and nodes: counts of calls, capacity left, reasons, shares. Reported, never failed."""

from collections.abc import Iterator, Mapping, Sequence

from scheduler.engine.explain import explain
from scheduler.engine.jobs import Pod
from scheduler.engine.ledger import HOLDING
from scheduler.engine.session import Session
from scheduler.engine.snapshot import PodState
from tests.scenarios.outcome import Outcomes, outcomes, renaming
from tests.scenarios.reading import Scenario

CODES = {
    "topology_cluster_too_small": {"not_together", "no_room", "never_fits"},
    "topology_domain_too_small": {"not_together"},
    "non_preemptible_over_quota": {"beyond_quota"},
}
"""Which of our reasons say the same as those of the scenarios."""

NOT_COMPARED = ("numa_zones", "started_at_least_seconds_ago")


def extras_of(scenario: Scenario, rounds: Sequence[Session]) -> list[str]:
    """Return in what the rounds, each as it stood after its actions, differ from what else is wanted."""
    last, expected = rounds[-1], scenario["expected"]
    renamed = renaming(scenario, outcomes(last))
    return [
        *_calls(expected.get("max_per_round") or {}, rounds),
        *_capacities(expected.get("nodes") or {}, last, renamed),
        *_reasons(expected, last),
        *_shares(expected, last),
        *_devices(expected, outcomes(last), last),
        *_unchecked(expected.get("unchecked") or {}, last),
        *(f"{what} is not compared" for what in _uncompared(expected)),
    ]


def _calls(most: Mapping[str, int], rounds: Sequence[Session]) -> Iterator[str]:
    for number, session in enumerate(rounds, start=1):
        pods = [pod for job in session.jobs.values() for pod in job.pods]
        counts = {
            "started": sum(pod.state is PodState.STARTING for pod in pods),
            "evicted": sum(pod.view.state is PodState.RUNNING is not pod.state for pod in pods),
            "planned": sum(pod.state is PodState.RESERVED is not pod.view.state for pod in pods),
        }
        for what, bound in most.items():
            if counts.get(what, 0) > bound:
                yield f"round {number}: {what} {counts[what]} pods, wanted at most {bound}"


def _capacities(wanted: Mapping[str, Scenario], session: Session, renamed: Mapping[str, str]) -> Iterator[str]:
    for name, capacity in wanted.items():
        node = session.node_of[renamed.get(name, name)]
        have = {"idle_gpus": node.idle_gpus, "releasing_gpus": node.releasing_gpus}
        for what, want in capacity.items():
            if what not in have:
                yield f"{what} of {name} is not compared"
            elif have[what] != want:
                yield f"{what} of {name}: wanted {want}, got {have[what]}"


def _reasons(expected: Scenario, session: Session) -> Iterator[str]:
    said = {reason.job_id: str(reason.code) for reason in explain(session)}
    for job_id, want in (expected.get("jobs") or {}).items():
        if reason := want.get("unschedulable"):
            code = said.get(job_id, "nothing")
            if code not in CODES.get(reason["code"], {reason["code"]}):
                yield f"{job_id}: wanted the reason {reason['code']}, got {code}"


def _shares(expected: Scenario, session: Session) -> Iterator[str]:
    for name, pods, want in _wants(expected, session):
        if "gpu_share_granted" in want:
            held = [pod for pod in pods if pod.state in HOLDING]
            granted = session.charge_all(held)[0] / 1000
            if abs(granted - want["gpu_share_granted"]) > 0.001:
                yield f"{name}: wanted a share of {want['gpu_share_granted']} GPUs, got {granted}"


def _devices(expected: Scenario, out: Outcomes, session: Session) -> Iterator[str]:
    """Devices are anonymous: only who shares one with whom is compared."""
    known: dict[tuple[str | None, str], str] = {}
    for name, pods, want in _wants(expected, session):
        for pod in pods:
            labels = want.get("devices") or () if pod.shape.request.is_shared else ()
            places = [(out[pod.id].node, device) for device in out[pod.id].devices]
            if any(known.setdefault(place, label) != label for place, label in zip(places, labels, strict=False)):
                yield f"{name}: shares a device with others than wanted"


def _unchecked(wanted: Scenario, session: Session) -> Iterator[str]:
    out = outcomes(session)
    for name, pods, want in _wants(wanted, session):
        got = {out[pod.id].state for pod in pods}
        if "state" in want and got - {want["state"]}:
            yield f"{name}: {want['state']} is written where nobody checks it, got {', '.join(sorted(got))}"


def _wants(expected: Scenario, session: Session) -> Iterator[tuple[str, list[Pod], Scenario]]:
    """Yield what is wanted of the pods of a job, and of single pods."""
    pods = {pod.id: pod for job in session.jobs.values() for pod in job.pods}
    for job_id, want in (expected.get("jobs") or {}).items():
        if job_id in session.jobs:
            yield job_id, session.jobs[job_id].pods, want
    for pod_id, want in (expected.get("tasks") or {}).items():
        if pod_id in pods:
            yield pod_id, [pods[pod_id]], want


def _uncompared(expected: Scenario) -> list[str]:
    wants = [want for kind in ("jobs", "tasks") for want in (expected.get(kind) or {}).values()]
    return [*(["domains"] if expected.get("domains") else []), *(k for k in NOT_COMPARED if any(k in w for w in wants))]
