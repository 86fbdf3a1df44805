"""Evictions with their receipts, by week too, and what projects consumed."""

import json

EVICTION = {
    "id": "evict_1",
    "evicted_at": "2026-11-21T12:00:00Z",
    "job": "sweep-3",
    "label": "sweep-3",
    "project": "team-c",
    "pool": "dgx",
    "has_simulated": True,
    "code": "reclaimed",
    "rule": "Reclaim by right: the claimant stays within its quota of 4 GPUs.",
    "lost_gpu_s": 1560.0,
    "claimant": "",
    "claimant_label": "a job of another project",
    "claimant_project": "another project",
    "claim_class": "by_right",
    "alternatives": [{"label": "batch-91", "why_text": "would lose more work"}],
    "cycle": "cycle_1",
}
WEEK = {"project": "team-c", "begins_at": "2026-11-16T00:00:00Z", "evictions": 3, "moves": 1, "lost_gpu_s": 14400.0}


def page(*items):
    return {"items": list(items), "next_cursor": None}


def test_evictions_are_listed_with_their_receipts(cli, server):
    server.on("GET", "/scheduler/evictions", page(EVICTION))

    shown = cli("analytics", "evictions", "--project", "team-c", "--job", "sweep-3").stdout.splitlines()[1]

    parts = ("sweep-3", "  dgx (simulated)  ", "  a job of another project  ", "26 GPU-min", "would lose more")
    for part in parts:
        assert part in shown
    assert shown.endswith("Reclaim by right: the claimant stays within its quota of 4 GPUs.")
    assert (server.asked[0][2]["project"], server.asked[0][2]["job"]) == ("team-c", "sweep-3")


def test_evictions_are_counted_by_week(cli, server):
    server.on("GET", "/scheduler/evictions/weeks", page(WEEK))

    assert cli("analytics", "evictions", "--weekly").stdout.splitlines()[1].split() == [
        *("2026-11-16", "team-c", "3", "1", "4.0", "GPU-h")
    ]


def test_a_job_s_own_evictions_are_listed(cli, server):
    job = {"name": "sweep-3", "project": "team-c", "state": "running", "resource": "dgx", "template": "dgx.one"}
    server.on("GET", "/compute/jobs/sweep-3", job)
    server.on("GET", "/scheduler/evictions", page({**EVICTION, "claim_class": "", "alternatives": []}))

    done = cli("job", "evictions", "sweep-3", "--json")

    assert [item["id"] for item in json.loads(done.stdout)["items"]] == ["evict_1"]
    assert server.asked[1][2]["job"] == "sweep-3"


def test_consumption_is_a_table_or_a_file_for_spreadsheets(cli, server):
    row = {"project": "team-c", "pool": "dgx", "gpu_s": 5400.0, "price": 3.75, "has_simulated": True}
    server.on("GET", "/scheduler/consumption", page(row))

    table = cli("analytics", "consumption", "--days", "7").stdout.splitlines()
    file = cli("analytics", "consumption", "--csv").stdout.splitlines()

    assert table[1].split() == ["team-c", "dgx", "(simulated)", "1.50", "3.75"]
    assert file == ["project,pool,gpu_hours,price,has_simulated", "team-c,dgx,1.50,3.75,true"]


def test_jobs_that_failed_for_a_cause_are_asked_for(cli, server):
    server.on("GET", "/compute/jobs", page())

    cli("job", "list", "--state", "failed", "--cause", "out_of_memory")

    assert (server.asked[0][2]["state"], server.asked[0][2]["cause"]) == ("failed", "out_of_memory")
