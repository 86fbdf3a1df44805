"""Flows, runs and experiments from the command line."""

import json
import subprocess

import pytest

from client.tests.cli.answers import COMMIT_ID, experiment, page, run, step
from nearline.cli.output import harmless

VERSION = {"id": "fv_1", "project": "team", "flow": "digits", "hash": "a" * 64, "number": 1}
PROBLEM = {
    "line": 4,
    "column": 5,
    "path": "steps[0].comand",
    "code": "unknown_key",
    "message": "There is no key 'comand'.",
}
NOTE = {**PROBLEM, "line": 6, "is_note": True, "message": "Ignored here."}


@pytest.fixture
def flow_file(tmp_path):
    path = tmp_path / "here" / "flow.yaml"

    def write(text="flow: digits\n"):
        path.write_text(text)
        return path

    return write


def test_problems_are_listed_like_a_compilers_and_end_with_1(cli, server, flow_file):
    flow_file()
    server.on("POST", "/flows/validate", {"problems": [PROBLEM, NOTE]})

    done = cli("flow", "validate", "flow.yaml", "--project", "team")

    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "flow.yaml:4:5: There is no key 'comand'.  [steps[0].comand]",
        "flow.yaml:6:5: note: Ignored here.  [steps[0].comand]",
    ]
    assert "flow.yaml has 1 problem." in done.stderr
    assert server.bodies("POST", "/flows/validate") == [{"project": "team", "text": "flow: digits\n", "format": "yaml"}]


def test_a_program_is_no_flow_file_and_how_it_stores_its_flow_is_told(cli, server, flow_file):
    flow_file("import nearline\n").rename(flow_file().with_name("flow.py"))

    done = cli("flow", "run", "flow.py", "--project", "team")

    assert done.exit_code == 2
    assert "'flow.py' is a program, not a flow's YAML file." in done.stderr
    assert "flow.to_yaml()" in done.stderr
    assert server.bodies("POST", "/flows") == []


def test_what_a_problem_quotes_cannot_steer_the_terminal(cli, server, flow_file):
    steering = {**PROBLEM, "message": "'a\x1b[31m\nb' cannot name a step."}
    server.on("POST", "/flows/validate", {"is_valid": False, "problems": [steering]})

    done = cli("flow", "validate", str(flow_file()), "--project", "team")

    assert done.stdout.endswith("/flow.yaml:4:5: 'a\\x1b[31m\\nb' cannot name a step.  [steps[0].comand]\n")


def test_notes_alone_are_no_failure(cli, server, flow_file):
    flow_file()
    server.on("POST", "/flows/validate", {"problems": [NOTE]})

    done = cli("flow", "validate", "flow.yaml", "--project", "team", "--json")

    assert done.exit_code == 0
    assert json.loads(done.stdout) == {"items": [NOTE], "is_valid": True}


def test_a_flow_needs_a_project_and_a_file(cli, server, flow_file):
    server.on("GET", "/me", {"name": "ada", "projects": []})
    assert cli("flow", "validate", "flow.yaml", "--project", "team").exit_code == 3
    flow_file()
    assert cli("flow", "validate", "flow.yaml").exit_code == 2


def test_a_flow_is_pushed(cli, server, flow_file):
    flow_file()
    server.on("POST", "/flows", VERSION, status=201)

    done = cli("flow", "push", "flow.yaml", "--project", "team")

    assert done.stdout.splitlines()[0].split() == ["Flow:", "team/digits"]
    assert json.loads(cli("flow", "push", "flow.yaml", "--project", "team", "--json").stdout) == VERSION


def test_a_file_is_stored_and_run_and_the_exit_code_is_that_of_the_run(cli, server, flow_file):
    flow_file()
    server.on("POST", "/flows", VERSION, status=201)
    server.on("POST", "/flows/team/digits/runs", run("pending"), status=201)
    server.on("GET", "/runs/run_1", [run("running", step("train", "running")), run("succeeded", step("train"))])

    done = cli("flow", "run", "flow.yaml", "--project", "team", "-P", "lr=0.5", "-P", "note=a=b", "--wait", "--json")

    assert done.exit_code == 0
    [shown] = json.loads(done.stdout)["steps"]
    assert (shown["label"], shown["seconds"], shown["experiment_id"]) == ("train", 3.5, "ex_train")
    [body] = server.bodies("POST", "/flows/team/digits/runs")
    assert (body["parameters"], body["version"]) == ({"lr": "0.5", "note": "a=b"}, "a" * 64)
    assert "▶ running  train on this-machine.small" in done.stderr


