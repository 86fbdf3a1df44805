"""`nearline data delete`, `deleted` and `restore`."""

import json

import pytest

from client.tests.cli.conftest import connect
from client.tests.cli.dataset_server import DatasetServer


@pytest.fixture
def server(tmp_path):
    return DatasetServer(tmp_path / "server")


@pytest.fixture
def cli(server, here):
    return connect(server)


def test_delete_says_until_when_the_dataset_can_be_restored_and_how(server, cli):
    done = cli("data", "delete", "team/digits", "--yes")

    assert done.stdout == "Deleted:           team/digits\nRestorable until:  2026-11-30 10:00 UTC\n"
    assert "`nearline data restore team/digits` brings it back." in done.stderr
    assert not server.exists


def test_delete_tells_first_what_reads_a_copy_of_it_now(cli):
    told = cli("data", "delete", "team/digits").stderr.splitlines()[0]

    assert told.endswith("cached on local; in use now: read by train. It can be restored for 7 days.")


def test_who_may_not_delete_is_refused_before_anything_is_asked(server, cli):
    server.may_delete = False

    done = cli("data", "delete", "team/digits")

    assert (done.exit_code, server.exists) == (4, True)
    assert done.stderr.splitlines()[0] == "✗ Only an admin may delete datasets."
    assert "--yes" not in done.stderr


def test_delete_for_good_says_that_nothing_comes_back(cli):
    done = cli("data", "delete", "team/digits", "--for-good", "--yes")

    assert done.stdout == "Deleted:     team/digits\nRestorable:  no\n"
    assert "brings it back" not in done.stderr


def test_deleted_lists_what_can_be_restored(server, cli):
    server.deleted = ["ds_1"]

    table = cli("data", "deleted", "--project", "team").stdout
    listed = json.loads(cli("data", "deleted", "--json").stdout)

    assert table.splitlines()[1].split()[:4] == ["team/digits", "ds_1", "1.5", "kB"]
    assert table.splitlines()[1].endswith("2026-11-30 10:00 UTC")
    assert [item["id"] for item in listed["items"]] == ["ds_1"]


def test_restore_takes_the_name_that_the_dataset_had_and_another_name_where_one_is_given(server, cli):
    server.deleted = ["ds_1"]

    done = cli("data", "restore", "team/digits", "--name", "older")

    assert done.stdout.splitlines()[0] == "Restored:  team/older"
    assert server.deleted == []


def test_restore_asks_for_the_id_where_several_had_the_name(server, cli):
    server.deleted = ["ds_1", "ds_2"]

    unclear = cli("data", "restore", "team/digits")
    done = cli("data", "restore", "ds_2")

    assert (unclear.exit_code, "Give the id of one." in unclear.stderr) == (5, True)
    assert (done.exit_code, server.deleted) == (0, ["ds_1"])


@pytest.mark.parametrize("reference", ["team/digits", "ds_1"])
def test_a_deleted_dataset_is_deleted_for_good_by_its_name_or_its_id(reference, server, cli):
    server.exists, server.deleted = False, ["ds_1"]

    asked = cli("data", "delete", reference, "--for-good")
    is_left = list(server.deleted)
    done = cli("data", "delete", reference, "--for-good", "--yes")

    assert (asked.exit_code, is_left) == (2, ["ds_1"])
    assert done.stdout == "Deleted:     team/digits\nRestorable:  no\n"
    assert server.deleted == []


def test_what_was_never_deleted_cannot_be_restored(cli):
    done = cli("data", "restore", "team/digits")

    assert (done.exit_code, "`nearline data deleted` lists them." in done.stderr) == (3, True)
