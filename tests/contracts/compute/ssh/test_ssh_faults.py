"""A host that is somebody else, that goes away, that is full, that says much at once: what is told, and what goes on."""

import socket
import subprocess
import threading
import time
from pathlib import Path

import asyncssh
import pytest

from compute.adapters.ssh.connection import Host, HostConnection, find_host_key
from compute.adapters.ssh.program import build_program
from compute.engine.job_spec import Mount, Tree
from compute.engine.ports import ReportState
from compute.errors import ResourceUnreachable, StartRefused
from core.breaker import Breaker
from tests.contracts.compute_driver import read_output


def refusal_of(host) -> ResourceUnreachable:
    connection = HostConnection(host)
    with pytest.raises(ResourceUnreachable) as raised:
        connection.call("probe")
    connection.close()
    return raised.value


def test_a_key_that_the_host_does_not_know_is_refused_and_the_line_that_lets_it_in_is_told(sshd):
    error = refusal_of(sshd.describe(private_key=(sshd.folder / "other").read_text()))

    kind, key, _ = (sshd.folder / "other.pub").read_text().split()
    assert f"{kind} {key}" in error.message
    assert "authorized_keys" in error.message
    assert error.details == {"field": "private_key"}
    assert list(sshd.home.iterdir()) == []


def test_nothing_is_sent_to_a_host_that_shows_another_key_than_the_known_one(sshd):
    error = refusal_of(sshd.describe(known_host=sshd.known_host_of("other")))

    assert (error.code, "shows another key than the known one" in error.message) == ("compute.host_key_changed", True)
    assert error.details == {"field": "known_host"}
    assert list(sshd.home.iterdir()) == []


def test_the_key_of_a_host_that_nobody_has_confirmed_is_told_with_its_fingerprint(sshd):
    error = find_host_key(sshd.describe(known_host=""))

    printed = subprocess.run(
        ["ssh-keygen", "-lf", sshd.folder / "host.pub"], capture_output=True, text=True, check=True
    )
    assert error.details["fingerprint"] == printed.stdout.split()[1]
    assert error.details["known_host"] == sshd.known_host
    assert sshd.known_host in error.message
    assert HostConnection(sshd.describe(known_host=error.details["known_host"])).call("list_jobs") == []


def test_a_python_that_is_not_there_is_named(sshd):
    error = refusal_of(sshd.describe(python="/opt/python3.99"))

    assert "does not run on" in error.message
    assert "/opt/python3.99" in error.message


def test_a_login_that_prints_something_and_a_program_that_was_cut_short_do_no_harm(sshd):
    (sshd.home / ".bashrc").write_text("echo Welcome to the lab\n")
    program = sshd.home / ".cache/nearline" / f"{build_program().digest}.pyz"
    program.parent.mkdir(parents=True)
    program.write_bytes(build_program().data[:1000])

    assert HostConnection(sshd.describe()).call("list_jobs") == []

    assert program.read_bytes() == build_program().data
    assert [path.name for path in program.parent.iterdir()] == [program.name]


def test_a_log_is_read_on_where_the_connection_was_cut(place):
    place.start("talks", "seq 1 50000")
    place.wait_for_end("talks")
    pieces, offset, is_complete = b"", 0, False

    while not is_complete:
        chunk = place.driver.read_log("talks", offset, 100_000)
        pieces, offset, is_complete = pieces + chunk.data, chunk.next_offset, chunk.is_complete
        place.sshd.cut_connections()

    assert pieces == "".join(f"{number}\n" for number in range(1, 50_001)).encode()
    assert place.connection.opened > 2


def test_a_connection_that_was_cut_is_replaced_though_its_end_has_not_been_read(place, monkeypatch):
    place.driver.list_jobs()
    first = place.connection._session
    ends = type(first).is_open.fget
    monkeypatch.setattr(type(first), "is_open", property(lambda session: session is first or ends(session)))

    place.sshd.cut_connections()

    assert place.driver.list_jobs() == []
    assert place.connection.opened == 2


def test_a_line_of_megabytes_is_read_whole(place):
    place.start("long", "head -c 6000000 /dev/zero | tr '\\0' x")
    place.wait_for_end("long")

    pieces, offset, is_complete = b"", 0, False
    while not is_complete:
        chunk = place.driver.read_log("long", offset, 10**8)
        pieces, offset, is_complete = pieces + chunk.data, chunk.next_offset, chunk.is_complete

    assert pieces == b"x" * 6_000_000