def test_a_step_that_waits_shows_what_would_help(cli, server):
    waits = step("train", "queued", reason="needs 1 GPU on lab", advice="open n1", finished_at=None)
    server.on("GET", "/runs/run_1", run("running", waits))

    assert "needs 1 GPU on lab. What would help: open n1" in " ".join(cli("run", "show", "run_1").stdout.split())


def test_a_run_that_fails_ends_with_1_and_says_which_step_and_where_to_look(cli, server):
    server.on("GET", "/runs/run_1", run("failed", step("prepare"), step("train", "failed", reason="exit code 3")))

    done = cli("run", "show", "run_1", "--wait")

    assert done.exit_code == 1
    assert "Run run_1 failed: train: exit code 3" in done.stderr
    assert "hint: Read its log: nearline run logs run_1 train" in done.stderr
    assert "train" in done.stdout


def test_a_wait_that_is_interrupted_says_that_the_run_goes_on(cli, server):
    def interrupt(request):
        raise KeyboardInterrupt

    server.on("GET", "/runs/run_1", interrupt)

    done = cli("run", "show", "run_1", "--wait")

    assert done.exit_code == 130
    assert "Run run_1 goes on: `nearline run show run_1`, or `nearline run cancel run_1`." in done.stderr


def test_a_failed_step_shows_the_last_lines_of_its_log_and_how_long_it_waited_and_ran(cli, server):
    failed = step(
        "train",
        "failed",
        reason="The command exited with code 1: ValueError: x",
        attempts=[{"number": 1, "last_lines": "Traceback (most recent call last):\nValueError: x\x1b[2J"}],
        times={"waited_s": 2.0, "ran_s": 6.5, "total_s": 8.5},
    )
    server.on("GET", "/runs/run_1", run("failed", failed, times={"waited_s": 2.0, "ran_s": 26.0, "total_s": 1680.0}))

    shown = cli("run", "show", "run_1").stdout

    assert "Time:        waited 2.0 s, ran 26 s, total 28 min" in shown
    assert "train  ✗ failed  2.0 s   6.5 s" in shown
    assert shown.endswith(
        "\ntrain, last lines of its log:\n  Traceback (most recent call last):\n  ValueError: x\\x1b[2J\n"
    )


def test_showing_a_failed_run_without_waiting_is_no_failure(cli, server):
    server.on("GET", "/runs/run_1", run("failed", step("train", "failed", reason="exit code 3")))

    assert cli("run", "show", "run_1").exit_code == 0


def test_a_stored_flow_is_run_by_name(cli, server):
    server.on("POST", "/flows/team/digits/runs", run("pending"), status=201)

    assert cli("flow", "run", "team/digits", "--quiet").stdout == "run_1\n"
    assert server.bodies("POST", "/flows/team/digits/runs") == [{"parameters": {}}]


def test_an_earlier_run_is_had_again_by_its_version_and_its_data(cli, server):
    server.on("POST", "/flows/team/digits/runs", run("pending"), status=201)

    cli("flow", "run", "team/digits", "--version", "6a716f3d", "--data", "team/digits@main=3d468961")

    assert server.bodies("POST", "/flows/team/digits/runs") == [
        {"parameters": {}, "version": "6a716f3d", "data": {"team/digits@main": "3d468961"}}
    ]


def test_a_commit_without_its_dataset_is_refused_before_anything_is_sent(cli, server):
    done = cli("flow", "run", "team/digits", "--data", "3d468961")

    assert "is not a dataset's commit" in done.stderr
    assert server.bodies("POST", "/flows/team/digits/runs") == []


