"""The contract of `ComputeDriver`: every adapter, the fake included, passes it.

An adapter's test module subclasses `ComputeDriverContract` and offers a fixture `place`: something with the driver,
and ways to have a job that ends by itself, one that does not, and a restart of the platform.
"""

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpcore
import pytest

from compute.adapters.job_stream import JobStream
from compute.engine.job_spec import HostFolder, JobSpec, Mount, NfsExport, RemoteFolder, SourceKind, Tree, Volume
from compute.engine.ports import (
    CheckpointFolder,
    ComputeDriver,
    EndCause,
    JobReport,
    Launch,
    OpensPorts,
    OutputReader,
    ReportState,
    Terminal,
    TerminalRequest,
    UsageSample,
)
from compute.engine.visible_gpus import SeenGpu
from compute.errors import ConnectionBroken, JobNotRunning, PortNotOpen, ResourceUnreachable, StartRefused

DEADLINE_S = 600
SOURCES = {
    SourceKind.HOST_FOLDER: HostFolder("/"),
    SourceKind.VOLUME: Volume("claim"),
    SourceKind.NFS_EXPORT: NfsExport("server", "/export"),
    SourceKind.REMOTE_FOLDER: RemoteFolder("res_1", "/data"),
    SourceKind.TREE: Tree("ds_1", "root"),
}


def make_launch(name: str, command="true", **spec) -> Launch:
    return Launch(
        spec=JobSpec(name=name, command=command, **spec),
        token=f"token-of-{name}",
        job_id=f"job_{name}",
        kind="job",
        project="demo",
        node_name="node-1",
        cpu_millicores=1000,
        memory_bytes=2**30,
    )


def read_output(output: OutputReader) -> dict[str, bytes]:
    contents = {}
    for file in output.list_files():
        with output.open(file.path) as content:
            contents[file.path] = content.read()
        assert file.size_bytes == len(contents[file.path])
    return contents


