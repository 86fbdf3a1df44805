"""Jobs of a host reached by SSH: what they find, what they leave, and what nobody else may see."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from compute.adapters.ssh.program import build_program
from compute.adapters.stored_outputs import StoredTreeOutput
from compute.engine.job_spec import Mount, Tree
from compute.engine.ports import EndCause, GpuFacts, ReportState
from compute.errors import VolumeRefused
from compute.workers.outputs import store_folder
from tests.contracts.compute_driver import make_launch, read_output
from tests.factories.datasets import make_store


def add_tree(place, tmp_path: Path, name: str, **files: str) -> None:
    folder = tmp_path / "trees" / name
    folder.mkdir(parents=True)
    for file, text in files.items():
        (folder / file).write_text(text)
    place.platform.trees[name] = folder


def list_processes(place, name: str) -> list[str]:
    """Return the commands of all processes that belong to a job."""
    mark = f"NEARLINE_OUTPUT={place.jobs / name / 'output'}\0".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if mark in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_text())
        except OSError:
            continue
    return found


def test_a_job_finds_its_code_its_inputs_its_parameters_and_its_secrets(place, tmp_path):
    add_tree(place, tmp_path, "code/code", train="cat $NEARLINE_INPUT/prepare/0/seed $NEARLINE_DATA/digits/labels")
    add_tree(place, tmp_path, "input/prepare/0", seed="7\n")
    add_tree(place, tmp_path, "data/digits", labels="zero\n")
    launch = make_launch(
        "reads",
        'sh train; cat $NEARLINE_PARAMETERS; echo; echo "$KEY $NEARLINE_NODE"; pwd | grep -o work',
        code=Mount("code", Tree("ds_1", "r1")),
        inputs=[Mount("prepare/0", Tree("ds_1", "r2"))],
        data=[Mount("digits", Tree("ds_1", "r3"))],
        parameters={"rate": 0.5},
    )

    place.driver.start(replace(launch, secrets={"KEY": "hunter22"}))
    place.wait_for_end("reads")

    assert place.read_log("reads").splitlines() == ["7", "zero", '{"rate": 0.5}', "*** node-1", "work"]


def test_a_tree_is_brought_once_for_all_jobs_that_read_it_and_none_can_change_it(place, tmp_path):
    add_tree(place, tmp_path, "data/digits", labels="zero")
    data = [Mount("digits", Tree("ds_1", "r1"))]

    place.start("first", "echo one > $NEARLINE_DATA/digits/labels", data=data)
    place.wait_for_end("first")
    place.platform.trees.clear()
    place.start("second", "cat $NEARLINE_DATA/digits/labels", data=data)

    assert place.wait_for_end("second").state is ReportState.SUCCEEDED
    assert place.read_log("second") == "zero"
    assert "Read-only file system" in place.read_log("first")


def test_a_job_whose_code_is_not_there_is_not_started_and_says_why(place):
    place.start("lacks", code=Mount("code", Tree("ds_1", "r1")))

    report = place.wait_for_end("lacks")

    assert (report.state, report.cause) == (ReportState.FAILED, EndCause.NOT_STARTED)
    assert report.reason == ("The job could not be started: The platform refuses (404): There is no such tree.")


def test_a_job_whose_output_is_refused_has_not_succeeded(place):
    place.platform.fault = 401

    place.start_quick("quick")
    report = place.wait_for_end("quick")

    assert (report.state, report.cause, report.exit_code) == (ReportState.FAILED, EndCause.OUTPUT_LOST, 0)
    assert report.reason == (
        "The command succeeded, but its output was not stored: The platform refuses (401): The attempt is over."
    )


def test_a_job_runs_until_a_platform_that_was_away_has_its_output(place):
    place.platform.fault = 503
    place.start_quick("quick")
    output = place.jobs / "quick" / "output" / "empty"
    place.wait_until(output.exists)
    report = place.report("quick")
    place.platform.fault = 0

    assert report.state in {ReportState.STARTING, ReportState.RUNNING}
    assert place.wait_for_end("quick").state is ReportState.SUCCEEDED
    assert read_output(place.driver.open_output("quick")) == place.left


def test_a_job_can_be_stopped_while_its_output_is_sent(place):
    place.platform.fault = 503
    place.start_quick("quick")
    place.wait_until((place.jobs / "quick" / "output" / "empty").exists)

    place.driver.stop("quick", 0)

    assert place.wait_for_end("quick").state is ReportState.FAILED


def test_a_command_that_fails_keeps_its_exit_code_and_its_output(place):
    place.start("fails", "echo half > $NEARLINE_OUTPUT/model; exit 3")

    report = place.wait_for_end("fails")

    assert (report.state, report.cause, report.exit_code) == (ReportState.FAILED, EndCause.EXITED, 3)
    assert read_output(place.driver.open_output("fails")) == {"model": b"half\n"}


def test_a_job_that_is_stopped_gets_its_grace_with_all_its_processes(place):
    place.start("graceful", "trap 'echo saved; exit 0' TERM; echo ready; sleep 600 & wait")
    place.wait_until(lambda: place.read_log("graceful") == "ready\n")

    place.driver.stop("graceful", 60)
    report = place.wait_for_end("graceful")

    assert (report.cause, place.read_log("graceful")) == (EndCause.STOPPED, "ready\nsaved\n")
    assert list_processes(place, "graceful") == []


def test_no_job_sees_the_token_of_a_job_and_none_is_left_after_its_end(place):
    place.start("curious", f"cat {place.jobs}/curious/attempt.json; exec sleep 600")
    place.wait_until(lambda: place.read_log("curious") != "")
    held = json.loads((place.jobs / "curious" / "attempt.json").read_text())
    mode = (place.jobs / "curious" / "attempt.json").stat().st_mode & 0o777

    place.driver.stop("curious", 0)
    place.wait_for_end("curious")

    assert (held, mode) == ({"url": place.platform.url, "token": "token of curious"}, 0o600)
    assert "No such file or directory" in place.read_log("curious")
    assert "token of curious" not in "".join(path.read_text() for path in place.list_files("curious"))


def test_a_deleted_job_leaves_no_file_and_no_process_on_the_host(place):
    place.start("leaves", "sleep 600 & echo 1 > $NEARLINE_OUTPUT/a")
    place.wait_for_end("leaves")

    place.driver.forget("leaves")
    place.driver.delete("leaves")

    assert list_processes(place, "leaves") == []
    assert sorted(path.name for path in place.jobs.iterdir()) == [".live", ".news"]


def test_what_was_brought_goes_with_the_last_job(place, tmp_path):
    add_tree(place, tmp_path, "data/digits", labels="zero")
    place.start("reads", data=[Mount("digits", Tree("ds_1", "r1"))])
    place.wait_for_end("reads")
    lock = place.jobs.parent / "trees" / "r1.lock"
    os.utime(lock, (0, 0))

    place.driver.forget("reads")
    place.driver.delete("reads")

    assert list(lock.parent.iterdir()) == []


def test_the_gpus_that_nvidia_smi_lists_are_those_of_the_node(place):
    smi = place.sshd.programs / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho '0, GPU-1, Tesla V100-SXM2-32GB, 32768, 00000000:3B:00.0'\n")
    smi.chmod(0o755)

    (node,) = place.driver.probe()

    assert node.gpus == (GpuFacts(0, "GPU-1", "Tesla V100-SXM2-32GB", 32 * 2**30),)
    assert node.cpu_millicores == len(os.sched_getaffinity(0)) * 1000


def test_the_program_for_hosts_needs_nothing_but_python(tmp_path):
    program = tmp_path / "program.pyz"
    program.write_bytes(build_program().data)

    done = subprocess.run(
        [sys.executable, "-I", "-S", program, tmp_path / "jobs"], input=b"", capture_output=True, env={}, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, b"nearline host 1\n", b"")


@pytest.mark.django_db
def test_a_checkpoint_is_stored_from_the_host_piece_by_piece(place, project, tmp_path):
    make_store(tmp_path / "store")
    place.run("train", "mkdir $NEARLINE_CHECKPOINT_DIR/deep; seq 400000 > $NEARLINE_CHECKPOINT_DIR/deep/weights")

    tree, left_out = store_folder(project, place.driver.open_checkpoint("ckpt_1"), holder="ckpt_1/checkpoint")

    content = b"".join(b"%d\n" % number for number in range(1, 400_001))
    assert read_output(StoredTreeOutput(tree)) == {"deep/weights": content}
    assert left_out == ""


def test_a_job_mounts_a_folder_that_an_admin_offers_and_no_other(place, tmp_path):
    scans = tmp_path / "scans"
    scans.mkdir()
    (scans / "a").write_text("scan\n")
    place.driver._volumes = [str(scans)]

    place.driver.start(make_launch("mounts", f"cat {scans}/a", volumes=[f"{scans}:{scans}"]))
    place.wait_for_end("mounts")
    with pytest.raises(VolumeRefused, match="is not offered to jobs on this host"):
        place.driver.start(make_launch("other", "true", volumes=["/srv/other:/tmp/a"]))

    assert place.read_log("mounts") == "scan\n"
