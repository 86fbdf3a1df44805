"""The folder's own folder: link, state and lock."""

import json
from dataclasses import asdict, replace

import pytest

from client.tests.transfer.folders import LINK
from nearline.errors import TAKEN_HINT, Conflict, Failed
from nearline.transfer.local.workspace import State, Workspace
from nearline.transfer.progress import Meter

LINKED = asdict(LINK)
RELINK_HINT = "Link it again: `nearline data set --url PROJECT/NAME`."


def test_a_linked_folder_is_found_from_any_depth(tmp_path):
    Workspace.create(tmp_path, LINK)
    (tmp_path / "a" / "b").mkdir(parents=True)

    found = Workspace.find(tmp_path / "a" / "b")

    assert found.root == tmp_path
    assert found.link == LINK
    assert Workspace.find(tmp_path.parent) is None


def test_linking_again_keeps_the_state_and_linking_elsewhere_drops_it(tmp_path):
    workspace = Workspace.create(tmp_path, LINK)
    workspace.write_state(State("c" * 64, "d" * 64))

    Workspace.create(tmp_path, LINK)
    kept = workspace.state
    workspace.switch_branch("other")
    switched = workspace.state
    Workspace.create(tmp_path, replace(LINK, dataset="renamed"), lambda commit: commit == "c" * 64)
    renamed = workspace.state
    Workspace.create(tmp_path, replace(LINK, dataset="another"))

    assert kept == switched == renamed == State("c" * 64, "d" * 64)
    assert workspace.state == State()


def test_the_lock_is_exclusive_and_ends_with_its_holder(tmp_path):
    workspace = Workspace.create(tmp_path, LINK)

    with workspace.lock(), pytest.raises(Conflict, match="Another sync is running"), Workspace(tmp_path).lock():
        pass

    with workspace.lock():
        pass


def test_a_folder_that_cannot_be_written_says_what_to_do(tmp_path):
    workspace = Workspace.create(tmp_path, LINK)
    (tmp_path / ".nearline" / "lock").mkdir()

    with (
        pytest.raises(Failed, match=f"Cannot write '{workspace.home}/lock': Is a directory") as refused,
        workspace.lock(),
    ):
        pass

    assert refused.value.hint == TAKEN_HINT


def test_leftovers_of_a_killed_transfer_are_swept_away(tmp_path):
    workspace = Workspace.create(tmp_path, LINK)
    (workspace.temporary / "1-2").write_bytes(b"half a file")

    with workspace.lock():
        assert list(workspace.temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is not JSON"),
        (b"{", "it is not JSON"),
        (b"\xff\xfe", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"[]", "it is no JSON object"),
        (b"{}", "'project' is missing"),
        (json.dumps({**LINKED, "url": 5}).encode(), "'url' is no text"),
        (json.dumps({**LINKED, "project": None}).encode(), "'project' is missing"),
        (json.dumps({**LINKED, "dataset": {"name": "a"}}).encode(), "'dataset' is no text"),
        (json.dumps({**LINKED, "branch": ["main"]}).encode(), "'branch' is no text"),
        (json.dumps({**LINKED, "branch": ""}).encode(), "'branch' is not valid"),
        (json.dumps({**LINKED, "project": "../other"}).encode(), "'project' is not valid"),
        (json.dumps({**LINKED, "url": "server"}).encode(), "'url' is not valid"),
    ],
)
def test_a_damaged_link_names_file_and_key_and_a_new_link_replaces_it(tmp_path, content, reason):
    workspace = Workspace.create(tmp_path, LINK)
    (workspace.home / "config.json").write_bytes(content)

    with pytest.raises(Failed) as refused:
        _ = workspace.link

    assert refused.value.message == f"'{workspace.home}/config.json' cannot be read: {reason}."
    assert (refused.value.code, refused.value.hint) == ("client.local_file", RELINK_HINT)
    assert Workspace.create(tmp_path, LINK).link == LINK


def test_a_folder_in_place_of_the_link_is_named(tmp_path):
    workspace = Workspace.create(tmp_path, LINK)
    (workspace.home / "config.json").unlink()
    (workspace.home / "config.json").mkdir()

    with pytest.raises(Failed) as refused:
        _ = Workspace.find(tmp_path).link

    assert refused.value.message == f"'{workspace.home}/config.json' cannot be read: Is a directory."
    assert refused.value.hint == TAKEN_HINT


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"commit": 5}, "'commit' is no text"),
        ({"commit": "../a"}, "'commit' is not valid"),
        ({"root": ["a"]}, "'root' is no text"),
        ({"root": "/home/mine"}, "'root' is not valid"),
    ],
)
def test_a_damaged_state_names_file_and_key(tmp_path, state, reason):
    workspace = Workspace.create(tmp_path, LINK)
    (workspace.home / "state.json").write_text(json.dumps(state))

    with pytest.raises(Failed) as refused:
        _ = workspace.state

    assert refused.value.message == f"'{workspace.home}/state.json' cannot be read: {reason}."
    assert refused.value.hint == RELINK_HINT


@pytest.mark.parametrize(("name", "commit"), [("config.json", "12" * 32), ("state.json", None)])
def test_what_is_damaged_is_replaced_by_a_new_link(tmp_path, name, commit):
    workspace = Workspace.create(tmp_path, LINK)
    workspace.write_state(State("12" * 32, "ab" * 32))
    (workspace.home / name).write_bytes(b"{")

    linked = Workspace.create(tmp_path, LINK, lambda known: known == "12" * 32)

    assert (linked.link, linked.state.commit) == (LINK, commit)


def test_a_meter_counts_and_estimates():
    told, now = [], [0.0]
    meter = Meter(told.append, "Uploading", files_total=4, bytes_total=400, clock=lambda: now[0])

    for second in range(1, 4):
        now[0] = float(second)
        meter.add(files=1, size_bytes=100)

    last = told[-1]
    assert (last.phase, last.files_done, last.files_total) == ("Uploading", 3, 4)
    assert (last.bytes_done, last.bytes_total, last.rate_bytes_s, last.eta_s) == (300, 400, 100.0, 1.0)


def test_a_meter_tells_at_most_ten_times_a_second_and_always_the_end():
    told = []
    meter = Meter(told.append, "Uploading", clock=lambda: 0.0)

    for _ in range(100):
        meter.add(files=1)
    meter.finish()

    assert [moment.files_done for moment in told] == [1, 100]
