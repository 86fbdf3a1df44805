"""What the local driver promises beyond the port: environment, limits, logs, devices, what is written to disk."""

import asyncio
import json
import os
import signal
import socket
import sys
import time
import uuid
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from stat import S_IFCHR

import pytest

from compute.adapters.local import machine as this_machine
from compute.adapters.local import questions
from compute.adapters.local.driver import LocalDriver
from compute.adapters.local.folders import JobFolder
from compute.adapters.local.shim_spawner import find_refusal
from compute.adapters.local.views import Views
from compute.engine.job_spec import HostFolder, Mount
from compute.engine.ports import EndCause, GpuShare, ReportState
from compute.engine.visible_gpus import SeenGpu, VisibleGpus
from compute.errors import PortNotOpen, StartRefused, VolumeRefused
from tests.contracts.compute.test_local import LocalPlace, open_places
from tests.contracts.compute_driver import DEADLINE_S, ask, make_launch, wait_for_answer
from tests.ports import reserve_port


@pytest.fixture(params=["confined", "unconfined"])
def place(request, tmp_path):
    yield from open_places(tmp_path, request.param)


def run(place, name, command, *, launch=(), **spec):
    place.driver.start(replace(make_launch(name, command, **spec), **dict(launch)))
    report = place.wait_for_end(name)
    return report, place.driver.read_log(name, 0, 1 << 20).data.decode()


@pytest.fixture
def long_time():
    """An hour that no other process on this machine sleeps for, as the argument of `sleep`."""
    return f"3600.{uuid.uuid4().int}"


def processes_with(text):
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if text.encode() in path.read_bytes() and int(path.parent.name) != os.getpid():
                found.append(int(path.parent.name))
    return found


def wait_until(holds):
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_the_environment_holds_nothing_of_the_platforms(place, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://secret")

    _, log = run(place, "env", "env", env={"MINE": "yes"})

    names = {line.partition("=")[0] for line in log.splitlines()}
    ours = {name for name in names if name.startswith(("NEARLINE_", "CNVRG_", "CUDA_"))}
    assert names - ours == {"PATH", "HOME", "LANG", "TMPDIR", "PWD", "PYTHONUNBUFFERED", "MINE"}


def test_paths_in_the_environment_are_the_jobs_own_folders(place):
    command = (
        'cd && pwd && echo "$TMPDIR" && ls -d $NEARLINE_DATA $NEARLINE_INPUT $NEARLINE_OUTPUT $NEARLINE_PARAMETERS'
    )

    _, log = run(place, "paths", command)

    folder = place.jobs / "paths"
    parts = ("work", "tmp", "data", "input", "output", "parameters.json")
    assert log.splitlines() == [str(folder / part) for part in parts]


def test_python_and_nearline_of_the_product_are_found(place):
    _, log = run(place, "path", "command -v python; command -v nearline")

    assert [line.rpartition("/")[0] for line in log.splitlines()] == [str(Path(sys.executable).parent)] * 2


def test_a_job_that_the_first_release_stored_finds_its_data_and_inputs(place, tmp_path):
    (tmp_path / "digits").mkdir()
    (tmp_path / "digits" / "0.png").write_text("zero")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "model").write_text("weights")
    data, inputs = (
        [{"name": "digits", "path": str(tmp_path / "digits")}],
        [{"step": "fit", "path": str(tmp_path / "out")}],
    )
    spec = type(make_launch("x").spec).from_json(
        {
            "name": "mounts",
            "command": "cat $NEARLINE_DATA/digits/0.png $NEARLINE_INPUT/fit/model",
            "data": data,
            "inputs": inputs,
        }
    )

    place.driver.start(replace(make_launch("mounts"), spec=spec))
    place.wait_for_end("mounts")

    assert place.driver.read_log("mounts", 0, 100).data == b"zeroweights"


def test_data_and_inputs_are_in_the_folders_that_the_job_is_told(place, tmp_path):
    (tmp_path / "digits").mkdir()
    (tmp_path / "digits" / "0.png").write_text("zero")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "model").write_text("weights")

    _, log = run(
        place,
        "mounts",
        "cat $NEARLINE_DATA/digits/0.png $NEARLINE_INPUT/fit/model",
        data=[Mount("digits", HostFolder(str(tmp_path / "digits")))],
        inputs=[Mount("fit", HostFolder(str(tmp_path / "out")))],
    )

    assert log == "zeroweights"


