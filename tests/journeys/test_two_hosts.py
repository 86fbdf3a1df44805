"""Two web processes, workers and controllers with separate, empty home folders: one installation that survives each."""

import urllib.error
import uuid
from collections import Counter

import pytest

from tests.journeys.digits import write_digits
from tests.journeys.product import BIN, TwoHosts, is_full

pytestmark = pytest.mark.skipif(not is_full(), reason="the embedded product has one host")

FLOW = """
flow: both
steps:
  - name: prepare
    command: |
      find -L "$NEARLINE_DATA/digits" -name '*.png' | wc -l > "$NEARLINE_OUTPUT/count"
      echo "cnvrg_tag_host: a"
      cat code.txt
    data: [{{dataset: "{reference}@main", name: digits, cached: true}}]
    compute: [this-machine.small]
  - name: double
    command: |
      n=$(cat "$NEARLINE_INPUT/prepare/count")
      echo $((n * 2)) > "$NEARLINE_OUTPUT/doubled"
      echo "cnvrg_tag_doubled: $((n * 2))"
    after: [prepare]
    compute: [other-machine.small]
  - name: report
    command: 'echo "cnvrg_tag_report: $(cat "$NEARLINE_INPUT/double/doubled")"; cat code.txt'
    after: [double]
    compute: [this-machine.small]
"""
MANY = """
flow: many
steps:
  - name: first
    command: 'sleep 0.2; echo ${{{{ parameters.n }}}} >> {counter}'
    grid: {{n: {numbers}}}
    compute: [this-machine.tiny]
  - name: second
    command: 'sleep 0.2; echo x${{{{ parameters.n }}}} >> {counter}'
    grid: {{n: {numbers}}}
    after: [first]
    compute: [other-machine.tiny]
"""
STEPS = 12


@pytest.fixture
def installation(tmp_path):
    made = TwoHosts(tmp_path / "home")
    try:
        made.start()
        add_machine_of_second_host(made)
        yield made
    finally:
        made.stop()


def add_machine_of_second_host(product: TwoHosts) -> None:
    # The host is known once its controller has reported.
    product.wait_for(lambda: attach(product, "other-machine", "host-b"), bool)
    small = {"cpu_millicores": 1000, "memory_bytes": 2**30, "gpu_milli": 0}
    tiny = {"cpu_millicores": 100, "memory_bytes": 50_000_000, "gpu_milli": 0}
    product.api("POST", "/compute/templates", {"resource": "other-machine", "name": "small", **small})
    for resource in ("this-machine", "other-machine"):
        product.api("POST", "/compute/templates", {"resource": resource, "name": "tiny", **tiny})
    product.wait_for(
        lambda: product.api("GET", "/scheduler/nodes")["items"],
        lambda nodes: "other-machine" in {node["resource"] for node in nodes},
    )


def attach(product: TwoHosts, name: str, host: str) -> bool:
    try:
        product.api("POST", "/compute/resources", {"name": name, "kind": "local", "host": host})
    except urllib.error.HTTPError as error:
        if error.code != 400:
            raise
        return False
    return True


def finished(product: TwoHosts, run_id: str) -> dict:
    return product.wait_for(
        lambda: product.api("GET", f"/runs/{run_id}"),
        lambda run: run["state"] not in {"pending", "running"},
    )


def test_a_flow_hands_outputs_from_host_to_host_and_any_web_process_tells_all_of_it(installation, tmp_path):
    project, folder = f"p-{uuid.uuid4().hex[:8]}", tmp_path / "digits"
    write_digits(folder, per_class=3)
    installation.cli("project", "create", project, cwd=folder)
    installation.cli("data", "init", "--project", project, "--title", "digits", cwd=folder)
    installation.cli("data", "sync", cwd=folder)
    code = tmp_path / "code"
    code.mkdir()
    (code / "code.txt").write_text("the code of the flow\n")
    (code / "flow.yaml").write_text(FLOW.format(reference=f"{project}/digits"))

    run = installation.cli_json("flow", "run", "flow.yaml", "--project", project, "--wait", cwd=code)
    path = f"/runs/{run['id']}/steps/report/log"
    logs = [
        installation.wait_for(lambda: installation.api("GET", path), lambda log: log["is_complete"])["data"]
        for _ in range(2)
    ]
    report = installation.api("GET", f"/experiments/{run['steps'][2]['experiment_id']}")

    assert [(step["key"], step["state"]) for step in run["steps"]] == [
        ("prepare", "succeeded"),
        ("double", "succeeded"),
        ("report", "succeeded"),
    ]
    assert report["tags"]["report"] == "60"
    assert logs[0] == logs[1]
    assert "the code of the flow" in logs[0]
    assert min(installation.balancer.served.values()) > 20


def test_the_log_of_a_running_job_is_read_through_both_web_processes(installation, tmp_path):
    project = f"p-{uuid.uuid4().hex[:8]}"
    installation.cli("project", "create", project, cwd=tmp_path)
    for resource in ("this-machine", "other-machine"):
        job = {"project": project, "name": f"{project}-{resource}", "command": "echo alive; sleep 600"}
        installation.api("POST", "/compute/jobs", {**job, "template": f"{resource}.tiny"})

    for resource in ("this-machine", "other-machine"):
        path = f"/compute/jobs/{project}-{resource}/log"
        for _ in range(2):
            installation.wait_for(lambda path=path: installation.api("GET", path)["text"], lambda text: "alive" in text)
        installation.api("POST", f"/compute/jobs/{project}-{resource}/cancel", {})

    for resource in ("this-machine", "other-machine"):
        ended = installation.wait_for(
            lambda resource=resource: installation.api("GET", f"/compute/jobs/{project}-{resource}"),
            lambda job: job["state"] == "cancelled",
        )
        assert ended["resource"] == resource


@pytest.mark.drill
def test_nothing_is_lost_or_doubled_when_a_controller_and_a_web_process_are_killed(installation, tmp_path):
    project, counter, code = f"p-{uuid.uuid4().hex[:8]}", tmp_path / "counter", tmp_path / "code"
    code.mkdir()
    (code / "flow.yaml").write_text(MANY.format(counter=counter, numbers=list(range(STEPS))))
    installation.cli("project", "create", project, cwd=code)
    run = installation.cli_json("flow", "run", "flow.yaml", "--project", project, cwd=code)

    def lines() -> list[str]:
        return counter.read_text().split() if counter.exists() else []

    installation.wait_for(lines, lambda seen: len(seen) >= STEPS // 3)
    installation.kill("controller", "web")
    installation.spawn("controller", [str(BIN / "python"), "manage.py", "controller"])
    done = finished(installation, run["id"])

    assert done["state"] == "succeeded"
    assert Counter(step["state"] for step in done["steps"]) == {"succeeded": 2 * STEPS}
    assert Counter(lines()) == Counter([str(n) for n in range(STEPS)] + [f"x{n}" for n in range(STEPS)])
