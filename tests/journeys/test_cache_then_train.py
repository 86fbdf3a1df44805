"""The main job: a dataset is synced, cached next to compute, and trained on by a flow, all through the CLI."""

import uuid
from pathlib import Path

import pytest

from tests.journeys.digits import contents, write_digits
from tests.journeys.product import is_full

FLOW = """
flow: count
parameters:
  factor: {{type: int, default: 2}}
steps:
  - name: count
    command: |
      n=$(find -L "$NEARLINE_DATA/digits" -name '*.png' | wc -l)
      echo "cnvrg_tag_files: $n"
      echo $((n * ${{{{ parameters.factor }}}})) > "$NEARLINE_OUTPUT/doubled"
    data: [{{dataset: "{reference}@main", name: digits, cached: true}}]
    compute: [this-machine.small]
  - name: report
    command: 'echo "cnvrg_tag_doubled: $(cat "$NEARLINE_INPUT/count/doubled")"; test "$NEARLINE_COUNT_FILES" = {files}'
    after: [count]
    when: count.files > 0
    compute: [this-machine.small]
"""

FALLBACK = """
flow: fallback
steps:
  - name: only
    command: 'echo here'
    compute: [{template: this-machine.impossible, wait: 1h}, this-machine.small]
"""

BROKEN = """flow: x
steps:
  - name: a
    comand: echo
    after: [b]
    compute: [nowhere.small]
"""


def prepare(product, folder, *, per_class: int = 3) -> tuple[str, str]:
    """Make a project with a synced dataset; return the project's name and the dataset's reference."""
    project = f"p-{uuid.uuid4().hex[:8]}"
    write_digits(folder, per_class=per_class)
    product.cli("project", "create", project, cwd=folder)
    product.cli("data", "init", "--project", project, "--title", "digits", cwd=folder)
    product.cli("data", "sync", cwd=folder)
    return project, f"{project}/digits"


def test_a_cached_commit_is_a_verified_read_only_copy(product, folder):
    _, reference = prepare(product, folder)

    cached = product.cli_json("data", "cache", f"{reference}@main", "--wait", cwd=folder)

    assert (cached["state"], cached["files_done"]) == ("ready", 30)
    assert contents(Path(cached["path"])) == contents(folder)
    assert {oct(path.stat().st_mode & 0o777) for path in Path(cached["path"]).rglob("*.png")} == {"0o444"}


def test_a_second_commit_is_cached_by_moving_only_the_change(product, folder):
    _, reference = prepare(product, folder)
    product.cli_json("data", "cache", f"{reference}@main", "--wait", cwd=folder)
    (folder / "0" / "0000.png").write_bytes(b"edited" * 10)
    product.cli("data", "sync", cwd=folder)

    cached = product.cli_json("data", "cache", f"{reference}@main", "--wait", cwd=folder)

    assert (cached["bytes_moved"], cached["state"]) == (60, "ready")
    assert contents(Path(cached["path"])) == contents(folder)


def test_uncache_takes_the_copy_away_and_leaves_the_dataset(product, folder, tmp_path):
    _, reference = prepare(product, folder)
    cached = product.cli_json("data", "cache", f"{reference}@main", "--wait", cwd=folder)

    product.cli("data", "uncache", f"{reference}@main", "--yes", cwd=folder)

    assert not Path(cached["path"]).exists()
    product.cli("data", "clone", reference, "copy", cwd=tmp_path)
    assert contents(tmp_path / "copy") == contents(folder)


def test_a_flow_reads_the_cached_commit_and_passes_outputs_and_metrics_on(product, folder, tmp_path):
    project, reference = prepare(product, folder)
    (tmp_path / "flow.yaml").write_text(FLOW.format(reference=reference, files=30))

    run = product.cli_json("flow", "run", "flow.yaml", "--project", project, "-P", "factor=3", "--wait", cwd=tmp_path)

    assert run["state"] == "succeeded"
    assert [(step["key"], step["state"]) for step in run["steps"]] == [("count", "succeeded"), ("report", "succeeded")]
    report = product.cli_json("experiment", "show", run["steps"][1]["experiment_id"], cwd=tmp_path)
    assert report["tags"]["doubled"] == "90"
    output = f"run:{run['id']}/count"
    product.wait_for(  # until it is stored, for which the run does not wait
        lambda: product.cli("data", "files", output, cwd=tmp_path, check=False).returncode, lambda code: code == 0
    )
    product.cli("data", "clone", output, "left", cwd=tmp_path)
    assert contents(tmp_path / "left") == {"doubled": b"90\n"}