class Place(ABC):
    """One place where jobs run, as the contract needs it. `left` is what a quick job leaves in its output."""

    driver: ComputeDriver
    left: dict[str, bytes] = {"deep/answer.txt": b"42\n", "empty": b""}

    def start_quick(self, name: str) -> Launch:
        """Start a job that prints something, leaves `left` in its output, and succeeds by itself at once."""
        leave = "cd $NEARLINE_OUTPUT; mkdir deep; echo 42 > deep/answer.txt; touch empty"
        return self._start(self.make(name, f"{leave}; echo one; echo two"))

    def start_endless(self, name: str) -> Launch:
        """Start a job that runs until it is stopped."""
        return self._start(self.make(name, "exec sleep 600"))

    @abstractmethod
    def restart(self) -> None:
        """Replace `driver` by a new one over the same state, as after a restart of the platform."""

    def start_with_checkpoint(self, name: str, command: str, checkpoint: CheckpointFolder | None) -> None:
        self.driver.start(replace(self.make(name, command), checkpoint=checkpoint))

    def run(self, name: str, command: str, *, tree: Tree | None = None) -> str:
        """Run a command with a checkpoint folder to its end, and return what it printed."""
        self.start_with_checkpoint(name, command, CheckpointFolder("ckpt_1", tree))
        self.wait_for_end(name)
        return self.read_log(name)

    def read_checkpoint(self) -> dict[str, bytes]:
        return read_output(self.driver.open_checkpoint("ckpt_1"))

    def wait_until_gone(self, name: str) -> None:
        """Wait for what the place itself removes a moment after a job was deleted; most remove nothing."""
        return

    def make(self, name: str, command: str, **spec) -> Launch:
        return make_launch(name, command, **spec)

    def read_log(self, name: str) -> str:
        return self.driver.read_log(name, 0, 1_000_000).data.decode()

    def report(self, name: str) -> JobReport | None:
        return {report.name: report for report in self.driver.list_jobs()}.get(name)

    def wait_for(self, name: str, *states: ReportState) -> JobReport:
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            report = self.report(name)
            if report is not None and report.state in states:
                return report
            self.driver.wait_for_news(0.02)
        pytest.fail(f"{name} did not become {states} within {DEADLINE_S} s, but is {self.report(name)}")

    def wait_for_log(self, name: str, text: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while self.read_log(name) != text:
            assert time.monotonic() < deadline
            self.driver.wait_for_news(0.02)

    def wait_for_end(self, name: str) -> JobReport:
        return self.wait_for(name, ReportState.SUCCEEDED, ReportState.FAILED, ReportState.LOST)

    def wait_for_gpus(self, name: str) -> JobReport:
        """Wait until it is known what a job sees of GPUs."""
        deadline = time.monotonic() + DEADLINE_S
        while (report := self.report(name)) is None or report.gpus_seen is None:
            assert time.monotonic() < deadline
            self.driver.wait_for_news(0.02)
        return report

    def _start(self, launch: Launch) -> Launch:
        self.driver.start(launch)
        return launch


SEEN = (SeenGpu("GPU-7", 81559 * 2**20),)
"""What a container sees in which `write_smi` has put its program, which prints as that of NVIDIA does."""


def write_smi(folder: Path) -> None:
    """Write a program `nvidia-smi` that lists a GPU that is none."""
    program = folder / "nvidia-smi"
    program.write_text("#!/bin/sh\necho '0, GPU-7, 81559, Disabled'\n")
    program.chmod(0o755)


class PortContract:
    """What a driver that opens ports promises besides. Its place has `start_server`: that returns the port."""

    def test_a_port_on_which_a_job_listens_is_reached_until_the_job_ends(self, place):
        port = place.start_server("serves")
        place.wait_for("serves", ReportState.RUNNING)

        assert wait_for_answer(place.driver, "serves", port).endswith(b"\r\n\r\n42\n")

        place.driver.stop("serves", 1)
        place.wait_for_end("serves")
        with pytest.raises(JobNotRunning):
            asyncio.run(ask(place.driver, "serves", port))

    def test_an_http_client_is_answered_over_a_connection(self, place):
        port = place.start_server("serves")
        place.wait_for("serves", ReportState.RUNNING)
        wait_for_answer(place.driver, "serves", port)
        request = httpcore.Request("GET", f"http://localhost:{port}/answer", headers={"Host": "localhost"})

        async def fetch():
            stream = JobStream(await place.driver.open_port("serves", 0, port))
            async with httpcore.AsyncHTTP11Connection(request.url.origin, stream) as http:
                answer = await http.handle_async_request(request)
                return answer.status, await answer.aread()

        assert asyncio.run(fetch()) == (200, b"42\n")

    def test_a_port_on_which_nothing_listens_is_told(self, place):
        place.start_endless("endless")
        place.wait_for("endless", ReportState.RUNNING)

        with pytest.raises(PortNotOpen, match="Nothing listens on port 1 of the job"):
            asyncio.run(ask(place.driver, "endless", 1))

    def test_a_job_that_there_is_not_has_no_port(self, place):
        with pytest.raises(JobNotRunning):
            asyncio.run(ask(place.driver, "nobody", 1))


class CheckpointContract:
    """What a driver that keeps checkpoint folders promises besides.

    Its place has `store_checkpoint`, after which the stored tree `r1` has a file `steps` of that content.
    """

    def test_the_next_run_finds_what_the_last_one_has_saved_however_it_ended(self, place):
        place.run("train", "echo 900 > $NEARLINE_CHECKPOINT_DIR/steps; kill -9 $$")

        assert place.run("train-2", APPEND.format(1000)) == "900\n"
        assert place.read_checkpoint() == {"steps": b"900\n1000\n"}

    def test_a_job_without_checkpoints_has_no_such_folder(self, place):
        place.start_with_checkpoint("plain", "echo [$NEARLINE_CHECKPOINT_DIR]", None)
        place.wait_for_end("plain")

        assert place.driver.read_log("plain", 0, 100).data == b"[]\n"
        assert "ckpt_1" not in place.driver.list_checkpoints()

    def test_it_goes_on_from_the_stored_tree_and_may_change_it(self, place):
        place.store_checkpoint("stored\n")

        assert place.run("train", APPEND.format("here"), tree=STORED) == "stored\n"
        assert place.read_checkpoint() == {"steps": b"stored\nhere\n"}

    def test_what_was_made_of_the_stored_tree_here_is_not_replaced_by_it(self, place):
        place.store_checkpoint("stored\n")
        place.run("train", APPEND.format("here"), tree=STORED)

        assert place.run("train-2", APPEND.format("again"), tree=STORED) == "stored\nhere\n"

    def test_a_newer_tree_of_another_place_replaces_what_is_here(self, place):
        place.run("train", APPEND.format("here") + "; touch $NEARLINE_CHECKPOINT_DIR/old")
        place.store_checkpoint("elsewhere\n")

        assert place.run("train-2", APPEND.format("back"), tree=STORED) == "elsewhere\n"
        assert place.read_checkpoint() == {"steps": b"elsewhere\nback\n"}

    def test_it_is_deleted_by_its_name(self, place):
        place.run("train", APPEND.format(1))
        assert "ckpt_1" in place.driver.list_checkpoints()

        place.driver.delete_checkpoint("ckpt_1")
        place.driver.delete_checkpoint("ckpt_1")

        assert "ckpt_1" not in place.driver.list_checkpoints()

    def test_a_run_that_still_uses_it_is_ended_before_the_next_one_starts_and_hinders_its_deletion(self, place):
        endless = "trap '' TERM; echo 900 > $NEARLINE_CHECKPOINT_DIR/steps; echo saved; while :; do sleep 0.1; done"
        place.start_with_checkpoint("given-up", endless, CheckpointFolder("ckpt_1"))
        place.wait_for_log("given-up", "saved\n")
        place.driver.delete_checkpoint("ckpt_1")

        with pytest.raises(ResourceUnreachable, match="given-up is being ended"):
            place.start_with_checkpoint("train", APPEND.format(1000), CheckpointFolder("ckpt_1"))
        place.wait_for_end("given-up")

        assert place.run("train", APPEND.format(1000)) == "900\n"


class ReadableCheckpointContract(CheckpointContract):
    """What a driver promises besides whose checkpoint folders can go to another place."""

    def test_a_file_that_there_is_not_cannot_be_read_from_it(self, place):
        place.run("train", APPEND.format(1))

        for path in ("nothing", "steps/nothing", "../steps"):
            with pytest.raises(OSError):
                place.driver.open_checkpoint("ckpt_1").open(path)

    def test_one_that_is_deleted_cannot_be_read(self, place):
        place.run("train", APPEND.format(1))
        place.driver.delete_checkpoint("ckpt_1")

        assert place.driver.open_checkpoint("ckpt_1") is None


STORED = Tree("ds_1", "r1")
APPEND = "cat $NEARLINE_CHECKPOINT_DIR/steps; echo {} >> $NEARLINE_CHECKPOINT_DIR/steps"


# A cluster starts the command first, and tells its terminal the size a moment later; three minutes are given for that.
# Until then one stty says "0 0", another one fails.
HAS_SIZE = """for _ in $(seq 1800); do case "$(stty size 2>&1)" in [1-9]*) break;; esac; sleep 0.1; done; """


class TerminalContract:
    """What a driver promises besides that opens terminals."""

    def test_a_command_has_a_terminal_of_its_own_and_tells_its_exit_code(self, place):
        place.start_endless("endless")
        place.wait_for("endless", ReportState.RUNNING)
        request = TerminalRequest(("sh", "-c", HAS_SIZE + "tty >/dev/null && stty size; exit 7"), columns=77, rows=33)

        assert run_in_terminal(place, "endless", request) == (b"33 77\r\n", 7)

    def test_what_is_typed_reaches_the_command_and_ctrl_c_interrupts_it(self, place):
        place.start_endless("endless")
        place.wait_for("endless", ReportState.RUNNING)
        script = "trap 'echo interrupted; exit 3' INT; read line; echo got $line; while :; do sleep 0.1; done"
        request = TerminalRequest(("sh", "-c", script), columns=80, rows=24)

        async def talk():
            terminal = await place.driver.open_terminal("endless", 0, request)
            try:
                await terminal.send(b"hello\n")
                printed = await read_until(terminal, b"got hello\r\n")
                await terminal.send(b"\x03")
                return printed + await read_until(terminal, b""), terminal.exit_code
            finally:
                await terminal.close()

        printed, exit_code = run_once_it_has_begun(talk)

        assert printed.endswith(b"interrupted\r\n")
        assert exit_code == 3

    def test_a_command_is_told_of_a_new_size(self, place):
        place.start_endless("endless")
        place.wait_for("endless", ReportState.RUNNING)
        script = HAS_SIZE + "trap 'stty size; exit' WINCH; echo begun; while :; do sleep 0.1; done"
        request = TerminalRequest(("sh", "-c", script), columns=80, rows=24)

        async def talk():
            terminal = await place.driver.open_terminal("endless", 0, request)
            try:
                await read_until(terminal, b"begun\r\n")
                await terminal.resize(120, 40)
                return await read_until(terminal, b"")
            finally:
                await terminal.close()

        assert run_once_it_has_begun(talk) == b"40 120\r\n"

    def test_a_terminal_ends_with_its_job(self, place):
        place.start_endless("endless")
        place.wait_for("endless", ReportState.RUNNING)
        request = TerminalRequest(("sh", "-c", "echo begun; exec sleep 600"), columns=80, rows=24)

        async def talk():
            terminal = await place.driver.open_terminal("endless", 0, request)
            try:
                printed = await read_until(terminal, b"begun\r\n")
                await asyncio.to_thread(place.driver.stop, "endless", 1)
                with suppress(ConnectionBroken):
                    printed += await read_until(terminal, b"")
                return printed, terminal.exit_code
            finally:
                await terminal.close()

        printed, exit_code = run_once_it_has_begun(talk)
        place.wait_for_end("endless")

        assert printed == b"begun\r\n"
        assert exit_code != 0
        with pytest.raises(JobNotRunning):
            asyncio.run(place.driver.open_terminal("endless", 0, request))


def run_once_it_has_begun(talk):
    """Run a coroutine, again while the job's command has not begun."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            return asyncio.run(talk())
        except JobNotRunning:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def run_in_terminal(place: Place, name: str, request: TerminalRequest) -> tuple[bytes, int | None]:
    """Run a command to its end, and return what it printed and its exit code."""

    async def talk():
        terminal = await place.driver.open_terminal(name, 0, request)
        try:
            return await read_until(terminal, b""), terminal.exit_code
        finally:
            await terminal.close()

    return run_once_it_has_begun(talk)


async def read_until(terminal: Terminal, end: bytes) -> bytes:
    """Return what a command prints up to some bytes; empty: to its end."""
    printed = b""
    while not end or end not in printed:
        data = await terminal.receive()
        if not data:
            assert not end, printed
            return printed
        printed += data
    return printed


async def ask(driver: OpensPorts, name: str, port: int) -> bytes:
    """Ask a web server in a job for `answer`, and return all that it says."""
    connection = await driver.open_port(name, 0, port)
    try:
        await connection.send(b"GET /answer HTTP/1.0\r\n\r\n")
        answer = b""
        while data := await connection.receive():
            answer += data
        return answer
    finally:
        await connection.close()


def wait_for_answer(driver: OpensPorts, name: str, port: int) -> bytes:
    """Ask until the server listens."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            return asyncio.run(ask(driver, name, port))
        except (PortNotOpen, JobNotRunning):
            assert time.monotonic() < deadline
            time.sleep(0.05)


class GpuContract:
    """What a driver promises besides whose jobs are given GPUs.

    Its place has `start_with_gpu`: a job that runs until it is stopped, was given a GPU, and can see `SEEN`.
    """

    def test_a_job_that_was_given_a_gpu_tells_what_it_sees_while_it_runs_and_after_its_end(self, place):
        place.start_with_gpu("trains")
        running = place.wait_for_gpus("trains")
        place.driver.stop("trains", 1)
        ended = place.wait_for_end("trains")

        assert (running.state, running.gpus_seen.gpus) == (ReportState.RUNNING, SEEN)
        assert ended.gpus_seen == running.gpus_seen


class ComputeDriverContract:
    def test_a_probe_finds_nodes_that_have_something_to_give(self, place):
        nodes = place.driver.probe()

        assert nodes
        assert all(node.cpu_millicores >= 1000 and node.memory_bytes > 0 and node.is_ready for node in nodes)
        assert len({node.name for node in nodes}) == len(nodes)

    def test_a_started_job_is_reported_with_its_token_until_it_succeeds(self, place):
        before = datetime.now(UTC) - timedelta(seconds=1)

        launch = place.start_quick("quick")
        report = place.wait_for_end("quick")

        assert (report.token, report.state, report.exit_code) == (launch.token, ReportState.SUCCEEDED, 0)
        assert before <= report.started_at <= report.finished_at <= datetime.now(UTC)
        assert report.gpus_seen is None

    def test_starting_a_job_again_leaves_the_first_alone(self, place):
        launch = place.start_endless("twice")
        first = place.wait_for("twice", ReportState.RUNNING)

        place.driver.start(replace(launch, token="another-token"))

        assert place.report("twice").token == first.token == launch.token
        assert len(place.driver.list_jobs()) == 1

    def test_an_ended_job_is_not_started_again(self, place):
        launch = place.start_quick("once")
        ended = place.wait_for_end("once")

        place.driver.start(launch)

        assert place.report("once") == ended

    def test_a_forgotten_job_is_not_started_again(self, place):
        launch = place.start_quick("once")
        ended = place.wait_for_end("once")
        place.driver.forget("once")

        place.driver.start(launch)

        assert place.report("once") in {None, ended}

    def test_a_job_that_was_evicted_runs_anew_beside_its_earlier_run(self, place):
        launch = place.start_quick("again")
        first = place.wait_for_end("again")

        place.driver.start(replace(launch, evictions=1, token="second"))

        place.wait_for("again~2", ReportState.RUNNING, ReportState.SUCCEEDED)
        assert {report.token for report in place.driver.list_jobs()} == {launch.token, "second"}
        assert place.report("again") == first
        assert place.driver.open_output("again~2") != place.driver.open_output("again")

    def test_a_running_job_is_found_again_after_a_restart_and_can_be_stopped(self, place):
        launch = place.start_endless("adopted")
        place.wait_for("adopted", ReportState.RUNNING)

        place.restart()
        found = place.wait_for("adopted", ReportState.RUNNING)
        place.driver.stop("adopted", 5)
        report = place.wait_for_end("adopted")

        assert found.token == launch.token
        assert (report.state, report.cause, report.token) == (ReportState.FAILED, EndCause.STOPPED, launch.token)

    def test_a_job_that_ended_while_the_platform_was_away_is_reported_as_ended(self, place):
        place.start_quick("away")
        ended = place.wait_for_end("away")

        place.restart()

        assert place.report("away") == ended

    def test_stopping_a_job_that_does_not_exist_has_no_effect(self, place):
        place.driver.stop("nothing", 1)

        assert place.driver.list_jobs() == []

    def test_stopping_an_ended_job_does_not_change_its_end(self, place):
        place.start_quick("done")
        ended = place.wait_for_end("done")

        place.driver.stop("done", 1)

        assert place.report("done") == ended

    def test_stopping_twice_is_stopping_once(self, place):
        place.start_endless("stopped")
        place.wait_for("stopped", ReportState.RUNNING)

        place.driver.stop("stopped", 5)
        place.driver.stop("stopped", 5)

        assert place.wait_for_end("stopped").cause is EndCause.STOPPED

    def test_a_forgotten_job_is_not_listed_and_keeps_its_log_and_output(self, place):
        place.start_quick("old")
        place.wait_for_end("old")
        log = place.driver.read_log("old", 0, 10_000)

        place.driver.forget("old")
        place.restart()

        assert place.driver.list_jobs() == []
        assert place.driver.read_log("old", 0, 10_000) == log
        assert read_output(place.driver.open_output("old")) == place.left

    def test_a_deleted_job_leaves_nothing_to_read(self, place):
        place.start_quick("old")
        place.wait_for_end("old")
        place.driver.forget("old")

        place.driver.delete("old")

        place.wait_until_gone("old")
        assert place.driver.read_log("old", 0, 10_000).data == b""
        assert place.driver.list_jobs() == []
        with pytest.raises(OSError):
            list(place.driver.open_output("old").list_files())

    def test_deleting_and_forgetting_unknown_jobs_has_no_effect(self, place):
        place.driver.forget("nothing")
        place.driver.delete("nothing")

        assert place.driver.list_jobs() == []

    def test_a_running_job_is_not_deleted(self, place):
        place.start_endless("busy")
        place.wait_for("busy", ReportState.RUNNING)

        place.driver.delete("busy")

        assert place.report("busy").state is ReportState.RUNNING

    def test_a_log_read_piece_by_piece_is_the_whole_log(self, place):
        place.start_quick("talks")
        place.wait_for_end("talks")
        whole = place.driver.read_log("talks", 0, 100_000)

        pieces, offset, is_complete = b"", 0, False
        while not is_complete:
            chunk = place.driver.read_log("talks", offset, 7)
            pieces, offset, is_complete = pieces + chunk.data, chunk.next_offset, chunk.is_complete

        assert whole.data
        assert (pieces, offset, True) == (whole.data, whole.next_offset, whole.is_complete)

    def test_the_log_of_a_running_job_is_not_complete(self, place):
        place.start_endless("talks")
        place.wait_for("talks", ReportState.RUNNING)

        assert not place.driver.read_log("talks", 0, 100_000).is_complete

    def test_an_unknown_job_has_an_empty_log_and_used_nothing(self, place):
        assert place.driver.read_log("nothing", 0, 100).data == b""
        assert place.driver.read_usage("nothing", None) == []

    def test_usage_can_be_read_from_a_moment_on(self, place):
        place.start_quick("busy")
        place.wait_for_end("busy")

        samples = place.driver.read_usage("busy", None)

        assert all(isinstance(sample, UsageSample) for sample in samples)
        assert samples == sorted(samples, key=lambda sample: sample.at)
        for sample in samples:
            assert all(later.at > sample.at for later in place.driver.read_usage("busy", sample.at))

    def test_each_job_has_an_output_of_its_own(self, place):
        place.start_quick("one")
        place.start_endless("two")
        place.wait_for_end("one")

        assert read_output(place.driver.open_output("one")) == place.left
        assert read_output(place.driver.open_output("two")) == {}

    def test_a_file_that_a_job_did_not_leave_cannot_be_opened(self, place):
        place.start_quick("one")
        place.wait_for_end("one")
        output = place.driver.open_output("one")

        for path in ("nothing", "deep", "deep/../empty", "../one/empty", "/etc/passwd", ""):
            with pytest.raises(OSError):
                output.open(path)

    def test_an_output_that_is_on_this_host_is_the_folder_that_it_says(self, place):
        place.start_quick("one")
        place.wait_for_end("one")
        source = place.driver.open_output("one").source

        if source is not None:
            assert {path: (Path(source.path) / path).read_bytes() for path in place.left} == place.left

    def test_a_job_that_mounts_what_the_driver_cannot_is_not_started(self, place):
        for kind in set(SourceKind) - place.driver.mountable:
            with pytest.raises(StartRefused, match="cannot be mounted"):
                place.driver.start(make_launch("mounts", data=[Mount("digits", SOURCES[kind])]))

        assert place.driver.list_jobs() == []

    def test_the_end_of_a_job_wakes_who_waits_for_news(self, place):
        place.start_endless("ends")
        place.wait_for("ends", ReportState.RUNNING)
        while place.driver.wait_for_news(0):
            pass
        woken = []
        waiter = threading.Thread(target=lambda: woken.append(place.driver.wait_for_news(DEADLINE_S)))
        waiter.start()

        place.driver.stop("ends", 5)
        waiter.join(DEADLINE_S)

        assert woken == [True]

    def test_waiting_without_news_ends_in_time(self, place):
        assert place.driver.wait_for_news(0.01) is False

    def test_many_jobs_are_each_reported_once(self, place):
        names = [f"job-{number}" for number in range(10)]

        for name in names:
            place.start_quick(name)
        for name in names:
            place.wait_for_end(name)

        assert sorted(report.name for report in place.driver.list_jobs()) == names