def make_tries(folder: Path, count: int) -> list[Mount]:
    for index in range(count):
        (folder / str(index) / "deep").mkdir(parents=True)
        (folder / str(index) / "deep" / "model").write_text(f"{index}\n")
    return [Mount(f"train/{index}", HostFolder(str(folder / str(index)))) for index in range(count)]


def test_the_tries_of_a_grid_are_folders_by_index_that_a_program_can_walk(place, tmp_path):
    _, log = run(
        place,
        "pick",
        "cd $NEARLINE_INPUT && find train/*/* -type d | sort && cat train/0/deep/model train/1/deep/model",
        inputs=make_tries(tmp_path / "tries", 2),
    )

    assert log.splitlines() == ["train/0/deep", "train/1/deep", "0", "1"]


def test_hundreds_of_tries_are_read_by_one_job(place, tmp_path):
    _, log = run(
        place, "pick", "cat $NEARLINE_INPUT/train/*/deep/model | wc -l", inputs=make_tries(tmp_path / "tries", 500)
    )

    assert log.strip() == "500"


@pytest.mark.parametrize("place", ["confined"], indirect=True)
def test_a_read_only_mount_cannot_be_written_and_another_can(place, tmp_path):
    for name in ("given", "shared"):
        (tmp_path / name).mkdir()

    _, log = run(
        place,
        "writes",
        "cd $NEARLINE_DATA; touch shared/new && touch given/new",
        data=[
            Mount("given", HostFolder(str(tmp_path / "given"))),
            Mount("shared", HostFolder(str(tmp_path / "shared")), read_only=False),
        ],
    )

    assert "Read-only file system" in log
    assert [path.name for path in tmp_path.glob("*/new")] == ["new"]
    assert (tmp_path / "shared" / "new").exists()


def make_code(folder: Path) -> Mount:
    (folder / "lib").mkdir(parents=True)
    (folder / "run.sh").write_text("echo ran; cat lib/words")
    (folder / "run.sh").chmod(0o755)
    (folder / "lib" / "words").write_text("two words\n")
    (folder / "lib" / "words").chmod(0o444)
    (folder / "link").symlink_to("lib/words")
    return Mount("code", HostFolder(str(folder)))


def test_code_is_in_the_working_directory_with_its_modes_and_links(place, tmp_path):
    report, log = run(place, "code", "sh ./run.sh; ./run.sh; readlink link; pwd", code=make_code(tmp_path / "code"))

    work = place.jobs / "code" / "work"
    assert report.state is ReportState.SUCCEEDED
    assert log.splitlines() == ["ran", "two words"] * 2 + ["lib/words", str(work)]


def test_a_job_that_changes_its_code_changes_its_own_copy_only(place, tmp_path):
    code = make_code(tmp_path / "code")

    report, _ = run(place, "code", "echo new > lib/words && echo > run.sh && rm link && touch more", code=code)

    assert report.state is ReportState.SUCCEEDED
    assert (tmp_path / "code" / "lib" / "words").read_text() == "two words\n"
    assert sorted(path.name for path in (tmp_path / "code").iterdir()) == ["lib", "link", "run.sh"]


def test_code_that_is_not_there_refuses_the_start_in_words(place):
    with pytest.raises(StartRefused, match="The code is not at /nowhere/code"):
        place.driver.start(make_launch("code", code=Mount("code", HostFolder("/nowhere/code"))))

    assert place.driver.list_jobs() == []


def test_code_that_cannot_be_copied_ends_the_job_before_its_command(place, tmp_path):
    code = make_code(tmp_path / "code")
    work = tmp_path / "full"
    (work / "lib" / "words").mkdir(parents=True)

    report, log = run(place, "code", "echo ran", code=code, working_directory=str(work))

    assert (report.state, report.cause) == (ReportState.FAILED, EndCause.NOT_STARTED)
    assert "The command could not be started" in log
    assert "ran" not in log


def test_a_link_in_an_output_is_neither_listed_nor_followed(place, tmp_path):
    (tmp_path / "secret.key").write_text("secret")
    run(
        place, "links", f"ln -s {tmp_path} $NEARLINE_OUTPUT/out; mkfifo $NEARLINE_OUTPUT/pipe; touch $NEARLINE_OUTPUT/a"
    )
    output = place.driver.open_output("links")

    assert [file.path for file in output.list_files()] == ["a"]
    for path in ("out/secret.key", "out", "pipe"):
        with pytest.raises(OSError):
            output.open(path)


