"""What a project stores, as people see it and limit it."""

STORAGE = {
    "project": "team-a",
    "used_bytes": 9_800_000_000,
    "leaving_bytes": 0,
    "limit_bytes": 10_000_000_000,
    "parts": [
        {"name": "xrays", "stored_bytes": 9_000_000_000, "is_dataset": True},
        {"name": "outputs and code of jobs", "stored_bytes": 800_000_000, "is_dataset": False},
    ],
}


def test_storage_is_shown_with_what_takes_most(cli, server):
    server.on("GET", "/projects/team-a/storage", STORAGE)

    assert cli("project", "storage", "team-a").stdout.splitlines() == [
        "Project:                   team-a",
        "Stored:                    9.8 GB",
        "Limit:                     10.0 GB",
        "Leaving by itself:         0 B",
        "xrays:                     9.0 GB",
        "outputs and code of jobs:  800 MB",
    ]


def test_what_no_commit_uses_is_told_apart_with_its_end(cli, server):
    unused = {"unused_bytes": 300_000_000, "freed_at": "2026-11-30T10:00:00Z"}
    server.on("GET", "/projects/team-a/storage", STORAGE | unused)

    line = cli("project", "storage", "team-a").stdout.splitlines()[2]

    assert line.split("  ")[-1].strip() == "300 MB of uploads that no commit uses, freed by 2026-11-30 10:00 UTC"


def test_a_limit_is_set_and_lifted(cli, server):
    server.on("PATCH", "/projects/team-a/storage", {**STORAGE, "limit_bytes": None})

    assert cli("project", "storage", "team-a", "--limit", "10TB").exit_code == 0
    assert "Limit:                     none" in cli("project", "storage", "team-a", "--limit", "none").stdout
    assert server.bodies("PATCH", "/projects/team-a/storage") == [{"limit_bytes": 10**13}, {"limit_bytes": None}]


def test_a_limit_that_is_no_size_is_refused_before_anything_is_sent(cli, server):
    done = cli("project", "storage", "team-a", "--limit", "much")

    assert done.exit_code == 2
    assert server.asked == []
