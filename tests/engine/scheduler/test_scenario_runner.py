"""The program that runs files of scenarios: what it prints, what it writes, and what it does with files that are none."""

import json

import pytest

from tests.scenarios.__main__ import main

POLICY = {
    "node_placement_gpu": "binpack", "node_placement_cpu": "binpack", "device_placement": "pack", "quota_rules": True,
    "job_priority_order": True, "prefer_immediately_free_node": True, "prefer_partly_used_device_node": True,
    "prefer_cpu_only_nodes_for_cpu_jobs": True, "min_runtime": True, "topology": True,
}  # fmt: skip
DEPARTMENT = {
    "name": "default", "parent": None, "created_rank": 0, "priority": 100, "quota_gpus": None, "limit_gpus": None,
    "over_quota_weight": 0, "quota_cpu_millis": None, "limit_cpu_millis": None, "quota_memory_bytes": None,
    "limit_memory_bytes": None, "over_quota_weight_cpu": 1, "over_quota_weight_memory": 1,
}  # fmt: skip


def job(name, gpus):
    return {
        "name": name, "queue": "team", "priority": 50, "preemptible": True, "age_minutes": 0, "created_rank": 0,
        "min_available": 1, "tasks": [{"id": f"{name}-0", "state": "pending"}], "comes_back_after_eviction": True,
        "request": {"kind": "gpu", "gpus": gpus, "cpu_millis": 1000, "memory_bytes": 1},
    }  # fmt: skip


def scenario(name="one", *, wanted="binding", **more):
    """Return a job of one GPU on a node of two, which starts."""
    node = {"name": "node0", "gpus": 2, "gpu_memory_mib": 100, "cpu_millis": 9000, "memory_bytes": 9, "max_pods": 110}
    return {
        "id": name, "group": "allocate", "feature": "core", "mode": "step", "actions": ["allocate"], "policy": POLICY,
        "stale_gang_grace_seconds": 60, "nodes": [node], "jobs": [job("job", 1)],
        "queues": [DEPARTMENT, DEPARTMENT | {"name": "team", "parent": "default", "quota_gpus": 1}],
        "expected": {"jobs": {"job": {"state": wanted, "node": "node0"}}, "max_per_round": {"started": 1}},
    } | more  # fmt: skip


DIVISION = {
    "id": "share", "resource": "gpu", "total": 3, "stage": "all", "usage_pull": 0, "expected": {"share": {"a": 2}},
    "queues": [
        {"name": "a", "priority": 100, "quota": 1, "limit": None, "over_quota_weight": 1, "requested": 2, "created_rank": 0}
    ],
}  # fmt: skip


@pytest.fixture
def run(tmp_path, capsys):
    def run_file(*scenarios, options=(), divisions=()):
        file = tmp_path / "scenarios.json"
        file.write_text(json.dumps({"scenarios": scenarios, "fair_share_cases": divisions}))
        code = main([str(file), *map(str, options)])
        return code, capsys.readouterr().out.splitlines()

    return run_file


def test_what_passes_is_counted_by_group_and_feature(run):
    code, lines = run(scenario(), divisions=[DIVISION])

    assert code == 0
    assert [line.split() for line in lines[:2]] == [
        ["allocate", "core", "1", "passed", "0", "failed", "0", "skipped"],
        ["fair_share", "gpu", "1", "passed", "0", "failed", "0", "skipped"],
    ]
    assert lines[-1] == "2 passed, 0 failed, 0 skipped"


def test_a_miss_is_one_line_and_the_exit_code_tells(run):
    code, lines = run(scenario(wanted="pipelined"))

    assert code == 1
    assert lines[0] == "one: job-0: wanted pipelined on node0, got binding on node0"
    assert lines[-1] == "0 passed, 1 failed, 0 skipped"


def test_features_that_are_not_supported_are_skipped(run):
    code, lines = run(scenario(feature="dra"), scenario("two", feature="numa"))

    assert (code, lines[-1]) == (0, "0 passed, 0 failed, 2 skipped")


@pytest.mark.parametrize(
    ("expected", "line"),
    [
        ({"max_per_round": {"started": 0}}, "round 1: started 1 pods, wanted at most 0"),
        ({"nodes": {"node0": {"idle_gpus": 2}}}, "idle_gpus of node0: wanted 2, got 1"),
        ({"jobs": {"job": {"state": "binding", "gpu_share_granted": 0.5}}},
         "job: wanted a share of 0.5 GPUs, got 1.0"),
        ({"jobs": {"job": {"state": "binding", "unschedulable": {"code": "topology_domain_too_small"}}}},
         "job: wanted the reason topology_domain_too_small, got nothing"),
        ({"unchecked": {"jobs": {"job": {"state": "pending"}}}},
         "job: pending is written where nobody checks it, got binding"),
        ({"domains": {"x": {}}}, "domains is not compared"),
    ],
)  # fmt: skip
def test_extras_are_told_and_do_not_count(run, expected, line):
    code, lines = run(scenario(expected=expected))

    assert code == 0
    assert lines[0] == f"one: extra: {line}"
    assert lines[-2:] == ["extras, which do not count: 1 scenarios differ in some", "1 passed, 0 failed, 0 skipped"]


def test_a_group_and_a_feature_can_be_chosen(run):
    others = scenario("two", group="reclaim"), scenario("three", feature="gang")

    assert run(scenario(), *others, options=["--group", "allocate", "--feature", "core"], divisions=[DIVISION])[1][
        -1
    ] == ("1 passed, 0 failed, 0 skipped")
    assert run(*others, options=["--group", "fair_share"], divisions=[DIVISION])[1][-1] == (
        "1 passed, 0 failed, 0 skipped"
    )


def test_results_are_written_as_json(run, tmp_path):
    run(scenario(), options=["--json", tmp_path / "out.json"])

    assert json.loads((tmp_path / "out.json").read_text()) == [
        {"id": "one", "group": "allocate", "feature": "core", "verdict": "passed", "misses": [], "extras": []}
    ]


def test_a_scenario_that_breaks_fails_alone(run):
    code, lines = run(scenario(actions=["dance"]), scenario("two"))

    assert code == 1
    assert lines[0].startswith("one: broke with KeyError ('dance') at running.py:")
    assert lines[-1] == "1 passed, 1 failed, 0 skipped"


def test_ten_nodes_that_are_alike_may_be_taken_in_any_order(run):
    one = scenario()
    names = [f"node{number}" for number in range(10)]
    nodes = [one["nodes"][0] | {"name": name} for name in names]
    jobs = {"job": {"state": "binding", "node": "node7"}}

    code, lines = run(one | {"nodes": nodes, "expected": {"jobs": jobs, "interchangeable_nodes": [names]}})

    assert (code, lines[-1]) == (0, "1 passed, 0 failed, 0 skipped")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nonsense", "is not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("[]", "has neither a list of scenarios nor one of fair_share_cases"),
        ('{"scenarios": [{}]}', "has a scenario without an id"),
    ],
)
def test_a_file_without_scenarios_gets_a_sentence(tmp_path, capsys, text, sentence):
    file = tmp_path / "file.json"
    file.write_text(text)

    assert main([str(file)]) == 2
    assert capsys.readouterr().err == f"tests.scenarios: {file} {sentence}\n"


def test_a_file_that_is_not_there_gets_a_sentence(tmp_path, capsys):
    assert main([str(tmp_path / "none.json")]) == 2
    assert (
        capsys.readouterr().err
        == f"tests.scenarios: {tmp_path / 'none.json'} cannot be read: No such file or directory\n"
    )