def test_a_missing_input_refuses_the_start_in_words(place):
    spec = {"name": "mounts", "command": "true", "data": [{"name": "digits", "path": "/nowhere/digits"}]}
    launch = replace(make_launch("mounts"), spec=type(make_launch("x").spec).from_json(spec))

    with pytest.raises(StartRefused, match="The dataset 'digits' is not at /nowhere/digits"):
        place.driver.start(launch)

    assert place.driver.list_jobs() == []


def test_parameters_are_in_a_file_and_on_the_command_line_where_asked_for(place):
    parameters = {"lr": 0.1, "name": "two words", "deep": True}

    _, log = run(
        place, "parameters", "cat $NEARLINE_PARAMETERS; echo; echo", parameters=parameters, append_parameters=True
    )

    first, second = log.splitlines()
    assert json.loads(first) == parameters
    assert second == "--lr 0.1 --name two words --deep true"


def test_an_argument_list_is_not_read_by_a_shell(place):
    _, log = run(place, "list", ["printf", "%s\n", "$HOME; rm -rf *"])

    assert log == "$HOME; rm -rf *\n"


def test_what_the_job_writes_to_its_output_stays(place):
    run(place, "writes", "echo 42 > $NEARLINE_OUTPUT/answer")

    assert (place.driver.open_output("writes").host_folder / "answer").read_text() == "42\n"


@pytest.mark.parametrize(("command", "exit_code"), [("exit 3", 3), ("kill -SEGV $$", -11), ("nonsense-program", 127)])
def test_exit_codes_and_signals_are_reported(place, command, exit_code):
    report, _ = run(place, "fails", command)

    assert (report.state, report.exit_code, report.cause) == (ReportState.FAILED, exit_code, EndCause.EXITED)


def test_a_program_that_does_not_exist_says_so_in_the_log(place):
    report, log = run(place, "nothing", ["nonsense-program", "--now"])

    assert report.exit_code == 127
    assert log == "[nearline] nonsense-program: No such file or directory\n"


def test_an_image_is_ignored_with_a_note_in_the_log(place):
    _, log = run(place, "image", "echo ran", image="pytorch/pytorch:2.9")

    assert log.splitlines() == [
        "[nearline] The image pytorch/pytorch:2.9 is ignored: jobs of this resource run directly on the machine.",
        "ran",
    ]


def test_a_working_directory_is_used_and_a_missing_one_refused(place, tmp_path):
    _, log = run(place, "there", "pwd", working_directory=str(tmp_path))

    assert log.strip() == str(tmp_path)
    with pytest.raises(StartRefused, match="/nowhere does not exist"):
        place.driver.start(make_launch("nowhere", working_directory="/nowhere"))


def test_secrets_are_in_the_environment_and_in_no_file(place):
    report, _ = run(place, "secret", "test ${#KEY} = 12", launch={"secrets": {"KEY": "s3cr3t-value"}})

    files = [path.read_bytes() for path in (place.jobs / "secret").rglob("*") if path.is_file()]
    assert report.state is ReportState.SUCCEEDED
    assert files
    assert not any(b"s3cr3t-value" in content for content in files)


def test_secrets_are_on_no_command_line(place):
    place.driver.start(replace(make_launch("secret", "exec sleep 600"), secrets={"KEY": "s3cr3t-value"}))
    place.wait_for("secret", ReportState.RUNNING)

    assert processes_with("s3cr3t-value") == []


def test_a_secret_that_a_job_prints_is_masked_in_its_log(place):
    command = 'echo "key=$KEY"; printf %s "$KEY" | base64; printf "%s" "${KEY%%-*}"; sleep 0.05; echo "-${KEY#*-}"'

    _, log = run(place, "leak", command, launch={"secrets": {"KEY": "s3cr3t-value"}})

    assert log == "key=***\n***\n***\n"


def test_a_secret_is_masked_in_what_a_command_that_is_not_found_leaves(place):
    _, log = run(place, "leak", "/nowhere/$KEY", launch={"secrets": {"KEY": "s3cr3t-value"}})

    assert "***" in log
    assert "s3cr3t" not in log


def test_the_beginning_of_a_secret_at_the_end_of_the_output_is_not_lost(place):
    _, log = run(place, "cut", "printf s3cr3t", launch={"secrets": {"KEY": "s3cr3t-value"}})

    assert log == "s3cr3t"


def test_a_timeout_ends_the_job_with_all_its_processes(place, long_time):
    report, _ = run(place, "slow", f"sleep {long_time} & sleep {long_time}", timeout_s=0.3)

    assert (report.state, report.cause) == (ReportState.FAILED, EndCause.TIMEOUT)
    wait_until(lambda: processes_with(long_time) == [])