def test_a_job_goes_on_while_its_host_cannot_be_reached_and_is_adopted_when_it_can(place):
    launch = place.start("adopted", "while ! [ -e go ]; do sleep 0.05; done; echo 1 > $NEARLINE_OUTPUT/a")
    place.wait_for("adopted", ReportState.RUNNING)

    place.sshd.kill()
    with pytest.raises(ResourceUnreachable):
        place.driver.list_jobs()
    (place.jobs / "adopted" / "work" / "go").touch()
    place.wait_until((place.jobs / "adopted" / "exit.json").exists)
    place.sshd.start()
    place.restart()
    report = place.report("adopted")

    assert (report.state, report.token) == (ReportState.SUCCEEDED, launch.token)
    assert read_output(place.driver.open_output("adopted")) == {"a": b"1\n"}


def test_a_job_whose_code_was_being_brought_starts_although_the_connection_is_cut(place, tmp_path):
    place.platform.fault = 503
    place.start("brings", "cat $NEARLINE_DATA/digits/labels", data=[Mount("digits", Tree("ds_1", "r1"))])
    place.wait_for("brings", ReportState.STARTING)

    place.sshd.cut_connections()
    (tmp_path / "digits").mkdir()
    (tmp_path / "digits/labels").write_text("zero")
    place.platform.trees["data/digits"] = tmp_path / "digits"
    place.platform.fault = 0

    assert place.wait_for_end("brings").state is ReportState.SUCCEEDED
    assert place.read_log("brings") == "zero"


def test_a_job_whose_supervisor_was_killed_is_lost_and_not_failed(place):
    place.start_endless("orphan")
    place.wait_for("orphan", ReportState.RUNNING)

    place.kill_shim("orphan")

    report = place.wait_for_end("orphan")
    assert (report.state, report.exit_code) == (ReportState.LOST, None)


def test_a_host_that_does_not_answer_is_asked_less_and_less_often():
    now = [0.0]
    accepted = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                accepted.append(now[0])
                connection.close()

        threading.Thread(target=hang_up, daemon=True).start()
        breaker = Breaker(ResourceUnreachable, longest_s=30, now=lambda: now[0])
        connection = make_connection(listener.getsockname()[1], breaker)

        for second in range(16):
            now[0] = float(second)
            with pytest.raises(ResourceUnreachable, match=r"127\.0\.0\.1"):
                connection.call("list_jobs")
        listener.shutdown(socket.SHUT_RDWR)

    assert accepted == [0, 1, 2, 4, 8]


def test_nobody_but_its_attendant_waits_for_a_host_that_accepts_and_says_nothing():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        breaker = Breaker(ResourceUnreachable, longest_s=30)
        connection = make_connection(silent.getsockname()[1], breaker, is_attended=True)
        with pytest.raises(ResourceUnreachable, match="does not answer in time"):
            connection.call("list_jobs")

        begun = time.monotonic()
        for _ in range(100):
            with pytest.raises(ResourceUnreachable, match="does not answer in time"):
                connection.call("list_jobs")

        assert time.monotonic() - begun < 30  # 100 that wait would take minutes


def test_the_attendant_notices_that_the_host_answers_again(place):
    place.connection.close()
    place.use_attended()
    place.sshd.kill()
    for _ in range(2):
        with pytest.raises(ResourceUnreachable):
            place.driver.list_jobs()

    place.sshd.start()

    place.wait_until(place.answers)
    assert place.driver.list_jobs() == []


def make_connection(port: int, breaker: Breaker, **options) -> HostConnection:
    key = asyncssh.generate_private_key("ssh-ed25519")
    line = f"[127.0.0.1]:{port} {key.export_public_key().decode()}"
    return HostConnection(Host("a", "127.0.0.1", port, key.export_private_key().decode(), line), breaker, **options)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 4 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder: Path) -> None:
    with (folder / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


def test_a_host_that_is_full_says_so_and_takes_jobs_again_once_it_is_not(small_disk, place):
    place.use_folder(small_disk / "nearline")
    place.start_quick("before")
    place.wait_for_end("before")
    fill(small_disk)

    with pytest.raises((ResourceUnreachable, StartRefused), match="No space left on device"):
        place.start_quick("refused")
    assert place.report("before").state is ReportState.SUCCEEDED

    (small_disk / "filler").unlink()
    place.start_quick("after")
    assert place.wait_for_end("after").state is ReportState.SUCCEEDED


def test_a_host_without_space_for_our_program_says_so(sshd, small_disk):
    fill(small_disk)
    (sshd.home / ".cache").symlink_to(small_disk)

    error = refusal_of(sshd.describe())

    assert "does not take Nearline's program" in error.message
    assert "No space left on device" in error.message
