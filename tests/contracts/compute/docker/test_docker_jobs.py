"""What becomes of jobs at a real daemon, and of a platform that dies between two calls."""

import asyncio
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import timedelta

import pytest

from compute.adapters.docker import containers
from compute.adapters.docker.engine import Address, Engine
from compute.engine.job_spec import HostFolder, Mount, Tree
from compute.engine.ports import CommandOutput, EndCause, GpuShare, ReportState, TerminalRequest
from compute.errors import JobNotRunning, ResourceUnreachable, StartRefused
from core import clock
from tests.contracts.compute_driver import DEADLINE_S


def make_folder(path, **files):
    path.mkdir()
    for name, text in files.items():
        (path / name).write_text(text)
    return path


def test_a_job_finds_code_that_it_may_change_its_inputs_and_folders_of_this_host(place, tmp_path):
    place.trees["code-root"] = make_folder(tmp_path / "code", train="echo trained\n")
    place.trees["input-root"] = make_folder(tmp_path / "input", seen="41\n")
    cached = make_folder(tmp_path / "cached", label="seven\n")
    reads = "sh train; cat $NEARLINE_INPUT/prepare/seen $NEARLINE_DATA/digits/label; cat $NEARLINE_PARAMETERS; echo"
    writes = "echo more >> train; touch $NEARLINE_DATA/digits/new 2>/dev/null || echo read-only; pwd"

    place.start(
        "reads",
        f"{reads}; {writes}",
        code=Mount("code", Tree("ds_1", "code-root")),
        inputs=[Mount("prepare", Tree("ds_1", "input-root"))],
        data=[Mount("digits", HostFolder(str(cached)))],
        parameters={"rate": 0.1},
    )
    report = place.wait_for_end("reads")

    assert report.reason == ""
    assert place.read_log("reads").splitlines() == ["trained", "41", "seven", '{"rate": 0.1}', "read-only", "/work"]


def test_a_job_has_its_variables_and_its_secrets_are_masked_also_after_a_restart(place):
    launch = place.make("secret", "echo $KEY $MODE $NEARLINE_JOB_NAME; sleep 600", env={"MODE": "quick"})
    place.driver.start(replace(launch, secrets={"KEY": "hunter22"}))
    place.wait_for("secret", ReportState.RUNNING)
    place.restart()

    place.wait_for_log("secret", "*** quick secret\n")


def test_a_job_has_the_memory_cores_and_labels_that_it_was_given(place):
    place.start_endless("limited")
    place.wait_for("limited", ReportState.RUNNING)
    (run,) = [item for item in place.containers() if item["Labels"][containers.ROLE] == containers.RUN]
    facts = place.engine.get(f"/containers/{run['Id']}/json")

    limits = facts["HostConfig"]
    assert (limits["Memory"], limits["MemorySwap"], limits["ShmSize"]) == (2**30, 2**30, 2**30)
    assert limits["NanoCpus"] == 10**9
    assert facts["Config"]["Labels"][containers.RESOURCE] == place.settings.resource
    assert place.driver.list_leftovers() == {"job_limited": {"limited"}}


def test_a_job_that_takes_more_memory_than_it_has_says_so(place):
    launch = place.make("greedy", "head -c 200m /dev/zero | tail")
    place.driver.start(replace(launch, memory_bytes=32 * 2**20))

    report = place.wait_for_end("greedy")

    assert (report.state, report.cause, report.exit_code) == (ReportState.FAILED, EndCause.OUT_OF_MEMORY, 137)


def test_an_image_that_cannot_be_pulled_is_named(place):
    place.start("pulls", image="registry.test/nothing:1")

    report = place.wait_for_end("pulls")

    assert (report.state, report.cause) == (ReportState.FAILED, EndCause.IMAGE_UNAVAILABLE)
    assert report.reason.startswith("The image registry.test/nothing:1 cannot be pulled: ")


def test_a_program_that_is_not_in_the_image_is_code_127(place):
    place.start("lacks", ("no-such-program",))

    report = place.wait_for_end("lacks")

    assert (report.state, report.cause, report.exit_code) == (ReportState.FAILED, EndCause.EXITED, 127)


