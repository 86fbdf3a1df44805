"""`nearline data` against a dataset that keeps its promises: folders, files, history."""

import json
import os
import signal
import time

import httpx
import pytest

from client.tests.cli.answers import page
from client.tests.cli.conftest import ScriptedStore, connect
from client.tests.cli.dataset_server import DatasetServer
from nearline._http import Http
from nearline.client import Client

URL = "http://127.0.0.1:8000/datasets/team/digits"


@pytest.fixture
def server(tmp_path):
    return DatasetServer(tmp_path / "server")


@pytest.fixture
def linked(cli, here):
    """The folder, linked and synced once."""
    (here / "a").mkdir()
    (here / "a" / "1.txt").write_text("one")
    (here / "2.txt").write_text("two")
    cli("data", "link", "team/digits")
    assert cli("data", "sync", "-m", "first").exit_code == 0
    return here


def files_of(server) -> dict[str, bytes]:
    return {os.fsdecode(path): data for path, data in server.store.tree().items()}


def heads(server) -> dict[str, str]:
    return {branch.name: branch.head for branch in server.store.list_branches()}


def test_a_folder_becomes_a_dataset_named_after_itself(server, tmp_path, monkeypatch, cli):
    server.exists = False
    folder = tmp_path / "Digits"
    folder.mkdir()
    monkeypatch.chdir(folder)

    done = cli("data", "init", "--project", "team")

    assert done.exit_code == 0
    assert done.stdout.splitlines()[0] == "Dataset:  team/digits"
    assert (folder / ".nearline").is_dir()


def test_no_dataset_is_made_for_a_folder_that_cannot_be_linked(server, here, cli):
    server.exists = False
    (here / ".nearline").write_text("")

    done = cli("data", "init", "--project", "team")

    assert (done.exit_code, server.exists) == (1, False)
    assert "'.nearline' in it is no folder." in done.stderr
    assert "hint: " in done.stderr


