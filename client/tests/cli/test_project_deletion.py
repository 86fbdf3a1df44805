"""`nearline project delete`, `deleted` and `restore`."""

import json

FORECAST = {
    "project": "team-a",
    "restore_days": 7,
    "effects": [
        {
            "kind": "running_jobs",
            "count": 7,
            "text": "7 jobs running: stopped.",
            "size_bytes": 0,
            "items": [{"name": f"job-{number}", "text": "by ada, runs for 2 h"} for number in range(6)],
        },
        {"kind": "secrets", "count": 1, "text": "1 secret.", "size_bytes": 0, "items": []},
    ],
}
DELETED = {
    "id": "proj_1",
    "name": "team-a",
    "deleted_at": "2026-11-23T10:00:00.000Z",
    "deleted_by": "ada",
    "restore_ends_at": "2026-11-30T10:00:00.000Z",
    "waits_for": "",
}
ROUTE = "/projects/team-a"


def test_delete_tells_what_happens_before_it_asks(cli, server):
    server.on("GET", f"{ROUTE}/deletion", FORECAST)

    done = cli("project", "delete", "team-a")

    assert done.exit_code != 0
    assert done.stderr.splitlines()[:10] == [
        "! team-a will be deleted.",
        "  7 jobs running: stopped.",
        *(f"    job-{number}  by ada, runs for 2 h" for number in range(5)),
        "    and 2 more",
        "  1 secret.",
        "It can be restored for 7 days.",
    ]
    assert [call for call in server.asked if call[0] == "DELETE"] == []


def test_delete_says_until_when_the_project_can_be_restored_and_how(cli, server):
    server.on("GET", f"{ROUTE}/deletion", FORECAST)
    server.on("DELETE", ROUTE, DELETED)

    done = cli("project", "delete", "team-a", "--yes")

    assert done.stdout == "Deleted:           team-a\nRestorable until:  2026-11-30 10:00 UTC\n"
    assert "`nearline project restore team-a` brings it back." in done.stderr


def test_for_good_ends_the_time_of_one_that_is_deleted_already(cli, server):
    server.on("GET", "/deleted-projects", {"items": [DELETED], "next_cursor": None})
    server.on("DELETE", "/deleted-projects/team-a", None)

    assert cli("project", "delete", "team-a", "--for-good", "--yes").stdout == "Deleted:     team-a\nRestorable:  no\n"
    assert [call[0] for call in server.asked] == ["GET", "DELETE"]


def test_deleted_lists_and_restore_brings_back(cli, server):
    removing = {**DELETED, "name": "team-b", "restore_ends_at": None, "waits_for": "It waits for 1 job to stop."}
    server.on("GET", "/deleted-projects", {"items": [DELETED, removing], "next_cursor": None})
    server.on(
        "POST",
        "/deleted-projects/team-a/restore",
        {"name": "team-a", "role": "admin", "description": "", "id": "proj_1"},
    )

    listed = cli("project", "deleted").stdout.splitlines()

    assert listed[1].endswith("2026-11-30 10:00 UTC")
    assert listed[2].endswith("It waits for 1 job to stop.")
    assert [item["name"] for item in json.loads(cli("project", "deleted", "--json").stdout)["items"]] == [
        "team-a",
        "team-b",
    ]
    assert cli("project", "restore", "team-a").stdout == "Restored:  team-a\n"
