"""`alias cnvrg='nearline --cnvrg'`: the commands of cnvrg that mean something else here, and what is refused."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from client.tests.cli.answers import cached, page
from client.tests.cli.conftest import Cli, connect
from client.tests.cli.dataset_server import DatasetServer
from nearline.cli.commands.data.presence import wait_until_here
from nearline.cli.main import app
from nearline.cli.session import Session
from nearline.transfer.local.workspace import Link, State, Workspace

ALL = ["a/1.png", "a/2.png", "b.txt"]


@pytest.fixture
def dataset(tmp_path) -> DatasetServer:
    return DatasetServer(tmp_path / "server")


@pytest.fixture
def nearline(dataset, here) -> Cli:
    return connect(dataset)


@pytest.fixture
def cnvrg(nearline) -> Cli:
    return lambda *arguments: nearline("--cnvrg", *arguments)


@pytest.fixture
def linked(dataset, here, nearline) -> Path:
    """A folder with two pictures and a text, synced once."""
    for path in ALL:
        (here / path).parent.mkdir(exist_ok=True)
        (here / path).write_text(path)
    nearline("data", "link", "team/digits")
    assert nearline("data", "sync").exit_code == 0
    return here


def files_of(dataset: DatasetServer) -> list[str]:
    return sorted(os.fsdecode(path) for path in dataset.store.tree())


def make_clone(root: Path, *, commit: str | None = None) -> Path:
    made = Workspace.create(root, Link("http://127.0.0.1:8000", "team", root.name, "main"))
    if commit:
        made.write_state(State(commit, "ef" * 32))
    return root


@pytest.mark.parametrize(
    ("pattern", "left"),
    [
        (r".*\.png", ["b.txt"]),
        (r"a/\d\.png", ["b.txt"]),
        (r"^a/1\.png$|b.txt", ["a/2.png"]),
        ("a/", ["b.txt"]),
        ("a/*", ["b.txt"]),
        ("b.txt", ["a/1.png", "a/2.png"]),
    ],
)
def test_rm_takes_regular_expressions_for_whole_paths(cnvrg, dataset, linked, pattern, left):
    assert cnvrg("data", "rm", "team/digits", pattern).exit_code == 0

    assert files_of(dataset) == left


def test_rm_removes_what_any_of_several_expressions_matches_as_one_commit(cnvrg, dataset, linked):
    cnvrg("data", "rm", "team/digits", "a/1.*", ".*2.png", "-m", "less")

    assert files_of(dataset) == ["b.txt"]
    assert [commit["message"] for commit in dataset.store.commits] == ["", "less"]


@pytest.mark.parametrize("pattern", ["png", "a", "1", "(a+)+b"])
def test_what_matches_only_a_part_of_a_path_removes_nothing(cnvrg, dataset, linked, pattern):
    done = cnvrg("data", "rm", "team/digits", pattern)

    assert done.exit_code == 3
    assert "hint: A regular expression must match the whole path" in done.stderr
    assert files_of(dataset) == ALL


@pytest.mark.parametrize("pattern", ["*.png", "(", "(?=a)"])
def test_what_is_no_expression_removes_nothing(cnvrg, dataset, linked, pattern):
    done = cnvrg("data", "rm", "team/digits", "b.txt", pattern)

    assert done.exit_code == 2
    assert f"'{pattern}' is no regular expression that can be used." in done.stderr
    assert files_of(dataset) == ALL


def test_without_the_alias_patterns_are_regular_expressions_only_where_that_is_said(nearline, dataset, linked):
    refused = nearline("data", "rm", "team/digits", r".*\.png")
    done = nearline("data", "rm", "team/digits", r".*\.png", "--regex")

    assert refused.exit_code == 3
    assert "with --regex they are regular expressions" in refused.stderr
    assert done.exit_code == 0
    assert files_of(dataset) == ["b.txt"]


def test_a_link_of_that_name_to_the_program_is_the_alias_too(here):
    done = CliRunner().invoke(app, ["data", "scan"], obj=Session(), prog_name="cnvrg")

    assert json.loads(done.stdout) == {"items": [], "next_cursor": None}


def test_scan_lists_linked_folders_and_looks_into_none_of_them(cnvrg, nearline, here):
    make_clone(here / "x" / "y" / "deep", commit="cd" * 32)
    make_clone(here / "digits")
    make_clone(here / "digits" / "inside")
    make_clone(here / "x" / "y" / "z" / "too-deep")
    (here / "around").symlink_to(here)

    shown = json.loads(cnvrg("data", "scan").stdout)["items"]

    assert [(item["dataset"], item["commit"], item["folder"]) for item in shown] == [
        ("team/digits", None, str(here / "digits")),
        ("team/deep", "cd" * 32, str(here / "x" / "y" / "deep")),
    ]
    assert nearline("data", "scan", "--quiet").stdout == "team/digits\nteam/deep\n"


def test_a_link_that_cannot_be_read_hides_no_other(cnvrg, here):
    make_clone(here / "bad")
    (here / "bad" / ".nearline" / "config.json").write_text("{")
    make_clone(here / "good")

    done = cnvrg("data", "scan")

    assert [item["dataset"] for item in json.loads(done.stdout)["items"]] == ["team/good"]
    assert "bad/.nearline/config.json' cannot be read: it is not JSON." in done.stderr


@pytest.mark.parametrize("command", [("data", "block", "whole", "half"), ("dataset", "verify", "-n", "whole, half")])
def test_block_gives_up_on_a_clone_that_is_not_whole(cnvrg, here, command):
    make_clone(here / "whole", commit="cd" * 32)
    make_clone(here / "half")

    done = cnvrg(*command, "-t", "0")

    assert done.exit_code == 1
    assert "✗ Not here after 0 s: half." in done.stderr


def test_block_ends_as_soon_as_the_last_clone_is_whole(here):
    half = make_clone(here / "half")
    pauses = []

    def go_on(pause_s: float) -> None:
        pauses.append(pause_s)
        if len(pauses) == 2:
            make_clone(half, commit="cd" * 32)

    wait_until_here(Session(), [Path("half")], timeout_s=None, sleep=go_on)

    assert len(pauses) == 2


def test_inputs_of_a_job_are_here(cnvrg, here, monkeypatch):
    (here / "data" / "digits").mkdir(parents=True)
    monkeypatch.setenv("NEARLINE_DATA", str(here / "data"))

    done = cnvrg("data", "block", "digits")

    assert (done.exit_code, done.stderr) == (0, "✔ Here: digits.\n")


def test_a_folder_without_a_link_is_not_waited_for(cnvrg, here):
    (here / "plain").mkdir()
    (here / "plain" / "file").touch()

    done = cnvrg("data", "block", "plain")

    assert done.exit_code == 1
    assert "'plain' is linked to no dataset, so nothing says whether it is whole." in done.stderr


def test_verify_with_a_timeout_waits_for_the_clone_first(cnvrg, linked):
    make_clone(linked.parent / "half")

    assert "All 3 files are those of" in cnvrg("data", "verify", "-t", "0").stderr
    assert "Not here after 0 s" in cnvrg("data", "verify", "../half", "-t", "0").stderr


def test_set_links_the_folder_to_another_dataset(cnvrg, linked):
    make_clone(linked, commit="cd" * 32)  # now it follows team/here

    done = cnvrg("data", "set", "--url", "http://127.0.0.1:8000/datasets/team/digits")

    assert done.stdout.splitlines()[0] == "Dataset:  team/digits"
    assert Workspace(linked).state == State()
    assert sorted(path.name for path in linked.iterdir()) == [".nearline", "a", "b.txt"]


DELETED = "Deleted:           team/digits\nRestorable until:  2026-11-30 10:00 UTC\n"


def test_delete_says_what_is_lost_and_needs_a_yes(cnvrg, dataset, linked):
    asked = cnvrg("data", "delete", "team/digits")
    is_left = dataset.exists
    done = cnvrg("data", "delete", "team/digits", "--yes")

    assert (asked.exit_code, is_left) == (2, True)
    assert asked.stderr.splitlines()[0] == (
        "! team/digits will be deleted: 1 commit on main, 3 files (1.5 kB) in the newest; branches main; "
        "cached on local; in use now: read by train. It can be restored for 7 days."
    )
    assert (done.exit_code, done.stdout, dataset.exists) == (0, DELETED, False)


def test_a_part_of_a_dataset_is_not_deleted(cnvrg, dataset, linked):
    done = cnvrg("data", "delete", "team/digits@main", "--yes")

    assert (done.exit_code, dataset.exists) == (2, True)
    assert "nearline data branch NAME --delete" in done.stderr


def test_addresses_that_expire_are_refused_with_what_to_do_instead(cnvrg, linked):
    done = cnvrg("data", "files", "team/digits", "-ex", "3600")

    assert (done.exit_code, done.stdout) == (2, "")
    assert "✗ --expires is not supported." in done.stderr
    assert "`nearline data clone` gets them" in done.stderr


def test_init_takes_the_only_project_of_the_person(cnvrg, dataset, here):
    dataset.exists = False

    done = cnvrg("data", "init", "-t", "digits")

    assert done.stdout.splitlines()[0] == "Dataset:  team/digits"


@pytest.mark.parametrize(
    ("projects", "message"),
    [
        (["a", "b"], "No project is named, and you are a member of 2: a, b."),
        ([], "No project is named, and you are a member of none."),
    ],
)
def test_init_does_not_guess_a_project(cnvrg, dataset, here, projects, message):
    dataset.projects = projects

    done = cnvrg("data", "init")

    assert done.exit_code == 2
    assert message in done.stderr
    assert not (here / ".nearline").exists()


def test_a_dataset_is_made_put_listed_and_cloned_in_the_words_of_the_second_program(cnvrg, dataset, here):
    dataset.exists = False
    (here / "a").mkdir()
    for path in ALL:
        (here / path).write_text(path)

    made = cnvrg("dataset", "create", "-n", "digits")
    put = cnvrg("dataset", "put", "-f", "a, b.txt", "-d", "/in/", "-t", "99", "-c", "500", "-or")
    shown = cnvrg("dataset", "list-files", "-n", "digits", "-l", "2", "--quiet")
    cloned = cnvrg("dataset", "clone", "-n", "digits", "-t", "4")

    assert made.stdout.splitlines()[0] == "Dataset:  team/digits"
    assert "Accepted without effect: --chunks, --override." in put.stderr
    assert files_of(dataset) == ["in/a/1.png", "in/a/2.png", "in/b.txt"]
    assert shown.stdout == "in/a/1.png\nin/a/2.png\n"
    assert "✔ Cloned team/digits to digits: 3 files" in cloned.stderr
    assert (here / "digits" / "in" / "b.txt").read_text() == "b.txt"


def test_put_with_force_holds_these_files_and_no_others(cnvrg, dataset, linked):
    cnvrg("dataset", "put", "-f", "b.txt", "-fc")

    assert files_of(dataset) == ["b.txt"]


def test_files_are_removed_by_pattern_and_a_dataset_deleted(cnvrg, dataset, linked):
    cnvrg("dataset", "remove", "-n", "digits", "-f", "a/1*, b.txt", "-m", "less")
    left = files_of(dataset)
    done = cnvrg("dataset", "delete", "-n", "digits", "--yes")

    assert (left, done.exit_code, dataset.exists) == (["a/2.png"], 0, False)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("put", "-f", "b.txt", "-gd"), "--git-diff is not supported."),
        (("clone", "-n", "digits", "-o"), "--override is not supported."),
        (("put", "-f", " , "), "' , ' names nothing."),
        (("put", "-f", "missing"), "There is no file 'missing' here."),
    ],
)
def test_what_cannot_be_done_is_refused_in_words(cnvrg, dataset, linked, arguments, text):
    done = cnvrg("dataset", *arguments)

    assert done.exit_code in {2, 3}
    assert text in done.stderr
    assert len(dataset.store.commits) == 1


def test_a_commit_is_cached_on_a_disk_and_cleared(cli, server):
    route = f"/datasets/team/digits/commits/{'ab' * 4}/cache"
    server.on("POST", route, cached(state="queued"))
    server.on("DELETE", route, cached(state="gone"))

    done = cli("dataset", "cache", "-n", "team/digits", "-c", "ab" * 4, "-d", "nfs")
    cleared = cli("dataset", "uncache", "-n", "team/digits", "-c", "ab" * 4, "-d", "nfs")

    assert (done.exit_code, cleared.exit_code) == (0, 0)
    assert server.bodies("POST", route) == [{"site": "nfs"}]
    assert server.asked[-1][2] == {"site": "nfs"}


def test_datasets_are_listed(cli, server):
    server.on("GET", "/datasets", page())

    assert cli("dataset", "list").stderr == "There is no dataset. `nearline data init` makes one of a folder.\n"
