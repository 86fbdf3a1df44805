"""Who waits is told why, and what is missing where: on the page of a job and in a run's panel."""

import pytest
from playwright.sync_api import expect

from tests.browser.test_every_page import assert_none, look

pytestmark = pytest.mark.browser

GIB = 2**30
NODES = [
    {
        "name": f"{kind}-{number}.rack-{number}.lab.example",
        "cpu_millicores": 16_000,
        "memory_bytes": 64 * GIB,
        "gpus": gpus,
    }
    for kind, gpus in (("small", 2), ("large", 4))
    for number in range(4)
]
FLOW = """\
flow: waits
steps:
  - name: train
    command: "true"
    compute: [tight.four]
"""


@pytest.fixture(scope="module")
def waiting(product, sample) -> dict[str, str]:
    """The addresses of a job and of a run that wait for four GPUs where at most three are free on a node."""
    product.api("POST", "/compute/resources", {"name": "tight", "kind": "simulated", "nodes": NODES})
    for name, gpus, cores in (("one", 1, 2), ("four", 4, 15)):
        shape = {"cpu_millicores": 1000 * cores, "memory_bytes": 8 * GIB, "gpu_milli": 1000 * gpus}
        product.api("POST", "/compute/templates", {"resource": "tight", "name": name, **shape})
    job = {"project": "demo", "command": "true", "simulated_duration_s": 36_000}
    for number in range(12):
        product.api("POST", "/compute/jobs", {**job, "template": "tight.one", "name": f"held-{number}"})
    product.wait_for(
        lambda: [product.api("GET", f"/compute/jobs/held-{number}")["state"] for number in range(12)],
        lambda states: set(states) == {"running"},
    )
    for number in range(4):
        product.api("POST", "/compute/jobs", {**job, "template": "tight.four", "name": f"waits-{number}"})
    product.api("POST", "/flows", {"project": "demo", "text": FLOW})
    run = product.api("POST", "/flows/demo/waits/runs", {"parameters": {}})
    product.wait_for(
        lambda: product.api("GET", f"/runs/{run['id']}"), lambda run: bool(run["steps"] and run["steps"][0]["advice"])
    )
    return {"job": "/jobs/waits-3/", "run": f"/runs/{run['id']}/?step=train&tab=why"}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("page", ["job", "run"])
def test_what_is_missing_is_shown_fits_and_can_be_read_by_all(open_page, admin_state, waiting, page, theme):
    watched = open_page(admin_state, theme=theme)

    faults = look(watched.page, waiting[page])

    assert_none({page: faults})
    expect(watched.page.get_by_role("row").filter(has_text="large-0.rack-0.lab.example")).to_contain_text("4 GPUs")
    missing = watched.page.get_by_role("columnheader", name="Missing")
    assert missing.evaluate("cell => cell.getBoundingClientRect().right <= innerWidth")