def test_the_run_knows_the_version_of_the_code(cli, server, flow_file):
    path = flow_file()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(path.parent)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    server.on("POST", "/flows", VERSION, status=201)
    server.on("POST", "/flows/team/digits/runs", run("pending"), status=201)

    cli("flow", "run", "flow.yaml", "--project", "team")
    path.write_text("flow: digits # edited\n")
    cli("flow", "run", "flow.yaml", "--project", "team")

    clean, edited = (body["code"] for body in server.bodies("POST", "/flows/team/digits/runs"))
    assert len(clean["commit"]) == 40
    assert (edited["commit"], clean["diff_hash"]) == (clean["commit"], None)
    assert len(edited["diff_hash"]) == 64


def test_a_parameter_without_a_value_is_wrong_usage(cli, server):
    assert cli("flow", "run", "team/digits", "-P", "lr").exit_code == 2
    assert server.asked == []


def test_problems_of_a_pushed_file_are_shown_by_line(cli, server, flow_file):
    flow_file()
    server.refuse("POST", "/flows", 400, title="The flow has 1 problem.", details={"problems": [PROBLEM]})

    done = cli("flow", "run", "flow.yaml", "--project", "team")

    assert done.exit_code == 2
    assert "flow.yaml:4:5: There is no key 'comand'." in done.stderr


def test_runs_are_listed(cli, server):
    server.on("GET", "/runs", page(run("running")))

    done = cli("run", "list", "--project", "team", "--state", "running")

    assert done.stdout.splitlines()[1].split()[:5] == ["run_1", "team/digits", "#7", "▶", "running"]
    assert server.asked[0][2] == {"project": "team", "state": "running", "limit": "20"}


@pytest.mark.parametrize("name", ["digits#7", "digits #7", "team/digits#7", "team/digits #7"])
def test_a_run_is_named_as_it_is_shown(cli, server, name):
    server.on("GET", "/runs", page(run()))
    server.on("GET", "/runs/run_1", run("running", step("train")))
    server.on("POST", "/runs/run_1/cancel", run("cancelled"))

    assert "team/digits #7" in cli("run", "show", name).stdout
    assert cli("run", "cancel", name).exit_code == 0

    project = {"project": "team"} if "/" in name else {}
    assert server.asked[0][2] == project | {"flow": "digits", "number": "7", "limit": "11"}


def test_a_name_that_runs_of_several_projects_have_is_told_with_the_choices(cli, server):
    server.on("GET", "/runs", page(run(), run(id="run_2", project="lab")))

    done = cli("run", "show", "digits #7")

    assert done.exit_code == 2
    assert "Flows of several projects have a run 'digits #7'." in done.stderr
    assert "Name one: 'team/digits #7', 'lab/digits #7'." in done.stderr


def test_a_name_that_no_run_has_is_told(cli, server):
    server.on("GET", "/runs", page())

    done = cli("run", "logs", "digits #7")

    assert (done.exit_code, done.stdout) == (3, "")
    assert "There is no run 'digits #7', or you are not a member of its project." in done.stderr


def test_experiments_of_a_run_are_listed_by_its_name(cli, server):
    server.on("GET", "/runs", page(run()))
    server.on("GET", "/experiments", page(experiment()))

    assert cli("experiment", "list", "--run", "digits#7").exit_code == 0
    assert server.asked[1][2]["run"] == "run_1"


def test_a_log_cannot_steer_the_terminal():
    assert harmless("a\x1b]0;evil\x07\tb\n\x1b[31mred\x1b[0m\n") == "a\\x1b]0;evil\\x07\tb\n\x1b[31mred\x1b[0m\n"


def test_a_log_is_read_to_its_end(cli, server):
    server.on("GET", "/runs/run_1", run("succeeded", step("train")))
    log = "/runs/run_1/steps/train/log"
    pieces = {"0": ("one\n", 10, False), "10": ("\x1b[31mtwo\x1b[0m\n", 20, True), "20": ("", 20, True)}

    def answer(request):
        data, following, is_complete = pieces[request.url.params["offset"]]
        return {"data": data, "next_offset": following, "is_complete": is_complete}

    server.on("GET", log, answer)

    assert cli("run", "logs", "run_1", "train").stdout == "one\n\x1b[31mtwo\x1b[0m\n"
    shown = json.loads(cli("run", "logs", "run_1", "--json").stdout)["items"]
    assert shown == [{"step": "train", "index": None, "text": "one\n\x1b[31mtwo\x1b[0m\n"}]


