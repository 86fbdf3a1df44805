"""`nearline run delete` and `nearline flow delete`."""

import pytest

RUN = "/runs/run_1"
FLOW = "/flows/team-a/digits"


@pytest.fixture
def run(server):
    item = {"id": "run_1", "project": "team-a", "flow": "digits", "number": 7, "state": "succeeded", "steps": []}
    server.on("GET", RUN, item | {"created_at": "2026-11-21T12:00:00Z"})


def deletions_of(server, path: str) -> int:
    return sum((method, asked) == ("DELETE", path) for method, asked, *_ in server.asked)


@pytest.mark.usefixtures("run")
def test_what_a_run_loses_is_told_before_the_question(cli, server):
    server.on("GET", f"{RUN}/deletion", {"effects": ["3 steps are deleted.", "It cannot be restored."]})
    server.on("DELETE", RUN, None, status=204)

    asked = cli("run", "delete", "run_1")
    before = deletions_of(server, RUN)
    done = cli("run", "delete", "run_1", "--yes")

    assert (asked.exit_code, before) == (2, 0)
    told = "team-a/digits #7 will be deleted. 3 steps are deleted. It cannot be restored."
    assert asked.stderr.splitlines()[0].endswith(told)
    assert (done.exit_code, done.stdout, deletions_of(server, RUN)) == (0, "Deleted:  run_1\n", 1)


@pytest.mark.usefixtures("run")
def test_a_run_that_goes_on_is_refused_before_the_question(cli, server):
    server.refuse("GET", f"{RUN}/deletion", 409, title="Run #7 of digits has not ended: it is running.")

    done = cli("run", "delete", "run_1")

    assert done.exit_code != 0
    assert done.stderr.splitlines()[0] == "✗ Run #7 of digits has not ended: it is running."


def test_what_a_flow_loses_is_told_before_the_question(cli, server):
    server.on("GET", f"{FLOW}/deletion", {"effects": ["It loses 2 versions and 3 runs.", "It cannot be restored."]})
    server.on("DELETE", FLOW, None, status=204)

    asked = cli("flow", "delete", "digits", "--project", "team-a")
    before = deletions_of(server, FLOW)
    done = cli("flow", "delete", "team-a/digits", "--yes")

    assert (asked.exit_code, before) == (2, 0)
    told = "team-a/digits will be deleted. It loses 2 versions and 3 runs. It cannot be restored."
    assert asked.stderr.splitlines()[0].endswith(told)
    assert (done.exit_code, done.stdout, deletions_of(server, FLOW)) == (0, "Deleted:  team-a/digits\n", 1)
