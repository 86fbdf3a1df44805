"""`nearline data query`, and what cnvrg calls it: saved queries, and clones of what they select."""

import pytest

from client.tests.cli.answers import page
from client.tests.cli.dataset_server import DatasetServer

QUERIES = "/datasets/team/digits/queries"
QUERY = {
    "name": "threes",
    "ref": "v1",
    "reference": "team/digits@v1:threes",
    "description": "3/**, type png",
    "globs": ["3/**"],
    "types": ["png"],
}
FILE = {"name": "a.png", "path": "3/a.png", "kind": "file", "size_bytes": 120, "content_id": "00" * 32}


def test_a_query_is_saved_with_all_that_it_asks_for(server, cli):
    server.on("POST", QUERIES, QUERY)

    done = cli(
        *("data", "query", "create", "threes", "team/digits@v1", "--path", "3/**", "--path", "4/**", "--type", "png"),
        *("--contains", "x", "--regex", "a$", "--min-size", "10", "--max-size", "1KB", "--file-tag", "label=3"),
        *("--tags-file", "labels.csv"),
    )

    assert done.exit_code == 0
    assert server.asked[-1][3] == {
        "name": "threes",
        "ref": "v1",
        "globs": ["3/**", "4/**"],
        "contains": "x",
        "regex": "a$",
        "types": ["png"],
        "min_size_bytes": 10,
        "max_size_bytes": 1000,
        "file_tags": ["label=3"],
        "tags_file": "labels.csv",
    }
    assert "Input:     team/digits@v1:threes" in done.stdout


@pytest.mark.parametrize("command", [("query", "list"), ("queries",)])
def test_queries_are_listed(server, cli, command):
    server.on("GET", QUERIES, page(QUERY))

    done = cli("data", *command, "team/digits")

    assert done.stdout.splitlines()[1].split() == ["threes", "v1", "3/**,", "type", "png"]


@pytest.mark.parametrize("command", [("query", "files"), ("query_files",)])
def test_the_files_that_a_query_selects_are_listed(server, cli, command):
    server.on("GET", f"{QUERIES}/threes/files", page(FILE))

    done = cli("data", *command, "threes", "team/digits@v2")

    assert server.asked[-1][2]["ref"] == "v2"
    assert done.stdout.splitlines()[1].split() == ["3/a.png", "120", "B", "000000000000"]


def test_a_query_is_deleted_where_somebody_says_yes(server, cli):
    server.on("DELETE", f"{QUERIES}/threes", {})

    assert cli("data", "query", "delete", "threes", "team/digits", "--yes").exit_code == 0
    assert server.asked[-1][:2] == ("DELETE", f"{QUERIES}/threes")


class TestClone:
    @pytest.fixture
    def server(self, tmp_path):
        return DatasetServer(tmp_path / "server")

    @pytest.mark.parametrize("command", ["clone", "clone_query"])
    def test_what_a_query_selects_is_cloned_and_not_linked(self, server, cli, here, command):
        (here / "2.txt").write_text("two")
        cli("data", "link", "team/digits")
        cli("data", "sync")
        cli("data", "tag", "v1")

        done = cli("data", command, "team/digits@v1", "part", "--query", "small")

        assert done.exit_code == 0, done.stderr
        assert server.selected == [("small", "v1")]
        assert [path.name for path in (here / "part").iterdir()] == ["2.txt"]
