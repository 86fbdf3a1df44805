"""This release goes on with what the first release wrote: nothing is lost, and what ran goes on."""

import sqlite3
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from blake3 import blake3

from tests.journeys.digits import contents
from tests.journeys.product import Product, is_full
from tests.upgrade.archive import move_to_postgres, unpack

DIGITS = "demo/digits"
ACCURACY = 0.9933184855233853


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> dict[str, list[dict]]:
    """The rows of the archived database, by table, before this release has touched them."""
    home = tmp_path_factory.mktemp("written") / "home"
    unpack(home)
    database = sqlite3.connect(home / "nearline.sqlite3")
    database.row_factory = sqlite3.Row
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    rows = {table: [dict(row) for row in database.execute(f'SELECT * FROM "{table}"')] for table in tables}
    database.close()
    return rows


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory):
    home = tmp_path_factory.mktemp("upgraded") / "home"
    unpack(home)
    product = Product(home)
    if is_full():
        move_to_postgres(home, product.environment)
    product.start()
    yield product
    product.stop()


@pytest.fixture(scope="module")
def clone(upgraded, tmp_path_factory) -> Path:
    """The files of the first commit, read from the store."""
    folder = tmp_path_factory.mktemp("clone")
    upgraded.cli("data", "clone", f"{DIGITS}@first", str(folder / "first"), cwd=folder)
    return folder / "first"


def run_of(product: Product, flow: str) -> dict:
    """The first run of a flow; of the demo's there is one."""
    runs = product.api("GET", f"/runs?project=demo&flow={flow}")["items"]
    return product.api("GET", f"/runs/{min(runs, key=lambda run: run['number'])['id']}")


def job_of(product: Product, name: str) -> dict:
    return product.api("GET", f"/compute/jobs/{name}")


def test_history_is_the_same_and_its_files_are_read_back_whole(upgraded, written, clone):
    log = upgraded.cli_json("data", "commits", DIGITS, cwd=clone)["items"]

    assert {(commit["id"], commit["message"], commit["root"]) for commit in log} == {
        (row["id"], row["message"], row["root"]) for row in written["datasets_commit"]
    }
    assert len([name for name in contents(clone) if name.endswith(".png")]) == 1797


def test_a_cached_commit_is_still_ready_and_is_what_the_commit_says(upgraded, clone):
    (cached,) = upgraded.api("GET", "/cache/commits")["items"]

    assert cached["state"] == "ready"
    assert contents(Path(cached["path"])) == contents(clone)


def test_each_resource_reads_the_site_that_it_had(upgraded):
    resources = upgraded.api("GET", "/compute/resources")["items"]

    assert {resource["name"]: resource["sites"] for resource in resources} == {
        "this-machine": ["local"],
        "lab": ["local"],
    }


def test_runs_experiments_logs_and_artifacts_are_as_they_were(upgraded, written):
    run = run_of(upgraded, "digits")
    evaluate = upgraded.api("GET", f"/experiments/{run['steps'][-1]['experiment_id']}")
    log = upgraded.api("GET", f"/runs/{run['id']}/steps/evaluate/log")

    assert [step["state"] for step in run["steps"]] == ["succeeded"] * 5
    assert evaluate["metrics"]["accuracy"] == ACCURACY
    assert "is best: accuracy 0.9933" in log["data"]
    assert {
        (row["experiment_id"], row["path"]): artifact_hash(upgraded, row["experiment_id"], row["path"])
        for row in written["flows_artifact"]
    } == {(row["experiment_id"], row["path"]): row["content_hash"] for row in written["flows_artifact"]}


def artifact_hash(product: Product, experiment_id: str, path: str) -> str:
    request = urllib.request.Request(
        f"{product.url}/api/v1/experiments/{experiment_id}/artifacts/{urllib.parse.quote(path)}",
        headers={"Authorization": f"Bearer {product.token}"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return blake3(answer.read()).hexdigest()


def test_quotas_members_secrets_drafts_and_views_are_as_they_were(upgraded):
    queues = {queue["project"]: queue for queue in upgraded.api("GET", "/scheduler/queues")["items"]}

    assert (queues["demo"]["gpu_quota_milli"], queues["demo"]["over_quota_weight"]) == (8000, 2.0)
    assert (queues["team-b"]["gpu_quota_milli"], queues["team-b"]["over_quota_weight"]) == (4000, None)
    assert upgraded.api("GET", "/projects/team-b/members/grace")["role"] == "member"
    assert [secret["name"] for secret in upgraded.api("GET", "/projects/demo/secrets")["items"]] == ["API_KEY"]
    assert "flow: failing" in upgraded.api("GET", "/flows/drafts?project=demo&key=digits")["text"]
    assert [view["name"] for view in upgraded.api("GET", "/experiment-views?project=demo")["items"]] == ["good ones"]


def test_a_flow_of_the_first_release_runs_again_with_its_stored_code(upgraded):
    started = upgraded.api("POST", "/flows/demo/digits/runs", {})
    run = upgraded.wait_for(
        lambda: upgraded.api("GET", f"/runs/{started['id']}"), lambda run: run["state"] in {"succeeded", "failed"}
    )
    experiment = upgraded.api("GET", f"/experiments/{run['steps'][-1]['experiment_id']}")

    assert (run["state"], experiment["metrics"]["accuracy"]) == ("succeeded", ACCURACY)


def test_a_failed_run_is_tried_again_from_where_it_failed(upgraded):
    failed = run_of(upgraded, "failing")

    retried = upgraded.api("POST", f"/runs/{failed['id']}/retry")
    run = upgraded.wait_for(
        lambda: upgraded.api("GET", f"/runs/{retried.get('id', failed['id'])}"), lambda run: run["state"] == "failed"
    )

    assert [step["state"] for step in run["steps"]] == ["succeeded", "failed"]


def test_what_ran_goes_on_and_what_waited_starts_when_there_is_capacity(upgraded):
    states = {name: job_of(upgraded, name)["state"] for name in ("runs", "waits")}
    long = run_of(upgraded, "long")

    upgraded.api("POST", f"/runs/{long['id']}/cancel")
    ended = upgraded.wait_for(lambda: run_of(upgraded, "long"), lambda run: run["state"] == "cancelled")
    waited = upgraded.wait_for(lambda: job_of(upgraded, "waits"), lambda job: job["state"] == "running")

    assert states == {"runs": "running", "waits": "pending"}
    assert [step["state"] for step in long["steps"]] == ["running", "pending"]
    assert ended["state"] == "cancelled"
    assert waited["node"] in {"lab-1", "lab-2"}
