"""Commits, differences and cached copies from the command line."""

import json

import pytest

from client.tests.cli.answers import COMMIT_ID, cached, commit, dataset, page

PARENT = "cd" * 32
CHANGES = [
    {"path": "a.txt", "change": "added", "size_before": None, "size_after": 5},
    {"path": "b.txt", "change": "changed", "size_before": 5, "size_after": 1500},
    {"path": "c.txt", "change": "removed", "size_before": 5, "size_after": None},
]
DIFF = {"added": 1, "removed": 1, "changed": 1, "items": CHANGES, "next_cursor": None}


@pytest.fixture
def digits(server):
    server.on("GET", "/datasets/team/digits", dataset())
    server.on("GET", "/datasets/team/digits/commits/latest", commit())
    return server


def test_datasets_are_listed(cli, server):
    server.on("GET", "/datasets", page(dataset(), dataset(reference="team/empty", newest_commit=None, files=0)))

    rows = [line.split() for line in cli("data", "list").stdout.splitlines()]

    assert rows[1][:6] == ["team/digits", "3", "files", "1.5", "kB", "abababab"]
    assert rows[2][-2:] == ["-", "empty"]
    assert cli("data", "list", "--quiet").stdout == "team/digits\nteam/empty\n"


def test_a_dataset_without_a_commit_has_an_empty_history(cli, server):
    route = "/datasets/team/digits/commits"
    server.refuse("GET", route, 404, title="No commit yet.", code="datasets.empty_branch")

    done = cli("data", "commits", "team/digits")

    assert (done.exit_code, done.stdout) == (0, "")
    assert "team/digits has no commit yet." in done.stderr


def test_commits_show_their_names_and_copies(cli, server):
    hydrating = {"site": "far", "state": "hydrating", "percent": 40}
    server.on("GET", "/datasets/team/digits/commits", page(commit(cached=[*commit()["cached"], hydrating])))

    line = cli("data", "commits", "team/digits@main").stdout.splitlines()[1]

    assert "main, v1, cached on local, hydrating far 40 %" in line
    assert "+1 -2 ~3" in line


def test_a_difference_is_marked_by_signs(cli, digits):
    digits.on("GET", "/datasets/team/digits/diff", DIFF)

    done = cli("data", "diff", "v1", "v2", "--dataset", "team/digits")

    assert done.stdout.splitlines() == ["+ a.txt", "~ b.txt  5 B -> 1.5 kB", "- c.txt"]
    assert done.stderr == "1 added, 1 removed, 1 changed\n"
    assert digits.asked[-1][2] == {"base": "v1", "ref": "v2"}
    assert cli("data", "diff", "v1", "v2", "--dataset", "team/digits", "--quiet").stdout == "a.txt\nb.txt\nc.txt\n"


def test_without_states_the_newest_commit_is_compared_with_its_parent(cli, digits):
    digits.on("GET", "/datasets/team/digits/diff", DIFF)

    cli("data", "diff", "--dataset", "team/digits")

    assert digits.asked[-1][2] == {"base": PARENT, "ref": "latest"}


def test_states_may_name_their_dataset(cli, digits):
    digits.on("GET", "/datasets/team/digits/diff", DIFF)

    cli("data", "diff", "team/digits@v1", "team/digits@v2", "--json")

    assert digits.asked[-1][2] == {"base": "v1", "ref": "v2"}


def test_a_long_difference_is_read_to_its_end(cli, digits):
    first = {**DIFF, "items": CHANGES[:2], "next_cursor": "x"}
    digits.on("GET", "/datasets/team/digits/diff", [first, {**DIFF, "items": CHANGES[2:]}])

    assert json.loads(cli("data", "diff", "team/digits@v1", "v2", "--json").stdout) == DIFF


def test_revert_makes_a_commit_on_the_default_branch(cli, digits):
    digits.on("POST", "/datasets/team/digits/revert", commit(message="Back"), status=201)

    done = cli("data", "revert", "team/digits", "abababab", "-m", "Back")

    assert done.exit_code == 0
    assert digits.bodies("POST", "/datasets/team/digits/revert") == [
        {"commit": "abababab", "branch": "main", "message": "Back"}
    ]


def test_the_default_branch_is_not_removed_by_accident(cli, digits):
    digits.on("GET", "/datasets/team/digits/branches", page())

    assert cli("data", "branch", "old", "--delete", "--dataset", "team/digits").exit_code == 2
    assert "DELETE" not in {method for method, *_ in digits.asked}


CACHE = "/datasets/team/digits/commits/v1/cache"


def test_a_commit_is_cached_and_the_command_waits_for_it(cli, server):
    server.on("POST", CACHE, cached(state="queued", path=None), status=202)
    server.on("GET", "/cache/commits/cc_1", [cached(state="hydrating", path=None, percent=40), cached()])

    done = cli("data", "cache", "team/digits@v1", "--site", "local", "--wait")

    assert done.stdout.splitlines()[0] == "Path:    /cache/digits"
    assert server.bodies("POST", CACHE) == [{"site": "local"}]
    assert cli("data", "cache", "team/digits@v1", "--wait", "--quiet").stdout == "/cache/digits\n"


def test_without_waiting_the_state_is_shown(cli, server):
    server.on("POST", CACHE, cached(state="queued", path=None), status=202)

    shown = json.loads(cli("data", "cache", "team/digits", "-c", "v1", "--json").stdout)

    assert (shown["state"], server.bodies("POST", CACHE)) == ("queued", [{}])


def test_a_copy_that_fails_ends_with_1_and_the_reason(cli, server):
    failed = cached(state="failed", path=None, error="The site is full.", error_hint="Unpin something.")
    server.on("POST", CACHE, failed, status=202)

    done = cli("data", "cache", "team/digits@v1", "--wait")

    assert done.exit_code == 1
    assert "is not cached on local: The site is full.\nhint: Unpin something." in done.stderr


def test_waiting_has_an_end(cli, server):
    server.on("POST", CACHE, cached(state="queued", path=None), status=202)
    server.on("GET", "/cache/commits/cc_1", cached(state="queued", path=None))

    assert cli("data", "cache", "team/digits@v1", "--wait", "--timeout", "0").exit_code == 7


def test_uncache_returns_once_the_copy_is_gone(cli, server):
    server.on("DELETE", CACHE, cached(state="evicting"), status=202)
    server.on("GET", "/cache/commits/cc_1", cached(state="gone", path=None))

    done = cli("data", "uncache", "team/digits@v1", "--yes", "--json")

    assert json.loads(done.stdout)["state"] == "gone"
    assert COMMIT_ID in done.stdout
