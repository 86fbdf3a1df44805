"""`nearline experiment delete`."""

import pytest

ROUTE = "/experiments/exp_1"


@pytest.fixture
def experiment(server):
    item = {"id": "exp_1", "title": "elsewhere", "state": "succeeded", "project": "team-a"}
    server.on("GET", ROUTE, item | {"created_at": "2026-11-21T12:00:00Z", "parameters": {}, "metrics": {}, "tags": {}})


@pytest.mark.usefixtures("experiment")
def test_what_is_lost_is_told_before_the_question(cli, server):
    server.on("GET", f"{ROUTE}/deletion", {"effects": ["It loses 1 tag.", "It cannot be restored."]})
    server.on("DELETE", ROUTE, None, status=204)

    asked = cli("experiment", "delete", "exp_1")
    is_sent = ("DELETE", ROUTE) in [(method, path) for method, path, *_ in server.asked]
    done = cli("experiment", "delete", "exp_1", "--yes")

    assert (asked.exit_code, is_sent) == (2, False)
    assert asked.stderr.splitlines()[0].endswith("(exp_1) will be deleted. It loses 1 tag. It cannot be restored.")
    assert (done.exit_code, done.stdout) == (0, "Deleted:  exp_1\n")


@pytest.mark.usefixtures("experiment")
def test_what_cannot_be_deleted_is_refused_before_the_question(cli, server):
    server.refuse("GET", f"{ROUTE}/deletion", 409, title="'elsewhere' is running.")

    done = cli("experiment", "delete", "exp_1")

    assert done.exit_code != 0
    assert done.stderr.splitlines()[0] == "✗ 'elsewhere' is running."
