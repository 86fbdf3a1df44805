"""After kill -9 the work goes on: at once where one process is all, after the lease where another takes over."""

import subprocess
import sys
import uuid
from collections import Counter
from pathlib import Path

import pytest

from tests.journeys.digits import write_digits
from tests.journeys.product import Product, is_full

pytestmark = pytest.mark.drill

SCRIPT = Path(__file__).with_name("last_deeds.py")
STEPS = 30
FLOW = """
flow: after
steps:
  - name: note
    command: 'echo ${{{{ parameters.n }}}} >> {counter}'
    grid: {{n: {numbers}}}
    compute: [this-machine.tiny]
"""


@pytest.fixture
def product(tmp_path):
    made = Product(tmp_path / "home").start()
    shape = {"name": "tiny", "cpu_millicores": 100, "memory_bytes": 50_000_000, "gpu_milli": 0}
    made.api("POST", "/compute/templates", {"resource": "this-machine", **shape})
    yield made
    made.stop()


def write_flow(folder: Path, *, steps: int) -> Path:
    """Write a flow whose steps each leave a line in `counter`."""
    file = folder / "flow.yaml"
    file.write_text(FLOW.format(counter=folder / "counter", numbers=list(range(steps))))
    return file


def finished_run(product: Product, run_id: str) -> dict:
    """Wait for the end of a run."""
    return product.wait_for(
        lambda: product.api("GET", f"/runs/{run_id}"), lambda run: run["state"] not in {"pending", "running"}
    )


@pytest.mark.skipif(is_full(), reason="there another process may live, whose leases hold")
def test_the_one_process_goes_on_at_once_with_everything_that_a_killed_one_had_taken(product, tmp_path):
    folder = tmp_path / "digits"
    write_digits(folder, per_class=3)
    product.cli("project", "create", "drill", cwd=folder)
    product.cli("data", "init", "--project", "drill", "--title", "digits", cwd=folder)
    product.cli("data", "sync", cwd=folder)
    flow = write_flow(tmp_path, steps=3)
    product.kill()

    dead = subprocess.run(
        [sys.executable, SCRIPT, "drill/digits@main", flow],
        env=product.environment | {"DJANGO_SETTINGS_MODULE": "config.settings"},
        capture_output=True,
        text=True,
        check=False,
    )
    copy_id, run_id, claimed = dead.stdout.split()
    product.start()
    run = finished_run(product, run_id)
    copy = product.wait_for(
        lambda: product.api("GET", f"/cache/commits/{copy_id}"), lambda copy: copy["state"] == "ready"
    )

    assert (dead.returncode, claimed) == (-9, "3"), dead.stderr
    assert (run["state"], copy["files_done"]) == ("succeeded", 30)
    assert Counter((tmp_path / "counter").read_text().split()) == {"0": 1, "1": 1, "2": 1}


@pytest.mark.skipif(not is_full(), reason="needs controllers that are processes of their own")
def test_a_second_controller_takes_over_when_the_first_is_killed(product, tmp_path):
    import psycopg

    def leader() -> int:
        with psycopg.connect(product.environment["DATABASE_URL"]) as database:
            (holder,) = database.execute("SELECT lease_token FROM core_lease WHERE name = 'leader'").fetchone()
        return int(holder.rpartition(":")[2])

    product.spawn("second controller", [sys.executable, "manage.py", "controller"])
    first, second = (product.processes[name].pid for name in ("controller", "second controller"))
    assert leader() == first
    project = f"p-{uuid.uuid4().hex[:8]}"
    product.cli("project", "create", project, cwd=tmp_path)
    write_flow(tmp_path, steps=STEPS)
    run = product.cli_json("flow", "run", "flow.yaml", "--project", project, cwd=tmp_path)
    counter = tmp_path / "counter"
    product.wait_for(counter.exists, bool)

    product.kill("controller")
    product.wait_for(leader, lambda pid: pid == second)
    done = finished_run(product, run["id"])

    assert Counter(step["state"] for step in done["steps"]) == {"succeeded": STEPS}
    assert Counter(counter.read_text().split()) == {str(number): 1 for number in range(STEPS)}