def test_following_a_log_waits_for_the_rest_and_tells_how_the_run_ended(cli, server):
    server.on("GET", "/runs/run_1", [run("running", step("train", "running")), run("failed", step("train", "failed"))])
    answers = [
        {"data": "a\n", "next_offset": 2, "is_complete": False},
        {"data": "", "next_offset": 2, "is_complete": False},
        {"data": "b\n", "next_offset": 4, "is_complete": True},
        {"data": "", "next_offset": 4, "is_complete": True},
    ]
    server.on("GET", "/runs/run_1/steps/train/log", answers)

    done = cli("run", "logs", "run_1", "train", "--follow")

    assert (done.stdout, done.exit_code) == ("a\nb\n", 1)


def test_a_step_of_a_grid_is_named_with_its_number(cli, server):
    server.on("GET", "/runs/run_1", run("succeeded", step("train", index=0), step("train", index=1)))
    server.on("GET", "/runs/run_1/steps/train/log", {"data": "", "next_offset": 0, "is_complete": True})

    assert cli("run", "logs", "run_1", "train[1]").exit_code == 0
    assert server.asked[-1][2]["index"] == "1"


def test_a_step_of_a_grid_is_named_with_its_values(cli, server):
    tries = [step("train", index=0, label="train C=1"), step("train", index=1, label="train C=10")]
    server.on("GET", "/runs/run_1", run("failed", *tries))
    server.on("GET", "/runs/run_1/steps/train/log", {"data": "", "next_offset": 0, "is_complete": True})
    server.on("POST", "/runs/run_1/retry", run("running"))

    assert cli("run", "logs", "run_1", "train C=10").exit_code == 0
    assert server.asked[-1][2]["index"] == "1"
    assert cli("run", "retry", "run_1", "--from", "train C=10").exit_code == 0
    assert server.bodies("POST", "/runs/run_1/retry") == [{"step": "train", "index": 1}]


@pytest.mark.parametrize("command", [["logs", "run_1", "train"], ["keep", "run_1", "train", "models"]])
def test_a_step_of_a_grid_that_is_named_alone_is_refused_with_its_tries(cli, server, command):
    tries = [step("train", index=index, label=f"train C={index}") for index in range(12)]
    server.on("GET", "/runs/run_1", run("succeeded", *tries))

    done = cli("run", *command)

    assert (done.exit_code, len(server.asked)) == (2, 1)
    assert "'train' has 12 tries; it must be one of them." in done.stderr
    assert "Name one: 'train C=0', 'train C=1'," in done.stderr
    assert "and 2 more." in done.stderr


def test_a_step_that_does_not_exist_is_answered_with_those_that_do(cli, server):
    server.on("GET", "/runs/run_1", run("succeeded", step("prepare"), step("train")))

    done = cli("run", "logs", "run_1", "deploy")

    assert done.exit_code == 3
    assert "Its steps are: prepare, train." in done.stderr


def test_runs_are_cancelled_and_retried(cli, server):
    server.on("POST", "/runs/run_1/cancel", run("cancelled"))
    server.on("POST", "/runs/run_1/retry", run("running"))

    assert json.loads(cli("run", "cancel", "run_1", "--json").stdout)["state"] == "cancelled"
    assert json.loads(cli("run", "retry", "run_1", "--json").stdout)["state"] == "running"
    assert server.bodies("POST", "/runs/run_1/retry") == [{}]


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("train", {"step": "train", "index": None}),
        ("train[2]", {"step": "train", "index": 2}),
        ("train-3", {"step": "train", "index": 3}),
    ],
)
def test_a_retry_can_begin_at_a_step(cli, server, name, sent):
    parts = [step("train", index=index, label=f"train-{index}") for index in range(4)]
    server.on("GET", "/runs/run_1", run("failed", *parts))
    server.on("POST", "/runs/run_1/retry", run("running"))

    assert cli("run", "retry", "run_1", "--from", name).exit_code == 0

    assert server.bodies("POST", "/runs/run_1/retry") == [sent]