def test_a_job_that_ignores_sigterm_is_killed_after_the_grace(place):
    place.driver.start(make_launch("stubborn", "trap '' TERM; echo ready; while :; do sleep 0.05; done"))
    wait_until(lambda: b"ready" in place.driver.read_log("stubborn", 0, 100).data)

    place.driver.stop("stubborn", 0.2)

    report = place.wait_for_end("stubborn")
    assert (report.cause, report.exit_code) == (EndCause.STOPPED, -9)


def test_a_job_may_clean_up_when_it_is_stopped(place):
    place.driver.start(make_launch("tidy", "trap 'echo tidied; exit 0' TERM; echo ready; while :; do sleep 0.01; done"))
    wait_until(lambda: b"ready" in place.driver.read_log("tidy", 0, 100).data)

    place.driver.stop("tidy", 60)

    report = place.wait_for_end("tidy")
    assert (report.cause, report.state) == (EndCause.STOPPED, ReportState.FAILED)
    assert place.driver.read_log("tidy", 0, 100).data.endswith(b"tidied\n")


def test_processes_that_a_job_leaves_behind_end_with_it(place, long_time):
    report, _ = run(place, "leaves", f"sleep {long_time} & setsid sleep {long_time} >/dev/null 2>&1 & echo done")

    assert report.state is ReportState.SUCCEEDED
    wait_until(lambda: processes_with(long_time) == [])


def test_processes_that_a_run_after_an_eviction_leaves_behind_end_with_it(place, long_time):
    place.driver.start(replace(make_launch("again", f"setsid sleep {long_time} >/dev/null 2>&1 &"), evictions=1))
    place.wait_for_end("again~2")

    wait_until(lambda: processes_with(long_time) == [])


def test_processes_without_session_and_environment_of_their_job_end_with_it(place, long_time):
    run(place, "bare", f"env -i setsid sleep {long_time} >/dev/null 2>&1 & sleep 0.1")

    wait_until(lambda: processes_with(long_time) == [])


