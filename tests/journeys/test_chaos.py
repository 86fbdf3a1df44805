"""The whole product while messages to background tasks are lost, doubled and overtaken, or all lost: nothing differs."""

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.journeys.digits import contents, write_digits
from tests.journeys.product import Product, new_product

BAD_DAY = {"CHAOS_LOST": "0.3", "CHAOS_DOUBLED": "0.4", "CHAOS_DELAYED": "0.5"}
ALL_LOST = {"CHAOS_LOST": "1", "CHAOS_DOUBLED": "0", "CHAOS_DELAYED": "0"}
TRIES = 8
FLOW = """
flow: chaos
steps:
  - name: look
    command: 'test "$(find "$NEARLINE_DATA/digits" -name "*.png" | wc -l)" = 30; echo look >> {counter}'
    data: [{{dataset: "{reference}@main", name: digits, cached: false}}]
    compute: [this-machine.tiny]
  - name: train
    command: |
      echo train${{{{ parameters.n }}}} >> {counter}
      if [ ${{{{ parameters.n }}}} = 3 ] && [ ! -e {counter}.failed ]; then touch {counter}.failed; exit 3; fi
      find -L "$NEARLINE_DATA/digits/${{{{ parameters.n }}}}" -name '*.png' | wc -l > "$NEARLINE_OUTPUT/files"
    data: [{{dataset: "{reference}@main", name: digits, cached: true}}]
    grid: {{n: {numbers}}}
    after: [look]
    retries: 2
    compute: [this-machine.tiny]
  - name: report
    command: |
      echo report >> {counter}
      echo "cnvrg_tag_files: $(cat "$NEARLINE_INPUT"/train/*/files | awk '{{n += $1}} END {{print n}}')"
    after: [train]
    compute: [this-machine.tiny]
"""


@pytest.fixture
def start_with(tmp_path) -> Iterator[Callable[[dict[str, str]], Product]]:
    """Return a function that starts a product whose task queue is chaotic; what it did to messages is in `chaos.log`."""
    chaotic = {"DJANGO_SETTINGS_MODULE": "tests.chaos.settings", "CHAOS_SEED": "20261121"}
    log = {"CHAOS_LOG": str(tmp_path / "chaos.log")}
    started = []

    def start(shares: dict[str, str]) -> Product:
        started.append(new_product(tmp_path / "home", chaotic | log | shares))
        return started[0].start()

    yield start
    for product in started:
        product.stop()


@pytest.mark.parametrize(
    ("shares", "done_to_messages"),
    [(BAD_DAY, {"lost", "doubled", "delayed"}), (ALL_LOST, {"lost"})],
    ids=["bad day", "every message lost"],
)
def test_everything_ends_right_whatever_is_done_to_messages(start_with, shares, done_to_messages, folder, tmp_path):
    product = start_with(shares)
    counter = tmp_path / "counter"
    project = f"p-{uuid.uuid4().hex[:8]}"
    reference = f"{project}/digits"
    write_digits(folder, per_class=3)
    product.cli("project", "create", project, cwd=folder)
    product.cli("data", "init", "--project", project, "--title", "digits", cwd=folder)
    shape = {"name": "tiny", "cpu_millicores": 100, "memory_bytes": 50_000_000, "gpu_milli": 0}
    product.api("POST", "/compute/templates", {"resource": "this-machine", **shape})
    (tmp_path / "flow.yaml").write_text(FLOW.format(reference=reference, counter=counter, numbers=list(range(TRIES))))

    product.cli("data", "sync", cwd=folder)
    with ThreadPoolExecutor(8) as pool:
        asked = list(pool.map(lambda _: product.api("POST", f"/datasets/{reference}/commits/latest/cache"), range(8)))
    cached = product.cli_json("data", "cache", f"{reference}@main", "--wait", cwd=folder)
    copied = contents(Path(cached["path"]))
    run = product.cli_json("flow", "run", "flow.yaml", "--project", project, "--wait", cwd=tmp_path)
    report = product.cli_json("experiment", "show", run["steps"][-1]["experiment_id"], cwd=tmp_path)
    # The copy is let go of when its readers' end has been noted, which takes a tick.
    product.wait_for(
        lambda: product.cli("data", "uncache", f"{reference}@main", "--yes", cwd=folder, check=False).returncode,
        lambda code: code == 0,
    )

    assert {one["id"] for one in asked} == {cached["id"]}
    assert copied == contents(folder)
    assert states_of_copy(product, cached["id"]) == ["queued", "provisioning", "hydrating", "ready", "evicting", "gone"]
    assert (cached["files_done"], cached["bytes_moved"]) == (30, sum(map(len, copied.values())))
    assert not Path(cached["path"]).exists()
    assert (run["state"], report["tags"]["files"]) == ("succeeded", str(3 * TRIES))
    assert attempts_of(run) == {
        "look": ["succeeded"],
        **{f"train n={n}": ["failed", "succeeded"] if n == 3 else ["succeeded"] for n in range(TRIES)},
        "report": ["succeeded"],
    }
    once = dict.fromkeys(["look", "report", *(f"train{n}" for n in range(TRIES))], 1)
    assert Counter(counter.read_text().split()) == once | {"train3": 2}
    assert {line.split()[0] for line in (tmp_path / "chaos.log").read_text().splitlines()} == done_to_messages


def states_of_copy(product: Product, cached_commit_id: str) -> list[str]:
    """Return the states that a cached commit went through."""
    events = product.api("GET", f"/cache/commits/{cached_commit_id}/events")["items"]
    return [event["state"] for event in events]


def attempts_of(run: dict) -> dict[str, list[str]]:
    """Return how the tries of each step ended."""
    return {step["label"]: [attempt["state"] for attempt in step["attempts"]] for step in run["steps"]}