def test_a_job_is_ended_at_its_deadline(place):
    place.start("late", "exec sleep 600", timeout_s=0.3)

    report = place.wait_for_end("late")

    assert (report.cause, report.exit_code) == (EndCause.TIMEOUT, 143)


def test_a_deadline_counts_by_the_clock_of_the_daemon(place):
    place.start("slow", "echo up; exec sleep 600", timeout_s=60)
    place.wait_for_log("slow", "up\n")

    with clock.frozen_at(clock.now() + timedelta(minutes=10)):
        place.driver.list_jobs()
    place.driver.stop("slow", 60)

    assert place.wait_for_end("slow").cause == EndCause.STOPPED


def test_a_stopped_job_is_asked_to_end_and_killed_after_its_grace(place):
    place.start("polite", "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.1; done")
    place.start("deaf", "trap '' TERM; echo up; while :; do sleep 0.1; done")
    for name, grace_s in (("polite", 60), ("deaf", 0.5)):
        place.wait_for_log(name, "up\n")
        place.driver.stop(name, grace_s)

    ends = {name: place.wait_for_end(name) for name in ("polite", "deaf")}

    assert [(end.cause, end.exit_code) for end in ends.values()] == [(EndCause.STOPPED, 3), (EndCause.STOPPED, 137)]
    assert place.read_log("polite") == "up\nbye\n"


def test_a_job_that_is_killed_on_its_host_is_not_said_to_be_stopped(place):
    place.start_endless("killed")
    place.wait_for("killed", ReportState.RUNNING)
    name = containers.container_name(place.settings, "killed", containers.RUN)
    place.engine.post(f"/containers/{name}/kill", signal="SIGKILL")

    report = place.wait_for_end("killed")

    assert (report.cause, report.exit_code) == (EndCause.EXITED, 137)
    assert "by somebody on the Docker host" in report.reason


def test_a_run_whose_preparation_died_is_not_listed_and_is_begun_anew(place):
    launch = place.make("broken", "echo ran")
    record = place.driver._create_record(launch)
    place.engine.write_archive(record, [containers.file_archive("/beat", b"", at=time.time() - 60)])

    assert place.driver.list_jobs() == []
    place.driver.start(launch)

    assert place.wait_for_end("broken").state is ReportState.SUCCEEDED
    assert place.read_log("broken") == "ran\n"


def test_a_run_that_is_stopped_before_it_begins_never_begins(place):
    record = place.driver._create_record(place.make("early", "echo ran"))
    place.engine.write_archive(record, [containers.file_archive("/beat", b"", at=time.time())])
    assert place.report("early").state is ReportState.STARTING

    place.driver.stop("early", 5)

    report = place.wait_for_end("early")
    assert (report.state, report.cause, report.started_at) == (ReportState.FAILED, EndCause.STOPPED, None)


def test_a_command_runs_beside_the_job_with_its_input_and_exit_code(place):
    place.start_endless("busy")
    place.wait_for("busy", ReportState.RUNNING)

    pieces = list(place.driver.run_command("busy", 0, ("sh", "-c", "cat; echo problem >&2; exit 7"), b"typed\n"))

    told = {kind: b"".join(piece.data for piece in pieces if piece.is_error is kind) for kind in (False, True)}
    assert told == {False: b"typed\n", True: b"problem\n"}
    assert pieces[-1] == CommandOutput(exit_code=7)
    place.driver.stop("busy", 0)
    place.wait_for_end("busy")
    with pytest.raises(JobNotRunning):
        list(place.driver.run_command("busy", 0, ("true",), b""))


def test_a_command_in_a_terminal_ends_when_the_terminal_is_closed(place):
    place.start_endless("busy")
    place.wait_for("busy", ReportState.RUNNING)

    async def open_and_close():
        request = TerminalRequest(("sh", "-c", "echo begun; sleep 777"), columns=80, rows=24)
        terminal = await place.driver.open_terminal("busy", 0, request)
        printed = await terminal.receive()
        await terminal.close()
        return printed

    def list_processes() -> bytes:
        return b"".join(piece.data for piece in place.driver.run_command("busy", 0, ("ps", "-o", "args"), b""))

    assert asyncio.run(open_and_close()) == b"begun\r\n"
    deadline = time.monotonic() + DEADLINE_S
    while b"sleep 777" in list_processes():
        assert time.monotonic() < deadline


