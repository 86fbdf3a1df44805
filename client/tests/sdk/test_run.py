"""What code says and finds inside a job."""

import json
import subprocess
import sys

import pytest

import nearline
from client.tests.deep_folders import deep_folder
from client.tests.loopback import Answer, serve
from nearline.content.folders import walk_folders
from nearline.errors import Failed

AWAY = None
"""The platform ends the connection without an answer."""


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A job's folder with its variables."""
    (tmp_path / "data" / "digits").mkdir(parents=True)
    (tmp_path / "input" / "prepare").mkdir(parents=True)
    (tmp_path / "parameters.json").write_text('{"lr": 0.1}')
    monkeypatch.setenv("NEARLINE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("NEARLINE_INPUT", str(tmp_path / "input"))
    monkeypatch.setenv("NEARLINE_OUTPUT", str(tmp_path / "output"))
    monkeypatch.setenv("NEARLINE_PARAMETERS", str(tmp_path / "parameters.json"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys) -> list[dict]:
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("::nearline {") for line in lines)
    return [json.loads(line.removeprefix("::nearline ")) for line in lines]


def test_a_metric_is_one_line_with_its_time(capsys):
    nearline.log_metric("accuracy", 0.5, step=3)

    [line] = said(capsys)
    assert line.pop("at") > 1_700_000_000_000
    assert line == {"kind": "metric", "key": "accuracy", "value": 0.5, "step": 3}


@pytest.mark.parametrize(("value", "written"), [(float("nan"), "nan"), (float("inf"), "inf"), (-float("inf"), "-inf")])
def test_numbers_that_json_lacks_are_written_as_text(capsys, value, written):
    nearline.log_metric("loss", value)

    assert said(capsys)[0]["value"] == written


def test_numbers_of_other_libraries_are_numbers(capsys):
    import numpy as np

    nearline.log_metric("a", np.float32(0.5), step=np.int64(2))
    nearline.log_metric("b", np.int64(7))

    assert [(line["value"], line["step"]) for line in said(capsys)] == [(0.5, 2), (7.0, None)]


def test_parameters_and_tags_keep_their_types(capsys):
    nearline.log_param("optimizer", "adam")
    nearline.set_tag("is_good", True)

    assert [(line["kind"], line["key"], line["value"]) for line in said(capsys)] == [
        ("param", "optimizer", "adam"),
        ("tag", "is_good", True),
    ]


def test_a_checkpoint_is_one_line_with_its_step_and_time(capsys):
    nearline.checkpoint_saved(900)

    [line] = said(capsys)
    assert line.pop("at") > 1_700_000_000_000
    assert line == {"kind": "checkpoint", "key": "checkpoint", "value": 900}


def test_the_checkpoint_folder_is_the_jobs_or_one_here(job, monkeypatch):
    assert nearline.checkpoints().resolve() == job / "checkpoints"

    monkeypatch.setenv("NEARLINE_CHECKPOINT_DIR", str(job / "kept"))
    assert nearline.checkpoints() == job / "kept"
    assert (job / "kept").is_dir()


def test_a_text_of_several_lines_stays_on_one(capsys):
    nearline.set_tag("note", "one\ntwo")

    assert said(capsys)[0]["value"] == "one\ntwo"


@pytest.mark.parametrize("key", ["", "a\nb"])
def test_a_key_that_is_no_line_of_text_is_refused_and_nothing_is_written(capsys, key):
    with pytest.raises(ValueError, match="cannot name"):
        nearline.log_metric(key, 1)

    assert capsys.readouterr().out == ""


def test_an_artifact_in_the_output_folder_is_named_by_its_path_there(job, capsys):
    (nearline.output() / "plots").mkdir()
    (job / "output" / "plots" / "roc.png").write_bytes(b"png")

    nearline.log_artifact(job / "output" / "plots" / "roc.png")

    assert said(capsys)[0]["key"] == "plots/roc.png"


def test_an_artifact_from_elsewhere_is_copied_to_the_output_folder(job, capsys):
    (job / "model.bin").write_bytes(b"weights")

    nearline.log_artifact("model.bin")

    assert said(capsys)[0]["key"] == "model.bin"
    assert (job / "output" / "model.bin").read_bytes() == b"weights"


def test_a_folder_of_any_number_of_levels_is_copied_with_what_its_links_lead_to(job, capsys):
    (job / "model.bin").write_bytes(b"weights")
    with deep_folder(job / "run", 1200) as folder, deep_folder(nearline.output() / "run", 0) as copy:
        (folder / "linked").symlink_to(job / "model.bin")

        nearline.log_artifact("run")

        files = sum(len(names) for _, _, names in walk_folders(str(copy)))
        assert (files, (copy / "linked").read_bytes()) == (1201, b"weights")
    assert said(capsys)[0]["key"] == "run"


def test_an_artifact_that_does_not_exist_is_an_error(job, capsys):
    with pytest.raises(FileNotFoundError):
        nearline.log_artifact("nothing")

    assert capsys.readouterr().out == ""


def test_a_job_finds_what_it_was_given(job):
    assert nearline.parameters() == {"lr": 0.1}
    assert nearline.data("digits") == job / "data" / "digits"
    assert nearline.input("prepare") == job / "input" / "prepare"
    assert nearline.output() == job / "output"


@pytest.fixture
def read_early(monkeypatch):
    """Have a job read `digits` early: what the platform says of its copy, one after the other; return the questions."""
    answers = []

    def answer(_):
        if (copy := answers.pop(0)) is AWAY:
            raise ConnectionAbortedError
        return Answer(body=json.dumps(copy).encode())

    with serve(answer) as platform:
        given = {"url": platform.url, "tokens": {"digits": "secret"}}
        monkeypatch.setenv("NEARLINE_EARLY_DATA", json.dumps(given))

        def tell(*copies):
            answers.extend({"is_complete": False, "error": "", **copy} if copy is not AWAY else AWAY for copy in copies)
            return platform.requests

        yield tell


def test_what_a_job_reads_early_is_waited_for(job, read_early):
    asked = read_early({}, {}, {"is_complete": True})

    assert nearline.data("digits") == job / "data" / "digits"
    assert [request.target for request in asked] == ["/api/v1/copy/early"] * 3


def test_a_platform_that_is_away_when_a_job_asks_first_is_waited_for(job, read_early):
    asked = read_early(AWAY, AWAY, {"is_complete": True})

    assert nearline.data("digits") == job / "data" / "digits"
    assert len(asked) == 3


def test_what_a_job_reads_early_and_cannot_be_brought_is_told(job, read_early):
    read_early({}, {"error": "The site is full."})

    with pytest.raises(Failed, match=r"The cached copy is not complete: The site is full\."):
        nearline.data("digits")


def test_what_is_missing_is_named_with_what_is_there(job):
    with pytest.raises(FileNotFoundError, match=r"no dataset .letters.\. It has: digits\."):
        nearline.data("letters")


def test_outside_of_a_job_it_is_told_where_a_job_has_its_data(monkeypatch):
    monkeypatch.setenv("NEARLINE_DATA", "/nowhere")

    with pytest.raises(FileNotFoundError, match=r"A job has them in \$NEARLINE_DATA, which is no folder here\."):
        nearline.data("digits")


def test_outside_of_a_job_there_are_no_parameters(monkeypatch):
    monkeypatch.delenv("NEARLINE_PARAMETERS", raising=False)

    assert nearline.parameters() == {}


def test_logging_loads_the_standard_library_only():
    code = (
        "import sys; import nearline; nearline.log_metric('a', 1);"
        "heavy = {'httpx', 'typer', 'rich', 'blake3', 'numpy'} & set(sys.modules); sys.exit(len(heavy))"
    )

    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False).returncode == 0