def test_experiments_are_listed_and_shown(cli, server):
    shown = experiment(
        data=[{"name": "digits", "reference": "team/digits@main", "dataset": "team/digits", "commit": COMMIT_ID}],
        code={"commit": "c" * 40, "diff_hash": "d"},
    )
    server.on("GET", "/experiments", page(shown))
    server.on("GET", "/experiments/ex_1", shown)

    listed = cli("experiment", "list", "--run", "run_1")
    text = cli("experiment", "show", "ex_1").stdout

    assert "accuracy=0.97, kind=svm" in listed.stdout
    assert "team/digits@abababab" in text
    assert "cccccccccccc with changes that are not committed" in text
    assert json.loads(cli("experiment", "show", "ex_1", "--json").stdout) == shown


def test_yes_and_no_are_written_as_a_filter_takes_them(cli, server):
    server.on("GET", "/experiments/ex_1", experiment(parameters={"amp": True}, tags={"best": False}))

    shown = cli("experiment", "show", "ex_1").stdout

    assert "amp=true" in shown
    assert "best=false" in shown


def test_experiments_are_filtered_and_sorted_by_the_server(cli, server):
    server.on("GET", "/experiments", page(experiment()))

    cli("experiment", "list", "--filter", "metrics.accuracy > 0.9", "--sort=-metrics.accuracy")

    [(_, _, query, _)] = server.asked
    assert query["recorded"] == "true"
    assert (query["filter"], query["sort"]) == ("metrics.accuracy > 0.9", "-metrics.accuracy")


def test_every_attempt_of_every_step_is_listed_when_asked_for_and_simulated_ones_say_so(cli, server):
    server.on("GET", "/experiments", page(experiment(is_simulated=True)))

    listed = cli("experiment", "list", "--all").stdout

    assert "recorded" not in server.asked[-1][2]
    assert "✔ succeeded (simulated)" in listed


def test_experiments_are_compared_side_by_side_and_differences_marked(cli, server):
    server.on("GET", "/experiments/ex_1", experiment())
    server.on("GET", "/experiments/ex_2", experiment(id="ex_2", metrics={"accuracy": 0.5, "loss": 1.0}))
    server.on("GET", "/experiments/compare", {"items": []})

    rows = [line.split() for line in cli("experiment", "compare", "ex_1", "ex_2").stdout.splitlines()]

    assert rows[0] == ["ex_1", "ex_2"]
    assert ["parameter", "lr", "0.1", "0.1"] in rows
    assert ["metric", "accuracy", "*", "0.97", "0.5"] in rows
    assert ["metric", "loss", "*", "-", "1"] in rows
    assert cli("experiment", "compare", "ex_1", "ex_2", "--json").exit_code == 0
    assert server.asked[-1][2] == {"ids": "ex_1,ex_2"}


def test_the_code_beside_a_flow_goes_along_unless_it_shall_not(cli, server, flow_file):
    (flow_file().parent / "train.py").write_text("print(1)")
    server.refuse("POST", "/code/uploads", 404)  # as a server of the release before does
    server.on("POST", "/flows/bundles", {"bundle": "b" * 64, "size_bytes": 1, "files": 1}, status=201)
    server.on("POST", "/flows", VERSION, status=201)

    cli("flow", "push", "flow.yaml", "--project", "team")
    cli("flow", "push", "flow.yaml", "--project", "team", "--no-code")

    assert [body.get("bundle") for body in server.bodies("POST", "/flows")] == ["b" * 64, None]
    assert [query for _, path, query, _ in server.asked if path == "/flows/bundles"] == [{"project": "team"}]


def test_the_file_of_a_stored_flow_is_printed_as_it_is(cli, server):
    flow = {"project": "team", "name": "digits", "version": {"number": 2, "text": "flow: digits  # yes"}}
    server.on("GET", "/flows/team/digits", flow | {"updated_at": None})

    assert cli("flow", "show", "team/digits", "--version", "2").stdout == "flow: digits  # yes\n"
    assert server.asked == [("GET", "/flows/team/digits", {"version": "2"}, None)]