def test_part_of_a_gpu_and_a_job_without_an_image_are_refused(place):
    with pytest.raises(StartRefused, match="whole GPUs only"):
        place.driver.start(replace(place.make("half", "true"), gpus=(GpuShare(0, 500),)))
    with pytest.raises(StartRefused, match="names no image"):
        place.start("bare", image=None)


def test_a_daemon_that_does_not_answer_says_nothing_about_its_jobs_and_knows_them_again(own_place):
    own_place.start_quick("done")
    ended = own_place.wait_for_end("done")
    own_place.start_endless("cut")
    own_place.wait_for("cut", ReportState.RUNNING)

    own_place.daemon.kill()
    with pytest.raises(ResourceUnreachable, match="does not answer"):
        own_place.driver.list_jobs()
    own_place.daemon.start()
    own_place.restart()

    assert own_place.report("done") == ended
    cut = own_place.wait_for_end("cut")
    assert (cut.state, cut.cause) == (ReportState.FAILED, EndCause.NODE_LOST)
    assert cut.reason == "The Docker daemon or its host was restarted while the job ran."


def test_a_command_that_exits_with_the_code_of_an_unseen_end_has_failed_itself(place):
    place.start("minus", "exit 255")

    ended = place.wait_for_end("minus")

    assert (ended.exit_code, ended.cause, ended.reason) == (255, EndCause.EXITED, "")


def test_a_daemon_that_begins_its_answer_late_is_no_silent_one(tmp_path):
    with socket.socket(socket.AF_UNIX) as daemon, ThreadPoolExecutor(1) as pool:
        daemon.bind(str(tmp_path / "late.sock"))
        daemon.listen()
        engine = Engine(Address(f"unix://{tmp_path / 'late.sock'}"))
        told = pool.submit(lambda: list(engine.follow("/events", silent_s=0.01)))
        connection, _ = daemon.accept()
        with connection:
            wait([told], timeout=0.2)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}\n")
        assert told.result() == [{}]


@pytest.fixture
def attached(tmp_path):
    """What a command prints that has printed nothing yet, and the daemon's end of the connection."""
    with socket.socket(socket.AF_UNIX) as daemon, ThreadPoolExecutor(1) as pool:
        daemon.bind(str(tmp_path / "attached.sock"))
        daemon.listen()
        printed = Engine(Address(f"unix://{tmp_path / 'attached.sock'}")).attach("id", stdin=None, silent_s=0.01)
        first = pool.submit(next, printed)
        connection, _ = daemon.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
            assert first.result() == (False, b"")
            yield printed, connection


def test_a_command_that_prints_nothing_for_a_while_is_read_on(attached):
    printed, connection = attached

    connection.sendall(b"\1\0\0\0\0\0\0\2ok")
    connection.shutdown(socket.SHUT_WR)

    assert [data for _, data in printed if data] == [b"ok"]


def test_a_connection_to_a_command_that_breaks_is_told_as_one_to_the_daemon(attached):
    printed, connection = attached

    connection.close()  # with what was asked unread: that resets it

    with pytest.raises(ResourceUnreachable, match="does not answer"):
        list(printed)


def test_a_dead_daemon_is_asked_less_and_less_often(tmp_path):
    engine = Engine(Address(f"unix://{tmp_path / 'nobody.sock'}"))

    for _ in range(3):
        with pytest.raises(ResourceUnreachable, match="does not answer"):
            engine.get("/info")

    assert engine._breaker.is_open


def test_gpus_are_asked_for_by_their_place_on_the_host(place):
    launch = replace(place.make("gpus", "true"), gpus=(GpuShare(1, 1000), GpuShare(3, 1000)))

    body = json.loads(json.dumps(containers.build_run(launch, place.settings)))

    assert body["HostConfig"]["DeviceRequests"] == [{"DeviceIDs": ["1", "3"], "Capabilities": [["gpu"]]}]
    assert not [item for item in body["Env"] if item.startswith("CUDA_VISIBLE_DEVICES")]
