"""A job starts once the first files of its data are there, and reads the others all the same."""

import hashlib

import pytest

from tests.journeys.test_cache_then_train import prepare

READ = """
import hashlib
import nearline

with nearline.open_data("digits") as commit:
    content = dict(commit.stream(shuffle=1))
    print("read", len(content), hashlib.sha256(b"".join(content[path] for path in sorted(content))).hexdigest())
folder = nearline.data("digits")
files = sorted(folder.rglob("*.png"))
print("there", len(files), hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest())
"""
FLOW = """
flow: early
steps:
  - name: read
    command: python read.py
    data: [{{dataset: "{reference}@main", start: early}}]
    compute: [this-machine.small]
"""


@pytest.mark.parametrize("way", ["job", "flow"])
def test_a_job_reads_its_data_while_it_is_brought_and_finds_all_of_it_in_the_end(product, folder, tmp_path, way):
    project, reference = prepare(product, folder)
    (tmp_path / "read.py").write_text(READ)
    (tmp_path / "flow.yaml").write_text(FLOW.format(reference=reference))

    if way == "job":
        options = ("--template", "this-machine.small", "--data", f"{reference}@main", "--code", str(tmp_path))
        options += ("--start-early", "--project", project)
        job = product.cli_json("job", "submit", "python read.py", *options, cwd=tmp_path)
        log = product.cli("job", "logs", job["name"], "--follow", cwd=tmp_path).stdout
    else:
        run = product.cli_json("flow", "run", "flow.yaml", "--project", project, "--wait", cwd=tmp_path)
        assert run["state"] == "succeeded"
        log = product.cli("run", "logs", run["id"], "read", cwd=tmp_path).stdout

    files = sorted(folder.rglob("*.png"))
    content = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    assert [line for line in log.splitlines() if not line.startswith("[nearline]")] == [
        f"read 30 {content}",
        f"there 30 {content}",
    ]