def test_a_job_finds_the_folder_of_code_and_the_data_that_was_cached_nowhere(product, folder, tmp_path):
    project, reference = prepare(product, folder)
    code = tmp_path / "code"
    code.mkdir()
    (code / "count.sh").write_text("ls; find -L $NEARLINE_DATA/digits -name '*.png' | wc -l\n")
    (code / "notes.txt").write_text("not for jobs")
    (code / ".nearlineignore").write_text("notes.txt\n")

    options = ("--template", "this-machine.small", "--data", f"{reference}@main", "--code", str(code))
    job = product.cli_json("job", "submit", "sh count.sh", *options, "--project", project, cwd=tmp_path)
    log = product.cli("job", "logs", job["name"], "--follow", cwd=tmp_path).stdout
    first = product.api("GET", f"/compute/jobs/{job['name']}")["events"][0]

    assert (first["state"], first["message"]) == ("pending", "Its data is being brought to this-machine.")
    assert [line.strip() for line in log.splitlines()] == ["count.sh", "30"]


def test_a_template_that_cannot_start_falls_back_and_says_why(product, folder, tmp_path):
    project, _ = prepare(product, folder, per_class=1)
    shape = {"name": "impossible", "cpu_millicores": 1_000_000, "memory_bytes": 10**9, "gpu_milli": 0}
    product.api("POST", "/compute/templates", {"resource": "this-machine", **shape})
    (tmp_path / "flow.yaml").write_text(FALLBACK)

    run = product.cli_json("flow", "run", "flow.yaml", "--project", project, "--wait", cwd=tmp_path)

    decision = run["steps"][0]["decision"]
    assert decision["chosen"] == "this-machine.small"
    assert [tried["template"] for tried in decision["tried"]] == ["this-machine.impossible"]
    assert "CPU" in decision["tried"][0]["why"]


def test_a_broken_flow_file_lists_all_problems_with_lines_and_runs_nothing(product, tmp_path):
    project = f"p-{uuid.uuid4().hex[:8]}"
    product.cli("project", "create", project, cwd=tmp_path)
    (tmp_path / "flow.yaml").write_text(BROKEN)

    done = product.cli("flow", "validate", "flow.yaml", "--project", project, cwd=tmp_path, check=False)

    text = done.stdout + done.stderr
    assert done.returncode == 1
    words = ("flow.yaml:4:5", "Did you mean 'command'?", "flow.yaml:5:13", "'b'", "flow.yaml:6:15", "nowhere.small")
    assert [word for word in words if word not in text] == []
    assert "Traceback" not in text


def spoil_a_pack(product, reference) -> None:
    """Change bytes of the dataset's packs in the store, as a failing disk would."""
    dataset_id = product.api("GET", f"/datasets/{reference}")["id"]
    packs = list((product.home / "store").rglob(f"*{dataset_id}*/packs/*/*"))
    assert packs
    for pack in packs:
        data = bytearray(pack.read_bytes())
        data[10] ^= 1
        pack.chmod(0o600)
        pack.write_bytes(data)


@pytest.mark.skipif(is_full(), reason="the store is a folder only in the embedded product")
def test_a_good_copy_heals_what_was_damaged_in_the_store(product, folder):
    _, reference = prepare(product, folder)
    spoil_a_pack(product, reference)

    failed = product.cli("data", "cache", reference, "--wait", cwd=folder, check=False)
    assert failed.returncode != 0
    assert "nearline data sync" in failed.stderr
    [damaged] = product.cli_json("data", "damage", cwd=folder)["files"]
    page = product.cli("data", "damage", cwd=folder)
    assert damaged in page.stdout

    healed = product.cli("data", "sync", cwd=folder)
    assert "1 damaged pack of the store again" in healed.stderr
    assert "up to date" not in healed.stderr

    cached = product.cli_json("data", "cache", reference, "--wait", cwd=folder)
    assert contents(Path(cached["path"])) == contents(folder)
    assert "Nothing is known to be damaged" in product.cli("data", "damage", cwd=folder).stderr
    assert "up to date" in product.cli("data", "sync", cwd=folder).stderr