LEAVE_FIRST_THREAD = """
import ctypes, pathlib, sys, threading, time

def go_on():
    while pathlib.Path("/proc/self/stat").read_text().split()[2] != "Z":
        time.sleep(0.005)
    pathlib.Path(sys.argv[1]).touch()
    time.sleep(600)

threading.Thread(target=go_on).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_job_whose_first_thread_has_ended_is_stopped(place):
    place.driver.start(make_launch("threads", f"exec python -c '{LEAVE_FIRST_THREAD}' $NEARLINE_OUTPUT/begun"))
    wait_until((place.jobs / "threads" / "output" / "begun").exists)

    place.driver.stop("threads", 0)

    assert place.wait_for_end("threads").exit_code == -9


def test_orphans_that_end_while_the_job_runs_leave_nothing(place):
    place.driver.start(make_launch("orphans", "(sh -c 'exit 3' &); touch $NEARLINE_OUTPUT/begun; sleep 600"))
    wait_until((place.jobs / "orphans" / "output" / "begun").exists)
    watcher = json.loads((place.jobs / "orphans" / "started.json").read_text())["shim"]

    wait_until(lambda: len(Path(f"/proc/{watcher}/task/{watcher}/children").read_text().split()) == 1)
    assert [report.state for report in place.driver.list_jobs()] == [ReportState.RUNNING]
    place.driver.stop("orphans", 0)
    assert place.wait_for_end("orphans").exit_code == -9


def test_a_job_of_the_same_name_of_another_platform_runs_on(place, tmp_path):
    command = "touch $NEARLINE_OUTPUT/begun; until [ -e $NEARLINE_OUTPUT/go ]; do sleep 0.01; done"
    other = LocalPlace(tmp_path / "other")
    try:
        for platform in (other, place):
            platform.driver.start(make_launch("train", command))
            wait_until((platform.jobs / "train" / "output" / "begun").exists)

        other.driver.stop("train", 0)
        other.wait_for_end("train")
        (place.jobs / "train" / "output" / "go").touch()

        assert place.wait_for_end("train").state is ReportState.SUCCEEDED
    finally:
        other.close()


def test_too_much_memory_ends_the_job_and_says_so(place):
    hungry = "x = bytearray(200 << 20); import time; time.sleep(600)"

    report, _ = run(place, "hungry", ["python", "-c", hungry], launch={"memory_bytes": 100 << 20})

    assert (report.state, report.cause) == (ReportState.FAILED, EndCause.OUT_OF_MEMORY)


def test_memory_that_processes_share_counts_once(place):
    code = "import os, time; x = bytearray(120 << 20)\nfor _ in range(3): os.fork() or time.sleep(0.7) or os._exit(0)\ntime.sleep(0.7)"

    report, _ = run(place, "shares", ["python", "-c", code], launch={"memory_bytes": 250 << 20})

    assert report.state is ReportState.SUCCEEDED


def test_a_job_is_bound_to_as_many_cores_as_it_has_cpus(place):
    command = ["python", "-c", "import os; print(len(os.sched_getaffinity(0)))"]

    _, log = run(place, "bound", command, launch={"cpu_millicores": 500})

    assert log == "1\n"


def test_the_log_is_bounded_keeps_metrics_and_says_how_much_is_missing(place):
    code = "for n in range(2000): print('noise', n)\nprint('::nearline {}'); print('cnvrg_tag_accuracy: 0.97'); print('end')"

    report, log = run(place, "loud", ["python", "-c", code], log_limit_bytes=1000)

    lines = log.splitlines()
    assert report.state is ReportState.SUCCEEDED
    assert log.index("::nearline {}") <= 1000
    assert lines[-4:-2] == ["::nearline {}", "cnvrg_tag_accuracy: 0.97"]
    assert lines[-1].endswith("its limit of 1000 bytes. Lines with metrics were kept.")
    noise = sum(len(f"noise {number}\n") for number in range(2000)) + len("end\n")
    kept = sum(len(line) + 1 for line in lines[:-4])
    assert f" {noise - kept} bytes of output are not kept" in lines[-1]


def test_usage_is_sampled_at_most_once_a_second_and_adds_up_to_what_was_used(place):
    code = "import time\nwhile time.process_time() < 1.5: pass"

    report, _ = run(place, "busy", ["python", "-c", code])

    samples = place.driver.read_usage("busy", None)
    times = [report.started_at, *(sample.at for sample in samples)]
    seconds = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
    used_s = sum(sample.cpu_millicores / 1000 * s for sample, s in zip(samples, seconds, strict=True))
    assert len(samples) >= 2
    assert min(seconds[:-1]) > 0.99
    assert 1.4 < used_s < 1.8
    # One that is taken in the middle of an exec finds almost none.
    assert 1 << 20 < max(sample.memory_bytes for sample in samples[:-1]) < 1 << 28


def test_gpus_are_assigned_by_index_in_bus_order_with_their_fraction(place):
    command = "echo $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER $NEARLINE_GPU_FRACTION"

    _, half = run(place, "half", command, launch={"gpus": (GpuShare(1, 500),)})
    _, two = run(place, "two", command, launch={"gpus": (GpuShare(0, 1000), GpuShare(2, 1000))})
    _, none = run(place, "none", command)

    assert (half, two, none) == ("1 PCI_BUS_ID 0.5\n", "0,2 PCI_BUS_ID 1\n", "PCI_BUS_ID\n")


def test_a_gpu_that_nobody_can_ask_is_not_measured_and_does_not_disturb_the_job(place):
    report, output = run(place, "blind", "echo done", launch={"gpus": (GpuShare(99, 1000),)})

    assert (report.state, output) == (ReportState.SUCCEEDED, "done\n")
    assert {(s.gpu_percent, s.gpu_memory_used_bytes) for s in place.driver.read_usage("blind", None)} == {(None, None)}


OPENS_ALL = """for file in $DEVICES/nvidia*; do true < $file && echo ${file##*/}; done
echo "visible: $CUDA_VISIBLE_DEVICES"
exec sleep 600"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a function that drives a machine with four GPUs, of which one has no file."""
    (tmp_path / "files").mkdir()
    for name in ("nvidiactl", "nvidia-uvm", "nvidia-modeset", "nvidia0", "nvidia2", "nvidia3"):
        try:
            os.mknod(tmp_path / "files" / name, S_IFCHR | 0o666, os.makedev(1, 3))  # as /dev/null is
        except PermissionError:
            (tmp_path / "files" / name).touch()
    places = []

    def drive(*, knows_places=True, views=None):
        for index, minor in enumerate((3, 2, 1, 0)):
            information = tmp_path / f"driver/0000:{index}1:00.0/information"
            information.parent.mkdir(parents=True)
            information.write_text(f"GPU UUID: \t GPU-{index}\nDevice Minor: \t {minor}\n")
            monkeypatch.setitem(this_machine._gpu_places, index, f"0000:{index}1:00.0" if knows_places else "")
        driver = LocalDriver(tmp_path / "jobs", views, shim_module="tests.contracts.compute.shim_with_gpus")
        place = LocalPlace(tmp_path / "jobs", views)
        place.driver = driver
        places.append(place)
        return place

    yield drive
    for place in places:
        place.close()


def start_with_gpus(place, name: str, *indexes: int, devices="/dev") -> None:
    launch = make_launch(name, OPENS_ALL, env={"DEVICES": str(devices)})
    place.driver.start(replace(launch, gpus=tuple(GpuShare(index, 1000) for index in indexes)))


@pytest.mark.skipif(bool(find_refusal()), reason=f"this kernel makes no sandbox: {find_refusal()}")
def test_a_job_in_a_sandbox_has_the_files_of_its_own_gpus_and_numbers_these_from_0(tmp_path, machine):
    place = machine(views=Views(hidden=[tmp_path]))

    for name, indexes in (("two", (3, 1)), ("one", (0,)), ("none", ())):
        start_with_gpus(place, name, *indexes)

    place.wait_for_log("two", "nvidia-modeset\nnvidia-uvm\nnvidia0\nnvidia2\nnvidiactl\nvisible: 1,0\n")
    place.wait_for_log("one", "nvidia-modeset\nnvidia-uvm\nnvidia3\nnvidiactl\nvisible: 0\n")
    place.wait_for_log("none", "nvidia-modeset\nnvidia-uvm\nnvidiactl\nvisible: \n")
    assert place.wait_for_gpus("two").gpus_seen == VisibleGpus((SeenGpu("GPU-3"), SeenGpu("GPU-1")), 2, "1,0")
    assert place.wait_for_gpus("one").gpus_seen == VisibleGpus((SeenGpu("GPU-0"),), 1, "0")
    assert place.wait_for("none", ReportState.RUNNING).gpus_seen is None


@pytest.mark.skipif(bool(find_refusal()), reason=f"this kernel makes no sandbox: {find_refusal()}")
def test_beside_gpus_a_job_in_a_sandbox_may_name_its_threads_as_cuda_does_and_write_nothing_else_of_proc(
    tmp_path, machine
):
    place = machine(views=Views(hidden=[tmp_path]))
    command = """printf cuda-EvtHandlr > /proc/self/task/$$/comm; cat /proc/$$/comm
find /proc -path '/proc/[0-9]*' -prune -o ! -type l -writable -print"""

    place.driver.start(make_launch("named", command))

    assert place.wait_for_end("named").state is ReportState.SUCCEEDED
    assert place.driver.read_log("named", 0, 1 << 16).data == b"cuda-EvtHandlr\n"


@pytest.mark.parametrize("kind", ["confined", "unconfined"])
def test_a_job_has_the_files_of_all_gpus_where_its_own_are_not_known_or_there_is_no_sandbox(tmp_path, machine, kind):
    is_confined = kind == "confined"
    if is_confined and (refusal := find_refusal()):
        pytest.skip(f"this kernel makes no sandbox: {refusal}")
    place = machine(knows_places=not is_confined, views=Views(hidden=[tmp_path]) if is_confined else None)

    start_with_gpus(place, "two", 1, 0, devices="/dev" if is_confined else tmp_path / "files")
    files = "nvidia-modeset\nnvidia-uvm\nnvidia0\nnvidia2\nnvidia3\nnvidiactl\n"
    place.wait_for_log("two", f"{files}visible: 1,0\n")
    running = place.wait_for_gpus("two")
    place.driver.stop("two", 0)

    assert running.gpus_seen == VisibleGpus((SeenGpu("GPU-1"), SeenGpu("GPU-0")), 3, "1,0")
    assert place.wait_for_end("two").gpus_seen == running.gpus_seen


def test_samples_with_gpus_are_read_back_and_older_ones_have_none(place):
    run(place, "done", "true")
    old = place.driver.read_usage("done", None)
    line = {"at": 4000000000, "cpu_millicores": 1, "memory_bytes": 2, "gpu_percent": 0, "gpu_memory_used_bytes": 4}
    with (place.jobs / "done" / "usage.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")

    *older, newest = place.driver.read_usage("done", None)

    assert older == old
    assert (newest.gpu_percent, newest.gpu_memory_used_bytes) == (0, 4)
    assert questions.samples_from_json(questions.samples_to_json([*older, newest])) == [*older, newest]


def test_a_killed_shim_is_reported_as_lost_and_its_command_ends_too(place, long_time):
    place.driver.start(make_launch("orphan", f"exec sleep {long_time}"))
    wait_until(lambda: processes_with(long_time) != [])
    shim = json.loads((place.jobs / "orphan" / "started.json").read_text())["shim"]

    os.kill(shim, signal.SIGKILL)

    assert place.wait_for("orphan", ReportState.LOST).token == "token-of-orphan"
    wait_until(lambda: processes_with(long_time) == [])


def test_a_job_whose_end_cannot_be_recorded_on_a_full_disk_says_so(place, long_time, monkeypatch):
    place.driver.start(make_launch("orphan", f"exec sleep {long_time}"))
    wait_until(lambda: processes_with(long_time) != [])
    shim = json.loads((place.jobs / "orphan" / "started.json").read_text())["shim"]
    full = os.statvfs_result((4096, 4096, 1000, 0, 0, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: full)

    os.kill(shim, signal.SIGKILL)

    reason = "The disk with the files of jobs is full, so that the end of the job could not be recorded."
    assert place.wait_for("orphan", ReportState.LOST).reason == reason


def test_jobs_go_on_and_others_start_when_the_spawner_of_shims_is_killed(place):
    place.driver.start(make_launch("early", "while [ ! -e go ]; do sleep 0.01; done"))
    place.wait_for("early", ReportState.RUNNING)
    spawner = place.driver._spawner._process

    spawner.kill()
    spawner.wait()
    late, _ = run(place, "late", "true")
    (place.jobs / "early" / "work" / "go").touch()

    assert late.state is ReportState.SUCCEEDED
    assert place.wait_for_end("early").state is ReportState.SUCCEEDED


def test_the_spawner_ends_with_the_platform(tmp_path):
    place = LocalPlace(tmp_path / "jobs")
    run(place, "job", "true")
    spawner = place.driver._spawner._process

    place.driver._spawner._channel.close()

    assert spawner.wait(DEADLINE_S) == 0


def test_a_shim_whose_order_is_cut_off_does_nothing(tmp_path, place, monkeypatch):
    whole = make_launch("cut", "touch ran")
    driver = LocalDriver(place.jobs)
    monkeypatch.setattr(
        driver, "_spawn", lambda folder, order, *fds: LocalDriver._spawn(driver, folder, order[:-5], *fds)
    )

    driver.start(whole)
    wait_until(lambda: driver._folder("cut").is_locked() is False)

    assert driver.list_jobs() == []
    place.driver.start(whole)
    assert place.wait_for_end("cut").state is ReportState.SUCCEEDED


def test_sigterm_to_the_shim_ends_the_job_in_order(place, long_time):
    place.driver.start(make_launch("shutdown", f"exec sleep {long_time}"))
    wait_until(lambda: processes_with(long_time) != [])
    shim = json.loads((place.jobs / "shutdown" / "started.json").read_text())["shim"]

    os.kill(shim, signal.SIGTERM)

    assert place.wait_for_end("shutdown").cause is EndCause.STOPPED


def test_an_order_to_a_shim_that_ends_at_that_moment_is_without_effect(tmp_path, monkeypatch):
    folder = JobFolder(str(tmp_path))
    reader = folder.open_control()
    open_fifo = os.open

    def open_and_lose_the_reader(*args):
        descriptor = open_fifo(*args)
        os.close(reader)
        return descriptor

    monkeypatch.setattr("compute.adapters.local.folders.os.open", open_and_lose_the_reader)

    folder.send("stop 0")


def test_a_job_that_spoils_its_own_records_is_not_listed_and_the_others_are(tmp_path):
    place = LocalPlace(tmp_path / "jobs")
    run(place, "sound", "true")
    run(place, "spoiled", "true")
    (place.jobs / "spoiled" / "exit.json").write_text("{}")

    assert [report.name for report in place.driver.list_jobs()] == ["sound"]


def test_a_port_of_somebody_else_on_this_machine_is_not_reached(place):
    place.driver.start(make_launch("endless", "exec sleep 600"))
    place.wait_for("endless", ReportState.RUNNING)

    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(PortNotOpen):
        asyncio.run(ask(place.driver, "endless", server.getsockname()[1]))


@pytest.mark.parametrize("way", ["setsid {}", "env -i PATH=$PATH setsid sh -c '{} & wait'"], ids=["kept", "bare"])
def test_a_port_is_reached_whose_server_a_job_has_put_into_the_background(place, way):
    port = reserve_port()
    server = f"echo 42 > answer; ({way.format(f'python -m http.server {port}')} &); exec sleep 600"
    place.driver.start(make_launch("background", server))
    place.wait_for("background", ReportState.RUNNING)

    assert wait_for_answer(place.driver, "background", port).endswith(b"42\n")


@pytest.fixture
def offered(place, tmp_path):
    """A folder with a file and an empty one, which an admin offers: the first to be read only."""
    scans, scratch = tmp_path.parent / f"{tmp_path.name}-scans", tmp_path.parent / f"{tmp_path.name}-scratch"
    for folder in (scans, scratch):
        folder.mkdir()
    (scans / "a").write_text("scan\n")
    place.driver.close()
    place.driver = LocalDriver(place.jobs, place.views, volumes=[f"{scans}:ro", str(scratch)])
    return scans, scratch


@pytest.mark.parametrize("place", ["confined"], indirect=True)
def test_a_job_finds_its_volumes_and_writes_only_where_it_may(place, offered):
    scans, scratch = offered
    command = "cat /tmp/in/scans/a; touch /tmp/in/scans/b || echo refused; echo kept > /tmp/in/scratch/x"

    _, log = run(place, "mounts", command, volumes=[f"{scans}:/tmp/in/scans:ro", f"{scratch}:/tmp/in/scratch"])

    lines = log.splitlines()
    assert (lines[0], lines[-1]) == ("scan", "refused")
    assert [path.name for path in scans.iterdir()] == ["a"]
    assert (scratch / "x").read_text() == "kept\n"


def test_a_folder_under_its_own_path_needs_no_sandbox(place, offered):
    _, scratch = offered

    run(place, "own", f"echo kept > {scratch}/x", volumes=[f"{scratch}:{scratch}"])

    assert (scratch / "x").read_text() == "kept\n"


@pytest.mark.parametrize("place", ["unconfined"], indirect=True)
def test_without_a_sandbox_a_folder_cannot_be_shown_elsewhere(place, offered):
    _, scratch = offered

    with pytest.raises(VolumeRefused, match="no sandbox"):
        place.driver.start(make_launch("elsewhere", "true", volumes=[f"{scratch}:/tmp/in"]))


def test_volumes_that_are_not_offered_are_refused(place, offered, tmp_path):
    scans, _ = offered

    for text, words in (
        (f"{tmp_path}:{tmp_path}", "is not offered"),
        (f"{scans}:{scans}", "only read"),
    ):
        with pytest.raises(VolumeRefused, match=words):
            place.driver.start(make_launch("other", "true", volumes=[text]))


@pytest.mark.parametrize("place", ["confined"], indirect=True)
def test_a_folder_that_holds_files_of_the_platform_is_never_shown(place, tmp_path):
    link = tmp_path.parent / f"{tmp_path.name}-link"
    link.symlink_to(tmp_path)
    place.driver.close()
    place.driver = LocalDriver(place.jobs, place.views, volumes=[str(tmp_path.parent), str(link)])

    for folder in (tmp_path.parent, link):
        with pytest.raises(VolumeRefused, match="holds files of the platform"):
            place.driver.start(make_launch("platform", "true", volumes=[f"{folder}:/tmp/in"]))


@pytest.mark.parametrize("place", ["confined"], indirect=True)
def test_a_path_for_which_no_folder_can_be_made_is_refused_in_words(place, offered):
    _, scratch = offered

    with pytest.raises(VolumeRefused, match="There is no folder /no/where on this machine"):
        place.driver.start(make_launch("nowhere", "true", volumes=[f"{scratch}:/no/where"]))


def test_an_offered_folder_that_is_not_there_may_come_back(place, offered):
    _, scratch = offered
    scratch.rmdir()

    with pytest.raises(StartRefused, match="There is no folder") as refusal:
        place.driver.start(make_launch("away", "true", volumes=[f"{scratch}:{scratch}"]))

    assert not isinstance(refusal.value, VolumeRefused)


def test_folders_of_thousands_of_levels_hold_nothing_up(place):
    report, log = run(
        place,
        "deep",
        """python - <<'END'
import os
for name, levels in (("TMPDIR", 2500), ("NEARLINE_OUTPUT", 1500)):
    os.chdir(os.environ[name])
    for _ in range(levels):
        os.mkdir("d")
        os.chdir("d")
    open("end", "w").close()
END""",
    )

    (file,) = place.driver.open_output("deep").list_files()
    place.driver.forget("deep")
    place.driver.delete("deep")

    assert (report.state, log) == (ReportState.SUCCEEDED, "")
    assert (file.path, file.why) == ("d/" * 256 + "d", "has more than 256 components")
    assert place.driver.list_jobs() == []
    assert not (place.jobs / "deep").exists()
