"""`python -m nearline.hydrate URL TARGET`: a commit comes into a folder, and a call that ended early is repeated."""

import json

import httpx
import pytest

from client.tests.cli.dataset_server import DatasetServer
from client.tests.loopback import Answer, serve
from client.tests.transfer.folders import Folder
from nearline.cli import hydrate as program
from nearline.errors import Denied

FILES = {"a.txt": b"one", "sub/b.txt": b"two", "sub/empty": b""}


@pytest.fixture
def dataset(tmp_path):
    """The dataset `team/digits` behind its API, with one commit."""
    server = DatasetServer(tmp_path / "server")
    Folder(tmp_path / "source", server.store).write(FILES).sync()
    return server


@pytest.fixture
def url(dataset):
    def answer(request):
        address = f"http://server{request.target}"
        said = dataset(httpx.Request(request.method, address, headers=request.headers, content=request.body))
        return Answer(said.status_code, said.content)

    with serve(answer) as running:
        yield f"{running.url}/api/v1/datasets/team/digits/commits/main"


@pytest.fixture(autouse=True)
def _token(monkeypatch):
    monkeypatch.setenv("POD_TOKEN", "secret")


@pytest.fixture
def target(tmp_path):
    return tmp_path / "target"


def run(url, target, *more):
    return program.main([url, str(target), "--token-env", "POD_TOKEN", *more])


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_commit_comes_into_a_folder_and_nothing_else_is_left_there(dataset, url, target, capsys):
    assert run(url, target, "--json") == 0

    assert contents(target) == FILES
    assert sorted(path.name for path in target.iterdir()) == ["a.txt", "sub"]
    assert json.loads(capsys.readouterr().out) == {
        "commit_id": dataset.store.commits[0]["id"],
        "target": str(target),
        "files": 3,
        "size_bytes": 6,
        "bytes_moved": 6,
    }


def test_it_says_on_stderr_what_was_done(dataset, url, target, capsys):
    assert run(url, target) == 0

    said = capsys.readouterr()
    short = dataset.store.commits[0]["short"]
    assert (said.out, said.err) == ("", f"✔ team/digits at {short} is in {target}: 3 files, 6 B.\n")


def test_a_second_call_reads_no_pack(dataset, url, target, capsys):
    run(url, target, "--quiet")
    capsys.readouterr()

    assert run(url, target, "--json") == 0

    assert json.loads(capsys.readouterr().out)["bytes_moved"] == 0


def test_a_call_that_ended_early_is_completed_and_half_a_file_is_replaced(dataset, url, target):
    dataset.store.fail("get", None, None, *[Denied("No.", code="test.no") for _ in range(50)])
    assert run(url, target) == 4
    dataset.store.before.clear()
    (target / "a.txt").write_bytes(b"on")

    assert run(url, target) == 0

    assert contents(target) == FILES


def test_a_call_that_was_killed_while_it_wrote_its_marker_has_begun_nothing(dataset, url, target):
    (target / ".nearline").mkdir(parents=True)
    (target / ".nearline/hydration.new").write_text("")
    dataset.store.fail("get", None, None, *[Denied("No.", code="test.no") for _ in range(50)])
    assert run(url, target) == 4
    dataset.store.before.clear()
    (target / "a.txt").write_bytes(b"on")

    assert run(url, target) == 0

    assert contents(target) == FILES


def test_a_folder_that_holds_a_part_of_another_commit_is_refused(dataset, url, target, capsys):
    (target / ".nearline").mkdir(parents=True)
    (target / ".nearline/hydration").write_bytes(b"another\xff")

    assert run(url, target) == 5

    assert "holds a part of another commit" in capsys.readouterr().err
    assert contents(target) == {".nearline/hydration": b"another\xff"}


def test_a_file_that_someone_else_put_there_is_not_replaced(url, target, capsys):
    target.mkdir()
    (target / "a.txt").write_bytes(b"mine")

    assert run(url, target) == 5

    assert "'{}' is there already".format(target / "a.txt") in capsys.readouterr().err
    assert (target / "a.txt").read_bytes() == b"mine"


def test_a_fresh_file_system_counts_as_empty(url, target):
    (target / "lost+found").mkdir(parents=True)

    assert run(url, target) == 0

    assert contents(target) == FILES


def test_it_can_be_left_read_only(url, target):
    assert run(url, target, "--read-only") == 0

    assert [path.stat().st_mode & 0o777 for path in (target, target / "sub", target / "a.txt")] == [0o555, 0o555, 0o444]


def test_without_a_token_nothing_is_asked(url, target, monkeypatch, capsys):
    monkeypatch.delenv("POD_TOKEN")

    assert run(url, target) == 4

    assert "POD_TOKEN" in capsys.readouterr().err
    assert not target.exists()


def test_a_commit_that_does_not_exist_is_not_found(url, target, capsys):
    assert run(url.replace("main", "nowhere"), target, "--json") == 3

    assert json.loads(capsys.readouterr().err)["code"] == "client.not_found"
    assert not target.exists()


def test_damage_in_the_store_is_told_and_reported(dataset, url, target, capsys):
    (pack,) = dataset.store.object_path("pack", "").iterdir()
    pack.write_bytes(b"x" * pack.stat().st_size)

    assert run(url, target, "--json") == 1

    assert json.loads(capsys.readouterr().err)["code"] == "client.damaged"
    assert [found.name for found in dataset.store.list_damaged_packs()] == [pack.name]


def test_what_is_no_address_is_a_usage_error(target):
    assert run("team/digits", target) == 2
