"""`nearline data` of what steps and jobs left: read from the store, without a commit."""

import pytest

from client.tests.cli.answers import run, step
from client.tests.cli.dataset_server import DatasetServer
from nearline import errors

STEP = "run:run_1/train C=10"


class OutputServer(DatasetServer):
    """Has the newest commit of its dataset as the output of `train C=10`, too."""

    def _routes(self):
        return [
            ("GET", "/runs/run_1", lambda _q, _b: run("succeeded", *self._steps())),
            ("GET", "/compute/jobs/job-10/output", lambda _q, _b: self._output()),
            ("GET", "/compute/jobs/job-1/output", lambda _q, _b: self._refuse()),
            ("GET", "/trees/tree_1/files", lambda query, body: self._files({"ref": "main", **query}, body)),
            ("POST", "/trees/tree_1/downloads", self._sign),
            ("POST", "/trees/tree_1/damage", self._report),
            *super()._routes(),
        ]

    def _steps(self):
        for index, label in ((0, "train C=1"), (1, "train C=10")):
            attempts = [{"number": 1, "job_name": "job-0"}, {"number": 2, "job_name": f"job-{10**index}"}]
            yield step("train", "succeeded", index=index, label=label, attempts=attempts)
        yield step("report", "waiting", attempts=[])

    def _output(self):
        newest = self.store.commits[-1]
        facts = {"job": "job-10", "project": "team", "tree": "tree_1", "left_out": ""}
        return facts | {name: newest[name] for name in ("root", "files", "size_bytes")}

    def _refuse(self):
        raise errors.NotFound("job-1 left no file in its output folder.", code="compute.output_empty")


@pytest.fixture
def server(tmp_path):
    return OutputServer(tmp_path / "server")


@pytest.fixture
def stored(server, cli, here):
    """The first commit of a dataset, whose second one is the output too."""
    (here / "model.bin").write_text("weights")
    assert cli("data", "put", "team/digits", "model.bin").exit_code == 0
    first = server.store.commits[-1]["id"]
    (here / "model.bin").write_text("better weights")
    (here / "plots").mkdir()
    (here / "plots" / "roc.png").write_bytes(bytes(range(256)) * 40)
    assert cli("data", "put", "team/digits", "model.bin", "plots").exit_code == 0
    return first


@pytest.mark.parametrize("name", [STEP, "run:run_1/train[1]", "job:job-10"])
@pytest.mark.usefixtures("stored")
def test_the_files_of_an_output_are_listed(cli, name):
    assert cli("data", "files", name, "--quiet").stdout.split() == ["model.bin", "plots/roc.png"]
    assert cli("data", "files", name, "--glob", "**/*.png", "--quiet").stdout.split() == ["plots/roc.png"]


@pytest.mark.usefixtures("stored")
def test_an_output_is_cloned_and_the_folder_is_linked_to_nothing(cli, here):
    done = cli("data", "clone", STEP)

    assert done.exit_code == 0, done.stderr
    assert sorted(path.name for path in (here / "train-C=10").iterdir()) == ["model.bin", "plots"]
    assert (here / "train-C=10" / "model.bin").read_text() == "better weights"
    assert cli("data", "clone", STEP).exit_code == 5


@pytest.mark.usefixtures("stored")
def test_a_clone_of_an_output_that_was_broken_off_goes_on(server, cli, here):
    server.store.fail("get", None, None, errors.InvalidRequest("It was cut off."))
    assert cli("data", "clone", STEP, "out").exit_code == 2

    done = cli("data", "clone", STEP, "out")

    assert done.exit_code == 0, done.stderr
    assert sorted(path.name for path in (here / "out").iterdir()) == ["model.bin", "plots"]


@pytest.mark.usefixtures("stored")
def test_what_is_damaged_in_the_store_reaches_no_folder_and_is_reported(server, cli, here):
    server.store.fail("get", None, None, *[lambda: lambda data: bytes(len(data))] * 20)

    done = cli("data", "clone", STEP, "out")

    assert (done.exit_code, server.store.calls["report_damaged_packs"]) == (1, 1)
    assert not (here / "out" / "model.bin").exists()
    assert "What an output lost comes from running its step again (`nearline run retry RUN" in " ".join(
        done.stderr.split()
    )


def test_an_output_is_compared_with_a_commit_and_a_commit_with_it(cli, stored):
    onward = cli("data", "diff", f"team/digits@{stored}", STEP)
    back = cli("data", "diff", STEP, f"team/digits@{stored}")
    same = cli("data", "diff", "team/digits@main", "job:job-10")

    assert onward.stdout.splitlines() == ["~ model.bin  7 B -> 14 B", "+ plots/roc.png"]
    assert back.stdout.splitlines() == ["~ model.bin  14 B -> 7 B", "- plots/roc.png"]
    assert (same.exit_code, same.stdout) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("files", "run:run_1/train"), 2, "'train' has 2 tries"),
        (("files", "run:run_1/train C=1"), 3, "left no file"),
        (("files", "run:run_1/report"), 5, "has left no output: it is waiting"),
        (("files", "run:run_1/other"), 3, "has no step 'other'"),
        (("files", "run:run_1"), 2, "names no step"),
        (("files", "job:"), 2, "names no output"),
        (("files", STEP, "--commit", "main"), 2, "has no commits"),
        (("clone", STEP, "--query", "big"), 2, "no queries"),
        (("clone", STEP, "--link"), 2, "no cached copies"),
        (("diff", STEP), 2, "Name what to compare"),
        (("diff", ".", STEP), 2, "A folder is compared"),
        (("put", STEP, "model.bin"), 2, "is an output, where a dataset is needed"),
        (("commits", "job:job-10"), 2, "is an output, where a dataset is needed"),
    ],
)
@pytest.mark.usefixtures("stored")
def test_what_cannot_be_is_refused_in_words(cli, arguments, code, words):
    done = cli("data", *arguments)

    assert (done.exit_code, words in done.stderr) == (code, True), done.stderr
