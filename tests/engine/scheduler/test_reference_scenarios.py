"""The allocate scenarios of the reference data that ask for nothing beyond this scheduler: same starts, same nodes.

Left out: gangs, limits, node affinity, work that is being stopped, and switches that turn the rules off.
"""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from scheduler.engine.resources import Amount, Quota
from scheduler.engine.snapshot import NodePlacement, NodeView, Placed, Policy, QueueView, Shape, Waiting
from tests.factories.scheduler import START, decide

FILE = Path(__file__).resolve().parents[4] / "shared" / "scenarios" / "scenarios.json"
KINDS = {"gpu", "cpu", "fraction"}

pytestmark = pytest.mark.skipif(not FILE.exists(), reason="the folder with the reference scenarios is not at hand")


def is_within_reach(scenario: dict) -> bool:
    jobs, policy = scenario["jobs"], scenario["policy"]
    return (
        (scenario["group"], scenario["mode"]) == ("allocate", "step")
        and scenario["feature"] in {"core", "fraction"}
        and policy["quota_rules"]
        and all(queue["limit_gpus"] is None for queue in scenario["queues"])
        and all(len(job["tasks"]) == 1 and job["request"]["kind"] in KINDS for job in jobs)
        and all(job["request"].get("devices", 1) == 1 for job in jobs)
        and all(job["tasks"][0]["state"] in {"pending", "running"} for job in jobs)
    )


def scenarios() -> list[dict]:
    return [row for row in json.loads(FILE.read_text())["scenarios"] if is_within_reach(row)] if FILE.exists() else []


def test_there_are_scenarios_within_reach():
    assert len(scenarios()) == 14


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: scenario["id"])
def test_a_scenario_of_the_reference_comes_out_as_written(scenario):
    placement = NodePlacement.SPREAD if scenario["policy"]["node_placement_gpu"] == "spread" else NodePlacement.PACK

    outcome = decide(*parts_of(scenario), policy=Policy(placement))

    by_task = {name.rpartition("-")[0]: wanted for name, wanted in scenario["expected"].get("tasks", {}).items()}
    for name, wanted in (scenario["expected"].get("jobs", {}) | by_task).items():
        if wanted["state"] == "binding":
            assert outcome.nodes.get(name) == wanted.get("node", outcome.nodes.get(name, "nowhere")), scenario[
                "summary"
            ]
        if wanted["state"] == "pending":
            assert name in outcome.texts, scenario["summary"]


def parts_of(scenario: dict) -> Iterator[NodeView | QueueView | Waiting | Placed]:
    for row in scenario["nodes"]:
        devices = tuple(range(row["gpus"]))
        yield NodeView(row["name"], row["name"], "lab", "lab", row["cpu_millis"], int(row["memory_bytes"]), devices)
    for row in scenario["queues"]:
        quota = Quota(milli(row["quota_gpus"]), row["quota_cpu_millis"], row["quota_memory_bytes"])
        created_at = START + timedelta(seconds=row["created_rank"])
        yield QueueView(row["name"], row["name"], created_at, quota, row["over_quota_weight"])
    devices_of: dict[str, dict[str, int]] = {}
    for job in scenario["jobs"]:
        task = job["tasks"][0]
        needs = amount(job["request"])
        if task["state"] == "running":
            gpus = held_devices(job["name"], task, needs, devices_of.setdefault(task["node"], {}))
            yield Placed(job["name"], job["queue"], task["node"], needs, gpus, job["preemptible"])
        else:
            moment = START - timedelta(minutes=job["age_minutes"]) + timedelta(seconds=job["created_rank"])
            yield Waiting(job["name"], job["queue"], Shape("lab", needs), moment, job["priority"], job["preemptible"])


def amount(request: dict) -> Amount:
    gpus = request.get("gpus", 0) if request["kind"] == "gpu" else request.get("gpu_fraction", 0)
    return Amount(milli(gpus), request["cpu_millis"], int(request["memory_bytes"]))


def milli(gpus: float | None) -> int | None:
    return None if gpus is None else round(gpus * 1000)


def held_devices(name: str, task: dict, needs: Amount, known: dict[str, int]) -> tuple[tuple[int, int], ...]:
    """Number the devices of a node as they are named; whole ones get names of their own."""
    labels = task.get("devices") or [name]
    if needs.gpu_milli >= 1000:
        labels = [f"{name}-{number}" for number in range(needs.gpu_milli // 1000)]
    share = min(needs.gpu_milli, 1000)
    return tuple((known.setdefault(label, len(known)), share) for label in labels) if share else ()