def test_a_person_is_asked_before_a_home_folder_becomes_a_dataset(server, here, cli, monkeypatch):
    server.exists = False
    monkeypatch.setattr("typer.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    monkeypatch.setenv("HOME", str(here))

    done = cli("data", "init", "--project", "team", "--title", "digits", stdin="n\n")

    assert (done.exit_code, server.exists, (here / ".nearline").exists()) == (1, False, False)
    assert f"Make a dataset of all that is in '{here}'? [y/N]" in done.stderr


def test_a_script_is_not_asked_whether_its_home_folder_becomes_a_dataset(server, here, cli, monkeypatch):
    server.exists = False
    monkeypatch.setenv("HOME", str(here))

    assert cli("data", "init", "--project", "team", "--title", "digits").exit_code == 0


def test_a_folder_that_is_linked_already_says_so_and_that_is_no_failure(cli, linked):
    done = cli("data", "init", "--project", "team")

    assert done.exit_code == 0
    assert "Directory is already linked to team/digits" in done.stderr


def test_a_name_that_is_taken_ends_with_5_and_links_nothing(cli, here):
    assert cli("data", "init", "--project", "team", "--title", "digits").exit_code == 5
    assert not (here / ".nearline").exists()


def test_a_sync_is_one_commit_and_the_next_one_none(server, cli, linked):
    again = cli("data", "sync")

    assert "✔ Dataset is up to date" in again.stderr
    assert [commit["message"] for commit in server.store.commits] == ["first"]
    assert files_of(server) == {"2.txt": b"two", "a/1.txt": b"one"}


def test_a_sync_tells_what_it_did(cli, linked):
    (linked / "3.txt").write_text("three")
    (linked / "2.txt").unlink()

    done = cli("data", "sync", "-m", "second")

    assert done.stdout.split()[1:] == ["+1", "-1", "~0", "second"]
    assert done.stderr.splitlines() == ["  sent 1 file (5 B), received 0 files (0 B)", "✔ Data sync finished"]


def test_a_sync_in_json_has_the_commit_and_the_bytes(cli, linked):
    (linked / "3.txt").write_text("three")

    shown = json.loads(cli("data", "sync", "--json").stdout)

    assert (shown["commit"]["added"], shown["bytes_uploaded"], shown["is_up_to_date"]) == (1, 5, False)
    assert json.loads(cli("data", "sync", "--json").stdout)["commit"] is None


def test_names_that_collide_are_told_all_at_once_and_synced_when_allowed(server, cli, linked):
    for name in ("B", "b", "\u00e9", "e\u0301"):
        (linked / name).write_text(name)

    refused = cli("data", "sync")
    files_after_refusal = files_of(server).keys()
    allowed = cli("data", "sync", "--allow-collisions")

    assert refused.exit_code == 5
    assert r"differ only in case or Unicode form: 'B' and 'b'; 'e\u0301' and '\u00e9'." in refused.stderr
    assert "hint: Rename them." in refused.stderr
    assert files_after_refusal == {"2.txt", "a/1.txt"}
    assert allowed.exit_code == 0
    assert files_of(server).keys() == {"2.txt", "a/1.txt", "B", "b", "\u00e9", "e\u0301"}
    assert server.store.commits[-1]["allow_collisions"] is True


def test_a_conflict_is_named_and_both_versions_kept(server, cli, linked, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cli("data", "clone", "team/digits", "other")
    (tmp_path / "other" / "2.txt").write_text("theirs")
    monkeypatch.chdir(tmp_path / "other")
    cli("data", "sync")
    (linked / "2.txt").write_text("ours")
    monkeypatch.chdir(linked)

    done = cli("data", "sync")

    assert "! Changed on both sides, yours is kept: 2.txt; the server's is 2.txt.conflict" in done.stderr
    assert ((linked / "2.txt").read_text(), (linked / "2.txt.conflict").read_text()) == ("ours", "theirs")


def test_what_cannot_be_carried_is_named_and_the_rest_is_committed(server, cli, linked):
    os.mkfifo(linked / "pipe")
    (linked / "3.txt").write_text("three")

    done = cli("data", "sync")

    assert done.exit_code == 0
    assert "! Left out: pipe: is neither a file nor a folder nor a link" in done.stderr
    assert "3.txt" in files_of(server)


def test_options_of_cnvrg_without_a_meaning_are_accepted_and_named_once(cli, linked):
    done = cli("data", "sync", "--verbose", "--chunk_size", "500", "--parallel", "2", "--initial")

    assert done.exit_code == 0
    assert done.stderr.count("Accepted without effect: --chunk_size, --initial, --verbose.") == 1


def test_a_new_branch_gets_the_commit_and_the_old_one_stays(server, cli, linked):
    before = heads(server)["main"]
    (linked / "3.txt").write_text("three")

    assert cli("data", "sync", "-nb").exit_code == 0

    after = heads(server)
    [branch] = after.keys() - {"main"}
    assert after["main"] == before
    assert after[branch] != before


def test_two_folders_that_start_a_branch_in_the_same_second_get_one_each(server, cli, linked, monkeypatch):
    moment = time.gmtime(0)
    monkeypatch.setattr(time, "gmtime", lambda *_: moment)
    (linked / "3.txt").write_text("three")
    assert cli("data", "sync", "-nb").exit_code == 0
    (linked / "4.txt").write_text("four")

    assert cli("data", "sync", "-nb").exit_code == 0

    assert len(heads(server)) == 3


def test_force_makes_the_dataset_what_the_folder_is(server, cli, linked, tmp_path, monkeypatch):
    (tmp_path / "extra.txt").write_text("extra")
    cli("data", "put", "team/digits", str(tmp_path / "extra.txt"))
    (linked / "2.txt").write_text("mine")

    assert cli("data", "sync", "--force").exit_code == 0

    assert files_of(server) == {"2.txt": b"mine", "a/1.txt": b"one"}


def test_what_takes_a_dataset_says_so_where_no_folder_is_linked(cli, here):
    for arguments in (("tag", "v2", "team/ds"), ("branch",), ("diff", "v1", "v2"), ("merge", "dev")):
        done = cli("data", *arguments)
        assert (done.exit_code, "hint: Name a dataset: `--dataset PROJECT/NAME`. " in done.stderr) == (2, True)


def test_a_folder_without_a_link_says_what_to_do(cli, here):
    for command in ("sync", "upload", "download", "status", "commits"):
        done = cli("data", command)
        assert (done.exit_code, "nearline data init" in done.stderr) == (2, True)


def test_a_folder_of_another_server_is_left_alone(server, cli, linked):
    link = linked / ".nearline" / "config.json"
    link.write_text(link.read_text().replace("127.0.0.1:8000", "other.example.org"))

    done = cli("data", "sync")

    assert done.exit_code == 2
    assert "on http://other.example.org" in done.stderr


def test_status_lists_what_changed_and_whether_others_committed(cli, linked, tmp_path):
    (linked / "3.txt").write_text("three")
    (linked / "2.txt").unlink()
    (tmp_path / "extra.txt").write_text("extra")
    cli("data", "put", "team/digits", str(tmp_path / "extra.txt"))

    done = cli("data", "status")

    assert done.stdout.splitlines() == ["+ 3.txt", "- 2.txt"]
    assert "Others have committed since" in done.stderr
    assert json.loads(cli("data", "status", "--json").stdout)["is_behind"] is True


def test_verify_reads_every_byte(cli, linked):
    assert "All 2 files are those of" in cli("data", "verify").stderr
    (linked / "3.txt").write_text("three")
    extra = cli("data", "verify")
    assert extra.stdout == "extra: 3.txt\n"
    assert "All 2 files are those of" in extra.stderr
    assert extra.stderr.endswith("; 1 more not in it.\n")
    stat = (linked / "2.txt").stat()
    (linked / "2.txt").write_text("2wo")
    os.utime(linked / "2.txt", ns=(stat.st_atime_ns, stat.st_mtime_ns))

    done = cli("data", "verify", "--json")

    assert done.exit_code == 1
    assert json.loads(done.stdout)["changed"] == ["2.txt"]


@pytest.mark.parametrize("name", ["team/digits", URL, "team/digits@main"])
def test_a_dataset_is_cloned_by_any_of_its_names_into_its_own_name(cli, linked, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)

    done = cli("data", "clone", name)

    assert "✔ Cloned team/digits" in done.stderr
    assert (tmp_path / "digits" / "a" / "1.txt").read_text() == "one"
    assert "✔ digits has all of team/digits" in cli("data", "clone", name).stderr


def test_an_old_commit_is_cloned(server, cli, linked, tmp_path):
    first = server.store.commits[0]["id"]
    (linked / "2.txt").write_text("changed")
    cli("data", "sync")

    cli("data", "clone", "team/digits", "-c", first[:8], str(tmp_path / "old"))

    assert (tmp_path / "old" / "2.txt").read_text() == "two"


def test_a_clone_does_not_touch_a_folder_with_something_in_it(cli, linked, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")

    done = cli("data", "clone", "team/digits", str(tmp_path / "full"))

    assert done.exit_code == 5
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine"]


@pytest.mark.parametrize("kind", ["file", "link to nowhere"])
def test_a_clone_of_the_folders_only_takes_no_place_that_is_taken(cli, linked, tmp_path, kind):
    taken = tmp_path / "taken"
    taken.write_text("mine") if kind == "file" else taken.symlink_to("nowhere")
    before = taken.lstat()

    done = cli("data", "clone", "team/digits", "--tree", str(taken))

    assert done.exit_code == 5
    assert done.stderr.splitlines() == [f"✗ '{taken}' is there already.", "hint: Choose another folder."]
    assert taken.lstat() == before


def test_a_clone_below_a_file_says_what_is_in_the_way(cli, linked, tmp_path):
    (tmp_path / "mine").write_text("mine")
    place = str(tmp_path / "mine" / "copy")

    whole, folders = cli("data", "clone", "team/digits", place), cli("data", "clone", "team/digits", "--tree", place)

    hint = "hint: Move what is there away, or choose another path."
    assert whole.stderr.splitlines() == [f"✗ Cannot link '{place}': Not a directory.", hint]
    assert folders.stderr.splitlines() == [f"✗ '{place}' cannot be used: Not a directory.", hint]


def test_a_clone_for_reading_leaves_the_folder_unlinked(cli, linked, tmp_path):
    cli("data", "clone", "team/digits", "--read", str(tmp_path / "plain"))

    assert sorted(path.name for path in (tmp_path / "plain").iterdir()) == ["2.txt", "a"]


@pytest.mark.parametrize("is_there", [False, True])
def test_an_export_that_is_refused_leaves_nothing_in_the_way_of_the_next(cli, linked, tmp_path, is_there):
    (linked / "link").symlink_to("2.txt")
    cli("data", "sync")
    if is_there:
        (tmp_path / "out").mkdir()

    refused = cli("data", "export", "dvc", "team/digits", str(tmp_path / "out"))

    assert refused.exit_code == 2
    assert "DVC tracks neither links nor names that are no text: link." in refused.stderr
    assert list(tmp_path.glob("out/**/*")) == []
    assert (tmp_path / "out").exists() == is_there

    (linked / "link").unlink()
    cli("data", "sync")
    exported = cli("data", "export", "dvc", "team/digits", str(tmp_path / "out"))

    assert exported.exit_code == 0
    assert (tmp_path / "out" / "digits" / "a" / "1.txt").read_text() == "one"


def test_what_dvc_cannot_track_is_refused_before_any_file_is_fetched(server, cli, linked, tmp_path):
    (linked / "link").symlink_to("2.txt")
    cli("data", "sync")
    for pack in server.store.object_path("pack", "").iterdir():
        pack.unlink()

    refused = cli("data", "export", "dvc", "team/digits", str(tmp_path / "out"))

    assert refused.exit_code == 2
    assert "DVC tracks neither links nor names that are no text: link." in refused.stderr


@pytest.mark.parametrize("is_there", [False, True])
def test_an_export_that_is_killed_is_not_in_the_way_of_the_next(server, cli, linked, tmp_path, is_there):
    out = tmp_path / "out"
    if is_there:
        out.mkdir()

    def kill(request):
        # The card is written last, from the description of the dataset.
        if request.url.path == "/api/v1/datasets/team/digits":
            os.kill(os.getpid(), signal.SIGKILL)
        return server(request)

    arguments = ("data", "export", "hf", "team/digits@main", str(out))
    if (child := os.fork()) == 0:
        connect(kill)(*arguments)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert list(out.rglob("1.txt")) != []

    assert cli(*arguments).exit_code == 0
    assert sorted(path.name for path in out.iterdir()) == ["2.txt", "README.md", "a"]


def test_nothing_is_exported_into_a_linked_folder(cli, here):
    cli("data", "link", "team/digits")

    refused = cli("data", "export", "hf", "team/digits", ".")

    assert refused.exit_code == 5
    assert (here / ".nearline" / "config.json").exists()


def test_a_tree_is_folders_only(cli, linked, tmp_path):
    cli("data", "clone", "team/digits", "--tree", str(tmp_path / "tree"))

    assert [path.name for path in (tmp_path / "tree").rglob("*")] == ["a"]


def test_a_clone_is_refused_where_there_is_no_room(cli, linked, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _path: type("Usage", (), {"free": 1, "total": 10})())

    done = cli("data", "clone", "team/digits", str(tmp_path / "big"))

    assert done.exit_code == 1
    assert "not enough free space" in done.stderr
    assert not (tmp_path / "big").exists()


def test_a_clone_that_was_broken_off_needs_space_for_the_rest_only(cli, linked, tmp_path, monkeypatch):
    (linked / "large.bin").write_bytes(bytes(200))
    cli("data", "sync")
    clone = tmp_path / "clone"
    cli("data", "clone", "team/digits", str(clone))
    (clone / ".nearline" / "state.json").unlink()
    (clone / "2.txt").unlink()
    monkeypatch.setattr("shutil.disk_usage", lambda _path: type("Usage", (), {"free": 100, "total": 100})())

    rest = cli("data", "clone", "team/digits", str(clone))
    whole = cli("data", "clone", "team/digits", str(tmp_path / "another"))

    assert (rest.exit_code, whole.exit_code) == (0, 1)
    assert (clone / "2.txt").read_text() == "two"
    assert "for 206 bytes" in whole.stderr
    assert "95 are free beside the 5% of the disk that a clone leaves free" in whole.stderr


def test_a_clone_can_point_to_the_cached_copy(server, cli, linked, tmp_path):
    head = server.store.commits[-1]["id"]
    copy = tmp_path / "cache" / "digits"
    copy.mkdir(parents=True)
    caches = {"dataset": "team/digits", "commit": head, "site": "local", "state": "ready", "path": str(copy)}

    def with_cache(request):
        if request.url.path.endswith("/cache/commits"):
            return httpx.Response(200, json=page(caches))
        return server(request)

    done = connect(with_cache)("data", "clone", "team/digits", "--cache_link", str(tmp_path / "near"))

    assert done.exit_code == 0
    assert (tmp_path / "near").resolve() == copy


def test_files_are_put_under_a_folder_as_one_commit(server, cli, linked, tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "x.txt").write_text("x")
    (tmp_path / "y.txt").write_text("y")

    done = cli("data", "put", URL, str(tmp_path / "more"), str(tmp_path / "y.txt"), "-d", "/train/", "-m", "more")

    assert done.exit_code == 0
    assert files_of(server).keys() == {"2.txt", "a/1.txt", "train/more/x.txt", "train/y.txt"}
    assert server.store.commits[-1]["message"] == "more"


def test_a_dot_puts_what_lies_here_without_our_own_bookkeeping(server, cli, linked):
    (linked / "3.txt").write_text("three")

    cli("data", "put", "team/digits", ".")

    assert files_of(server).keys() == {"2.txt", "3.txt", "a/1.txt"}


def test_put_with_force_holds_these_files_and_no_others(server, cli, linked, tmp_path):
    (tmp_path / "only.txt").write_text("only")

    cli("data", "put", "team/digits", str(tmp_path / "only.txt"), "--force")

    assert files_of(server) == {"only.txt": b"only"}


def test_a_missing_file_is_named_and_nothing_is_committed(server, cli, linked):
    done = cli("data", "put", "team/digits", "2.txt", "nothing.txt")

    assert done.exit_code == 3
    assert "nothing.txt" in done.stderr
    assert len(server.store.commits) == 1


def test_a_folder_that_leads_out_is_refused(server, cli, linked):
    done = cli("data", "put", "team/digits", "2.txt", "-d", "../up")

    assert done.exit_code == 2
    assert len(server.store.commits) == 1


def test_auto_cache_needs_a_disk(server, cli, linked):
    done = cli("data", "put", "team/digits", "2.txt", "--auto_cache")

    assert done.exit_code == 2
    assert "or auto caching external disk is required" in done.stderr


def test_a_cache_that_fails_after_a_put_is_a_warning(server, cli, linked, tmp_path):
    (tmp_path / "x.txt").write_text("x")

    def without_site(request):
        if request.url.path.endswith("/cache"):
            return httpx.Response(404, json={"title": "There is no site 'far'.", "code": "x"})
        return server(request)

    done = connect(without_site)(
        "data", "put", "team/digits", str(tmp_path / "x.txt"), "--auto_cache", "--external_disk", "far"
    )

    assert done.exit_code == 0
    assert "! Couldn't cache commit: There is no site 'far'." in done.stderr
    assert len(server.store.commits) == 2


def test_files_are_removed_by_path_folder_or_pattern(server, cli, linked):
    assert cli("data", "rm", "team/digits", "a/", "-m", "less").exit_code == 0
    assert files_of(server) == {"2.txt": b"two"}

    assert cli("data", "rm", "team/digits", "*.txt").exit_code == 0
    assert files_of(server) == {}
    assert cli("data", "rm", "team/digits", "nothing*").exit_code == 3


def test_files_are_listed_by_commit_and_page(cli, linked):
    shown = cli("data", "files", URL)

    assert [line.split()[0] for line in shown.stdout.splitlines()] == ["FILE", "2.txt", "a/1.txt"]
    assert cli("data", "files", URL, "-o", "1", "-l", "1", "--quiet").stdout == "a/1.txt\n"


def test_a_name_that_could_steer_the_terminal_is_written_with_escapes(cli, linked):
    (linked / "evil\x1b[2J\n").write_text("x")
    cli("data", "sync")

    shown = cli("data", "files", "team/digits").stdout

    assert "evil\\x1b[2J\\n" in shown
    assert json.loads(cli("data", "files", "team/digits", "--json").stdout)["items"][2]["path"] == "evil\x1b[2J\n"


def test_commits_of_this_folder_are_listed(server, cli, linked):
    for name in (".", URL, "team/digits"):
        done = cli("data", "commits", name)
        assert done.stdout.splitlines()[1].split()[-1] == "first"
    assert [item["id"] for item in json.loads(cli("data", "commits", "--json").stdout)["items"]] == [
        server.store.commits[0]["id"]
    ]


def test_a_branch_is_made_at_this_folders_commit_and_followed(server, cli, linked):
    cli("data", "branch", "relabel")
    (linked / "2.txt").write_text("relabelled")
    cli("data", "sync")

    branches = heads(server)
    assert branches["main"] == server.store.commits[-1]["id"]
    assert branches["relabel"] != branches["main"]
    assert "relabel" in cli("data", "branch").stdout


def test_a_commit_gets_a_tag_that_can_be_cloned_and_removed(server, cli, linked, tmp_path):
    cli("data", "tag", "v1")
    (linked / "2.txt").write_text("later")
    cli("data", "sync")

    cli("data", "clone", "team/digits@v1", str(tmp_path / "v1"))

    assert (tmp_path / "v1" / "2.txt").read_text() == "two"
    assert cli("data", "tag").stdout.split()[2] == "v1"
    assert cli("data", "tag", "v1", "--delete").exit_code == 2
    tagged = server.tags["v1"]
    removed = cli("data", "tag", "v1", "--delete", "--yes")
    assert f"Its commit {tagged[:8]} stays and can be named again." in removed.stderr
    assert server.tags == {}


def test_damage_is_listed_and_a_sync_of_good_copies_heals_it(cli, linked, server):
    assert "Nothing is known to be damaged." in cli("data", "damage").stderr
    [pack] = (server.store.folder / "pack").iterdir()
    data = pack.read_bytes()
    pack.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    server.store.report_damaged_packs([pack.name])

    listed = cli("data", "damage")
    healed = cli("data", "sync")

    assert listed.stdout == "a/one\n"
    assert "1 file of team/digits@main in 1 damaged pack." in listed.stderr
    assert healed.exit_code == 0
    assert "Sent 1 damaged pack of the store again: the files in them are whole now." in healed.stderr
    assert "up to date" not in healed.stderr
    assert pack.read_bytes() == data
    assert "up to date" in cli("data", "sync").stderr


def test_a_file_without_a_good_copy_is_named(cli, linked, server):
    [pack] = (server.store.folder / "pack").iterdir()
    pack.write_bytes(b"T" + pack.read_bytes()[1:])
    server.store.report_damaged_packs([pack.name])
    (linked / "2.txt").unlink()

    done = cli("data", "sync")

    assert "! Damaged in the store, and no good copy is here: 2.txt" in done.stderr
    assert json.loads(cli("data", "sync", "--json").stdout)["damaged"] == []


def test_a_sync_that_removes_files_says_so(cli, linked, tmp_path, monkeypatch):
    other = tmp_path / "other"
    assert cli("data", "clone", "team/digits", str(other)).exit_code == 0
    (linked / "2.txt").unlink()
    cli("data", "sync")
    monkeypatch.chdir(other)

    done = cli("data", "sync")

    assert not (other / "2.txt").exists()
    assert "removed 1 file here" in done.stderr
    assert "up to date" not in done.stderr


@pytest.mark.parametrize("command", ["sync", "upload"])
def test_a_new_branch_without_changes_is_not_made(cli, linked, server, command):
    before = heads(server)

    done = cli("data", command, "-nb")

    assert "up to date" in done.stderr
    assert heads(server) == before
    assert json.loads((linked / ".nearline" / "config.json").read_text())["branch"] == "main"


def test_one_path_given_to_the_sdk_means_itself_and_not_its_letters(cli, linked, server):
    http = Http("http://127.0.0.1:8000", "secret", transport=httpx.MockTransport(server), store=ScriptedStore(server))
    folders = Client(http=http).folders
    cli("data", "put", "team/digits", "a", "2.txt", "--dir", "2")

    folders.remove("team/digits", "2/a/1.txt")
    folders.put("team/digits", str(linked / "2.txt"), directory="sub")

    assert set(files_of(server)) == {"2.txt", "a/1.txt", "2/2.txt", "sub/2.txt"}
    assert folders.find("team/digits", "sub") == ["sub/2.txt"]


def test_an_empty_folder_is_named_as_left_out(cli, linked, server):
    (linked / "empty").mkdir()

    done = cli("data", "sync")

    assert "! Left out: empty: is an empty folder, and a dataset keeps files only" in done.stderr


@pytest.mark.parametrize("command", [["sync"], ["status"], ["diff", "main", "."], ["import", "hf", ".", "team/digits"]])
def test_files_whose_names_synced_folders_keep_to_themselves_are_named(cli, linked, command):
    (linked / "mine.deleted").write_text("1")

    done = cli("data", *command)

    assert "! Left out: mine.deleted: has a name that synced folders keep to themselves\n" in done.stderr


def test_a_clone_and_an_export_name_what_they_leave_out(cli, linked, tmp_path):
    (linked / "mine.deleted").write_text("1")
    cli("data", "put", "team/digits", "mine.deleted")

    clone = cli("data", "clone", "team/digits", str(tmp_path / "clone"))
    export = cli("data", "export", "hf", "team/digits", str(tmp_path / "export"))

    for done in (clone, export):
        assert "! Left out: mine.deleted: has a name that synced folders keep to themselves\n" in done.stderr


def test_the_help_of_rm_says_when_it_asks(cli):
    assert "Asks first on a terminal; where nobody can answer, as in a script, it removes without" in " ".join(
        cli("data", "rm", "--help").stdout.split()
    )


def test_an_empty_argument_is_no_file_and_no_pattern(server, cli, linked):
    before = heads(server)

    results = [
        cli("data", "put", "team/digits", ""),
        cli("data", "put", "team/digits", "2.txt", ""),
        cli("data", "rm", "team/digits", "", "--yes"),
        cli("data", "clone", "team/digits", ""),
    ]

    assert [result.exit_code for result in results] == [2, 2, 2, 2]
    assert "A path is empty; '.' is this folder." in results[0].stderr
    assert "A pattern is empty." in results[2].stderr
    assert heads(server) == before


def test_a_folder_outside_of_the_dataset_is_refused_without_a_hint_about_files(cli, linked):
    done = cli("data", "put", "team/digits", "2.txt", "--dir", "../x")

    assert (done.exit_code, done.stderr) == (2, "✗ '../x' contains the component '..'.\n")


def test_an_empty_reference_is_told_as_one(server, cli, linked):
    done = cli("data", "files", "")

    assert done.exit_code == 2
    assert "✗ '' is not a dataset reference." in done.stderr


def test_put_of_a_link_to_a_folder_says_that_the_folder_is_not_put(server, cli, linked):
    (linked / "newest").symlink_to("a")

    done = cli("data", "put", "team/digits", "newest", "--dir", "more")

    assert files_of(server)["more/newest"] == b"a"
    assert done.stderr.splitlines()[0] == "! 'newest' is a link; what it leads to is not put with it."


def test_put_names_an_empty_folder_as_what_it_is(cli, linked):
    (linked / "a" / "empty").mkdir(parents=True)

    done = cli("data", "put", "team/digits", "a")

    assert "! Left out: a/empty: is an empty folder, and a dataset keeps files only" in done.stderr


def test_verify_means_the_folder_that_is_named(cli, linked):
    missing, above, inside = (cli("data", "verify", name) for name in ("nope", "..", "a"))

    assert (missing.exit_code, missing.stderr.splitlines()) == (3, ["✗ There is no folder 'nope' here."])
    assert (above.exit_code, "is linked to no dataset" in above.stderr) == (2, True)
    assert inside.exit_code == 0


def test_a_folder_in_place_of_an_ignore_file_is_named_as_people_write_it(cli, linked):
    (linked / ".nearlineignore").mkdir()

    done = cli("data", "sync")

    assert (done.exit_code, done.stderr.splitlines()) == (
        1,
        [
            f"✗ '{linked}/.nearlineignore' cannot be used: Is a directory.",
            "hint: Move what is there away, or choose another path.",
        ],
    )


def test_a_clone_names_its_folder_without_control_characters(cli, linked, tmp_path):
    done = cli("data", "clone", "team/digits", str(tmp_path / "a\nb"))

    assert f"Cloned team/digits to {tmp_path}/a\\nb: 2 files" in done.stderr


def test_a_pattern_that_matches_nothing_is_named_without_control_characters(cli, linked):
    done = cli("data", "rm", "team/digits", "no\x1b")

    assert "No file of team/digits matches 'no\\x1b'." in done.stderr


def test_a_command_in_a_folder_that_was_removed_says_so(cli, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    done = cli("data", "status")

    assert (done.exit_code, done.stderr.splitlines()[0]) == (1, "✗ The folder that you are in was removed.")
