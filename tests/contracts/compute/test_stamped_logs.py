"""Logs of pods by offsets, out of an API that knows only time stamps."""

from datetime import UTC, datetime

import pytest

from compute.adapters import stamped_logs
from compute.adapters.stamped_logs import StampedLogs
from compute.errors import ResourceUnreachable
from core.kubernetes.gateway import Refusal


class Pods:
    """A gateway that has one log."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, bytes]] = []
        self.since: list[str | None] = []
        self.refusal: Refusal | None = None

    def print(self, second: int, text: bytes, fraction: int = 0) -> None:
        self.lines.append((f"2026-11-21T12:00:{second:02}.{fraction:09}Z", text))

    def stream(self, path, read_s, **query):
        since = query.get("sinceTime")
        self.since.append(since)
        if self.refusal is not None:
            raise self.refusal
        whole = b"".join(
            f"{stamp} ".encode() + text for stamp, text in self.lines if since is None or stamp[:19] >= since[:19]
        )
        for start in range(0, len(whole), 7):
            yield whole[start : start + 7]


@pytest.fixture
def pods():
    return Pods()


@pytest.fixture
def logs(pods, tmp_path):
    return StampedLogs(tmp_path, pods)


def fetch(logs, *, has_ended=False, secrets=()):
    logs.fetch("a", "/log", lambda: list(secrets), has_ended=has_ended)
    return logs.read("a", 0, 1000).data


def test_a_log_is_read_on_where_it_was_left(logs, pods):
    pods.print(1, b"one\n")
    assert fetch(logs) == b"one\n"

    pods.print(1, b"two\n", fraction=5)
    pods.print(2, b"three\n")

    assert fetch(logs) == b"one\ntwo\nthree\n"
    assert pods.since == [None, "2026-11-21T12:00:01Z"]


def test_what_is_not_to_be_shown_is_asked_for_once_and_only_where_there_are_lines(logs, pods):
    asked = []

    def read_secrets():
        asked.append("secrets")
        return [b"hunter22"]

    logs.fetch("a", "/log", read_secrets, has_ended=False)
    assert asked == []

    pods.print(1, b"hunter22\n")
    pods.print(2, b"again hunter22\n")
    logs.fetch("a", "/log", read_secrets, has_ended=True)

    assert logs.read("a", 0, 1000).data == b"***\nagain ***\n"
    assert asked == ["secrets"]


def test_lines_with_the_same_time_stamp_are_each_read_once(logs, pods):
    pods.print(1, b"a\n")
    pods.print(1, b"b\n")
    fetch(logs)
    pods.print(1, b"c\n")
    fetch(logs)

    assert fetch(logs) == b"a\nb\nc\n"


def test_half_a_line_is_read_once_it_is_whole_or_the_last(logs, pods):
    pods.print(1, b"one\n")
    pods.print(2, b"half")

    assert fetch(logs) == b"one\n"
    assert fetch(logs, has_ended=True) == b"one\nhalf"


def test_a_log_is_complete_once_it_was_read_after_the_end(logs, pods):
    pods.print(1, b"one\n")
    fetch(logs)
    assert not logs.is_complete("a")

    fetch(logs, has_ended=True)
    fetch(logs, has_ended=True)

    assert logs.is_complete("a")
    assert len(pods.since) == 2


def test_what_is_known_is_not_the_end_while_somebody_else_reads_that(logs, pods, monkeypatch):
    monkeypatch.setattr(stamped_logs, "_OTHER_ENDS_S", 0)
    pods.print(1, b"one\n")
    fetch(logs)
    pods.print(2, b"two\n")

    with logs._lock("a", wait_s=0):
        assert fetch(logs) == b"one\n"
        with pytest.raises(ResourceUnreachable):
            fetch(logs, has_ended=True)

    assert fetch(logs, has_ended=True) == b"one\ntwo\n"


def test_secrets_are_masked(logs, pods):
    pods.print(1, b"the key is hunter22\n")

    assert fetch(logs, secrets=[b"hunter22"]) == b"the key is ***\n"


def test_what_a_node_says_in_place_of_a_log_is_not_the_log(logs, pods):
    pods.lines = [("unable to retrieve container logs", b" for containerd://1\n")]

    assert fetch(logs, has_ended=True) == b""


def test_a_container_that_has_not_started_has_no_log_yet(logs, pods):
    pods.refusal = Refusal(400, "BadRequest", "is waiting to start")

    assert fetch(logs) == b""
    assert not logs.is_complete("a")


def test_what_was_written_when_the_platform_died_is_written_once(logs, pods, tmp_path):
    pods.print(1, b"one\n")
    fetch(logs)
    with (tmp_path / "a.log").open("ab") as file:
        file.write(b"two, but its place was not noted\n")
    pods.print(2, b"two\n")

    assert fetch(logs) == b"one\ntwo\n"


def test_a_removed_log_is_empty(logs, pods):
    pods.print(1, b"one\n")
    fetch(logs)

    logs.remove("a")

    assert logs.read("a", 0, 10).data == b""


def fetch_parts(logs, replicas, *, has_ended=False):
    for name, replica in replicas.items():
        StampedLogs(logs._folder, replica).fetch(name, "/log", list, has_ended=has_ended, is_part=True)


def test_the_logs_of_replicas_are_one_log_in_the_order_of_time_whoever_joins_it(logs, tmp_path):
    replicas = {"ring": Pods(), "ring-1": Pods()}
    replicas["ring"].print(1, b"a\n")
    replicas["ring-1"].print(2, b"b\n")
    replicas["ring"].print(30, b"c\n")
    fetch_parts(logs, replicas)
    logs.join("ring", list(replicas), now=datetime(2026, 11, 21, 12, 0, 30, tzinfo=UTC))

    # Who has printed at the same second may not have been read yet.
    assert logs.read("ring", 0, 1000).data == b"a\n[1] b\n"

    replicas["ring-1"].print(29, b"d")
    fetch_parts(logs, replicas, has_ended=True)
    other = StampedLogs(tmp_path / "other", Pods())
    other._folder.mkdir()
    fetch_parts(other, replicas, has_ended=True)
    for each in (logs, other):
        each.join("ring", list(replicas), now=datetime(2026, 11, 21, 12, 1, tzinfo=UTC))

    chunk = logs.read("ring", 0, 1000)
    assert (chunk.data, chunk.is_complete) == (b"a\n[1] b\n[1] d\nc\n", True)
    assert other.read("ring", 0, 1000) == chunk

    logs.remove("ring")
    assert list(tmp_path.glob("*.log*")) == []


def test_the_log_of_a_gang_that_has_ended_is_not_read_while_somebody_else_joins_it(logs, monkeypatch):
    monkeypatch.setattr(stamped_logs, "_OTHER_ENDS_S", 0)
    replicas = {"ring": Pods(), "ring-1": Pods()}
    for replica in replicas.values():
        replica.print(1, b"a\n")
    now = datetime(2026, 11, 21, 12, 1, tzinfo=UTC)

    fetch_parts(logs, replicas)
    with logs._lock("ring", wait_s=0):
        logs.join("ring", list(replicas), now=now)
        fetch_parts(logs, replicas, has_ended=True)
        with pytest.raises(ResourceUnreachable):
            logs.join("ring", list(replicas), now=now)
    logs.join("ring", list(replicas), now=now)

    assert logs.read("ring", 0, 1000).data == b"a\n[1] a\n"
