"""Quotas by hand: shown, changed, and tried before they are changed."""

import json

import pytest

from client.tests.cli.answers import page

QUEUE = {
    "pool": "default",
    "project": "team-a",
    "gpu_quota_milli": 4000,
    "cpu_quota_millicores": None,
    "memory_quota_bytes": None,
    "over_quota_weight": None,
    "gpu_limit_milli": 8000,
    "department": "research",
    "training_run_at_most_s": 43200.0,
    "training_node_labels": ["type=a100"],
    "gpu_held_milli": 6000,
    "waiting_workloads": 2,
}
TRIAL = {
    "pool": "default",
    "sum_text": "The quotas add up to 24 of 16 GPUs: over by 8.",
    "queues": [
        {
            "name": "team-a",
            "is_department": False,
            "quota_before_milli": 4000,
            "quota_after_milli": 12000,
            "fair_before_milli": 6000,
            "fair_after_milli": 12000,
            "held_milli": 6000,
        }
    ],
    "stops": [{"name": "b-4", "queue": "team-b", "gpu_milli": 2000, "reason": "It is claimed.", "is_anyway": False}],
    "starts": [{"name": "a-1", "queue": "team-a", "gpu_milli": 2000, "is_anyway": False, "is_after_stops": True}],
}

STANDING = {
    "pool": "default",
    "loans": [
        {"lender": "team-b", "borrower": "team-a", "gpu_milli": 2000, "text": "team-b lends 2 GPUs to team-a"},
        {"lender": None, "borrower": "team-c", "gpu_milli": 1000, "text": "team-c holds 1 GPU that no quota covers"},
    ],
    "below": [
        {
            "project": "team-b",
            "gpu_held_milli": 1000,
            "gpu_fair_milli": 4000,
            "enqueued_at": "2026-11-20T12:10:00+00:00",
            "is_starved": True,
            "text": "team-b is below its share: it holds 1 of 4 GPUs",
        }
    ],
    "small_quotas": [
        {"project": "team-c", "gpu_quota_milli": 500, "gpu_needed_milli": 1000, "text": "team-c: its quota is small"}
    ],
}


@pytest.fixture(autouse=True)
def standing(server):
    for pool in ("default", "cloud"):
        server.on("GET", f"/scheduler/pools/{pool}/standing", STANDING)


def test_queues_are_listed_with_quota_limit_and_what_they_hold(cli, server):
    server.on("GET", "/scheduler/queues", page(QUEUE))

    shown = cli("queue", "list", "--pool", "cloud")

    assert shown.stdout.splitlines() == [
        "PROJECT  DEPARTMENT  QUOTA  ALLOCATED  LIMIT  WEIGHT        WAITING",
        "team-a   research    4      6          8      as the quota  2",
    ]
    assert shown.stderr.splitlines() == [
        "warning: team-c: its quota is small.",
        "team-b is below its share: it holds 1 of 4 GPUs, and waits since 2026-11-20 12:10 UTC (starved).",
        "team-b lends 2 GPUs to team-a.",
        "team-c holds 1 GPU that no quota covers.",
    ]
    assert server.asked[0][2]["pool"] == "cloud"


def test_a_queue_shows_its_rules(cli, server):
    server.on("GET", "/scheduler/queues", page(QUEUE))

    shown = cli("queue", "show", "team-a").stdout

    assert "12 h" in shown
    assert "type=a100" in shown
    assert "team-b lends 2 GPUs to team-a." in shown
    assert "no quota covers" not in shown
    assert cli("queue", "show", "team-b").exit_code == 3


def test_a_queue_as_json_has_its_loans(cli, server):
    server.on("GET", "/scheduler/queues", page(QUEUE))

    shown = json.loads(cli("queue", "show", "team-a", "--json").stdout)

    assert [(loan["lender"], loan["gpu_milli"]) for loan in shown["loans"]] == [("team-b", 2000)]
    assert shown["below_share"] is None


def test_settings_are_sent_in_the_units_of_the_api_and_none_lifts_one(cli, server):
    server.on("PATCH", "/scheduler/queues", page())

    options = ("--gpus", "2.5", "--memory", "512GiB", "--limit", "none", "--run-interactive", "8h", "--weight", "3")
    idle = ("--idle-training", "none", "--idle-interactive", "2h")
    labels = ("--nodes-training", "type=a100", "--nodes-training", "type=h100")
    done = cli("queue", "set", "team-a", *options, *idle, *labels, "--rank", "1")

    assert done.exit_code == 0
    assert server.bodies("PATCH", "/scheduler/queues") == [
        {
            "pool": "default",
            "changes": [
                {
                    "queue": "team-a",
                    "is_department": False,
                    "gpu_quota_milli": 2500,
                    "memory_quota_bytes": 512 * 2**30,
                    "over_quota_weight": 3.0,
                    "gpu_limit_milli": None,
                    "interactive_run_at_most_s": 28800.0,
                    "training_idle_at_most_s": None,
                    "interactive_idle_at_most_s": 7200.0,
                    "pool_rank": 1,
                    "training_node_labels": ["type=a100", "type=h100"],
                }
            ],
        }
    ]


@pytest.mark.parametrize(
    "options",
    [("--gpus", "1e400"), ("--memory", "much"), ("--run-training", "long"), ("--weight", "x"), ("--rank", "first"), ()],
)
def test_what_cannot_be_read_is_refused_and_nothing_is_sent(cli, server, options):
    assert cli("queue", "set", "team-a", *options).exit_code == 2
    assert server.asked == []


def test_a_dry_run_shows_shares_sums_and_who_is_stopped_and_changes_nothing(cli, server):
    server.on("POST", "/scheduler/quota-trials", TRIAL)

    done = cli("queue", "set", "team-a", "--gpus", "12", "--dry-run")

    assert done.stdout.splitlines() == [
        "QUEUE   QUOTA    FAIR SHARE  ALLOCATED",
        "team-a  4 -> 12  6 -> 12     6",
        "The quotas add up to 24 of 16 GPUs: over by 8.",
        "stops 1: b-4 of team-b, 2 GPU. It is claimed.",
        "starts: a-1 of team-a, 2 GPU, once these have stopped.",
    ]
    assert [(method, path) for method, path, *_ in server.asked] == [("POST", "/scheduler/quota-trials")]


def test_departments_are_made_listed_and_deleted(cli, server):
    research = {"pool": "default", "name": "research", "gpu_quota_milli": 8000, "gpu_limit_milli": None}
    server.on("POST", "/scheduler/departments", research, status=201)
    server.on("GET", "/scheduler/departments", page(research))
    server.on("DELETE", "/scheduler/departments/research", None, status=204)

    assert cli("queue", "create-department", "research", "--gpus", "8").exit_code == 0
    assert cli("queue", "departments").stdout.splitlines()[1].split() == ["research", "-", "8", "none"]
    assert cli("queue", "delete-department", "research", "--yes").exit_code == 0
    assert server.bodies("POST", "/scheduler/departments") == [
        {"pool": "default", "name": "research", "gpu_quota_milli": 8000}
    ]
