"""kill -9 of every process in the middle of work: each step succeeds exactly once, and no commit is half there."""

import uuid
from collections import Counter

import pytest

from tests.journeys.digits import contents, write_digits

STEPS = 100
FLOW = """
flow: hundred
steps:
  - name: note
    command: 'sleep 0.05; echo ${{{{ parameters.n }}}} >> {counter}'
    grid: {{n: {numbers}}}
    compute: [this-machine.tiny]
"""


@pytest.mark.drill
def test_a_run_of_100_steps_survives_three_kills_of_the_whole_platform(own_product, tmp_path):
    counter = tmp_path / "counter"
    (tmp_path / "flow.yaml").write_text(FLOW.format(counter=counter, numbers=list(range(STEPS))))
    own_product.cli("project", "create", "drill", cwd=tmp_path)
    shape = {"name": "tiny", "cpu_millicores": 100, "memory_bytes": 50_000_000, "gpu_milli": 0}
    own_product.api("POST", "/compute/templates", {"resource": "this-machine", **shape})
    run = own_product.cli_json("flow", "run", "flow.yaml", "--project", "drill", cwd=tmp_path)

    def lines() -> list[str]:
        return counter.read_text().split() if counter.exists() else []

    for wanted in (10, 40, 70):
        own_product.wait_for(lines, lambda seen, wanted=wanted: len(seen) >= wanted)
        own_product.kill()
        own_product.start()
    done = own_product.wait_for(
        lambda: own_product.api("GET", f"/runs/{run['id']}"), lambda seen: seen["state"] not in {"pending", "running"}
    )

    assert done["state"] == "succeeded"
    assert Counter(step["state"] for step in done["steps"]) == {"succeeded": STEPS}
    assert Counter(lines()) == Counter(str(number) for number in range(STEPS))


@pytest.mark.drill
def test_a_sync_that_meets_a_dead_server_fails_in_words_and_is_resumed_by_the_next(own_product, folder, tmp_path):
    write_digits(folder, per_class=30)
    project = f"p-{uuid.uuid4().hex[:8]}"
    own_product.cli("project", "create", project, cwd=folder)
    own_product.cli("data", "init", "--project", project, "--title", "digits", cwd=folder)
    own_product.kill()

    token = {"NEARLINE_TOKEN": own_product.token}
    refused = own_product.cli("data", "sync", cwd=folder, check=False, **token)
    own_product.start()
    own_product.cli("data", "sync", cwd=folder)
    own_product.cli("data", "clone", f"{project}/digits", "copy", cwd=tmp_path)

    assert refused.returncode == 7
    assert "Traceback" not in refused.stderr
    assert contents(tmp_path / "copy") == contents(folder)
    assert len(own_product.cli_json("data", "commits", f"{project}/digits", cwd=folder)["items"]) == 1
