"""Jobs by hand: the list, and logs that are read and followed."""

import json

import pytest


def job(name="train", **facts):
    said = {"project": "team", "state": "running", "resource": "dgx", "template": "dgx.gpu-1", "node": "gpu-01"}
    return {"name": name, **said, "reason": "", "created_at": "2026-11-21T12:00:00Z", "is_unknown": False, **facts}


def test_a_job_whose_resource_does_not_answer_is_listed_as_unknown_with_the_reason(cli, server):
    why = "dgx does not answer. The job was running at the last contact, and may still be."
    server.on("GET", "/compute/jobs", {"items": [job(is_unknown=True, reason=why), job("done", state="succeeded")]})

    first, second = cli("job", "list", "--project", "team").stdout.splitlines()[1:]

    assert "unknown" in first
    assert first.rstrip().endswith(why)
    assert "succeeded" in second
    assert server.asked[0][2]["project"] == "team"


def test_a_log_is_read_to_what_there_is_now(cli, server):
    server.on(
        "GET",
        "/compute/jobs/train/log",
        [
            {"text": "one\n", "next_offset": 4, "is_complete": False},
            {"text": "", "next_offset": 4, "is_complete": False},
        ],
    )

    assert cli("job", "logs", "train").stdout == "one\n"


def test_a_followed_log_is_read_until_the_job_has_ended(cli, server):
    server.on(
        "GET",
        "/compute/jobs/train/log",
        [
            {"text": "one\n", "next_offset": 4, "is_complete": False},
            {"text": "", "next_offset": 4, "is_complete": False},
            {"text": "two\n", "next_offset": 8, "is_complete": True},
            {"text": "", "next_offset": 8, "is_complete": True},
        ],
    )

    done = cli("job", "logs", "train", "--follow", "--json")

    assert json.loads(done.stdout) == {"text": "one\ntwo\n"}


NO_CHANGES = {"made_at": "2026-11-21T12:00:00Z", "changes": [], "is_complete": True}
OUTLOOK = {
    "text": "This job waits for 2 GPUs that team-d holds by right until about 14:20 UTC; it starts about 14:20 UTC.",
    "places": [
        {
            "template": "dgx.gpu-2",
            "is_chosen": True,
            "data": {"total_bytes": 250 * 10**9, "missing_bytes": 41 * 10**9},
            "starts_at": None,
            "late_at": None,
            "run_s": 3600,
            "finishes_at": None,
        }
    ],
}


def test_why_a_job_waits_is_one_sentence_and_a_table_of_places(cli, server):
    server.on("GET", "/compute/jobs/train", job(state="pending", outlook=OUTLOOK))
    server.on("GET", "/compute/jobs/train/changes", NO_CHANGES)

    sentence, _, heads, row = cli("job", "why", "train").stdout.splitlines()

    assert sentence == OUTLOOK["text"]
    assert heads.split("  ")[0] == "PLACE"
    assert [part.strip() for part in row.split("  ") if part] == [
        "dgx.gpu-2 (waits here)",
        "41.0 GB",
        "not known",
        "not known",
        "1 h",
        "not known",
    ]
    assert json.loads(cli("job", "why", "train", "--json").stdout) == OUTLOOK


def test_where_any_place_has_a_price_the_costs_are_told(cli, server):
    elsewhere = OUTLOOK["places"][0] | {"template": "cloud.gpu-2", "is_chosen": False, "cost": 6.12}
    outlook = OUTLOOK | {"places": [*OUTLOOK["places"], elsewhere]}
    server.on("GET", "/compute/jobs/train", job(state="pending", outlook=outlook))
    server.on("GET", "/compute/jobs/train/changes", NO_CHANGES)

    *_, heads, first, second = cli("job", "why", "train").stdout.splitlines()

    assert [line.split("  ")[-1].strip() for line in (heads, first, second)] == ["COST", "-", "6.12"]


def test_what_would_help_is_a_table_below_with_whom_it_stops(cli, server):
    quota = {"text": "Raise the quota of team from 4 to 6 GPUs", "helps": True, "needs_admin": True}
    changes = [
        {**quota, "starts_at": "2026-11-21T12:00:00Z", "late_at": None, "stops_text": "sweep-3 (team-c)"},
        {"text": "Let it be preempted", "helps": False, "needs_admin": False},
    ]
    tried = {"made_at": "2026-11-21T12:00:00Z", "changes": changes, "is_complete": False}
    server.on("GET", "/compute/jobs/train", job(state="pending", outlook=OUTLOOK))
    server.on("GET", "/compute/jobs/train/changes", tried)

    done = cli("job", "why", "train", "--changes")

    assert [[part.strip() for part in row.split("  ") if part] for row in done.stdout.splitlines()[-2:]] == [
        ["Raise the quota of team from 4 to 6 GPUs (by a site admin)", "at once", "not known", "sweep-3 (team-c)"],
        ["Let it be preempted", "no sooner", "-", "-"],
    ]
    assert "Not all changes were tried: it would take too long now." in done.stderr
    told = cli("job", "why", "train").stdout.splitlines()
    assert told[-3] == "What would help, and what it does to others:"
    assert told[-1].startswith("Raise the quota of team from 4 to 6 GPUs (by a site admin)")
    assert json.loads(cli("job", "why", "train", "--changes", "--json").stdout) == tried


def test_what_would_help_a_job_without_a_start_is_told_also_to_who_may_not_try_changes(cli, server):
    advice = "raise the limit of team"
    server.on("GET", "/compute/jobs/train", job(state="pending", outlook={**OUTLOOK, "likely_at": None}, advice=advice))
    server.refuse("GET", "/compute/jobs/train/changes", 403, title="Your role in team is viewer.")

    done = cli("job", "why", "train")

    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "What would help: raise the limit of team."


def test_places_that_do_not_count_now_are_told_with_the_job(cli, server):
    closed = "lab (pool quick) does not count now: it does not answer."
    server.on("GET", "/compute/jobs/train", job(state="pending", outlook=OUTLOOK, closed_places=closed))
    server.on("GET", "/compute/jobs/train/changes", NO_CHANGES)

    assert cli("job", "why", "train").stdout.splitlines()[-1] == closed
    assert closed in cli("job", "show", "train").stdout


def test_why_of_a_job_without_a_forecast_is_its_reason(cli, server):
    server.on("GET", "/compute/jobs/train", job(state="pending", reason="needs 2 GPU", outlook=None))
    server.on("GET", "/compute/jobs/train/changes", NO_CHANGES)

    assert cli("job", "why", "train").stdout == "needs 2 GPU. There is no forecast of it yet.\n"


@pytest.mark.parametrize(
    ("name", "message"), [("", "A name is empty."), (".", "Nothing is called '.'."), ("..", "Nothing is called '..'.")]
)
def test_a_name_that_would_be_a_step_in_the_path_is_asked_of_no_server(cli, server, name, message):
    done = cli("job", "logs", name)

    assert done.exit_code == 3
    assert message in done.stderr
    assert server.asked == []


def test_a_gang_is_shown_with_the_node_and_the_state_of_each_replica(cli, server):
    replicas = [
        {"node": "gpu-01", "gpus": [[0, 1000]], "state": "running", "reason": ""},
        {"node": "gpu-02", "gpus": [[3, 1000]], "state": "starting", "reason": "The node prepares the pod."},
    ]
    server.on("GET", "/compute/jobs/train", job(replica_count=2, replicas=replicas))

    lines = [line.split() for line in cli("job", "show", "train").stdout.splitlines()]

    assert ["replicas:", "2"] in lines
    assert lines[-2][:2] + lines[-2][-1:] == ["0", "gpu-01", "running"]
    assert lines[-1][:2] == ["1", "gpu-02"]
    assert lines[-1][-6:] == ["starting", "The", "node", "prepares", "the", "pod."]


def test_a_job_is_shown_with_its_last_checkpoint(cli, server):
    text = "Last checkpoint: step 900, 40 s ago. Resumed from step 900, lost 40 s."
    server.on("GET", "/compute/jobs/train", job(checkpoint={"step": 900, "text": text}))

    lines = [line.split(maxsplit=1) for line in cli("job", "show", "train").stdout.splitlines()]

    assert ["checkpoint:", text] in lines


@pytest.mark.parametrize(
    ("facts", "shown"),
    [
        ({"gpus": [[0, 500]], "gpu_check": {"text": "Sees no GPU, was given 1."}}, "Sees no GPU, was given 1."),
        ({"gpus": [[0, 500]], "gpu_check": None}, "not known"),
        ({"gpus": [[0, 500]]}, "not known"),
        ({"gpus": [[0, 500]], "is_simulated": True}, None),
        ({"gpus": []}, None),
    ],
)
def test_a_job_is_shown_with_the_gpus_that_it_sees(cli, server, facts, shown):
    server.on("GET", "/compute/jobs/train", job(started_at="2026-11-21T12:00:00Z", **facts))

    lines = [line for line in cli("job", "show", "train").stdout.splitlines() if line.startswith("GPUs at its start:")]

    assert [line.partition(":")[2].strip() for line in lines] == ([shown] if shown else [])


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ([], ""),
        (["python train.py > log"], "python train.py > log"),
        (["--", "python", "train.py", "--lr", "0.1"], "python train.py --lr 0.1"),
        (["--", "sh", "-c", "echo a b; exit 1"], "sh -c 'echo a b; exit 1'"),
    ],
)
def test_a_job_is_submitted_with_a_line_for_a_shell_or_a_program_and_its_arguments(cli, server, words, command):
    server.on("POST", "/compute/jobs", job(), status=201)

    cli("job", "submit", "--project", "team", *words)

    assert server.asked[-1][3]["command"] == command


def test_a_job_is_submitted_with_a_checkpoint_folder_and_a_grace_period(cli, server):
    server.on("POST", "/compute/jobs", job(), status=201)

    cli("job", "submit", "python train.py", "--project", "team", "--checkpoints", "--grace-period", "60")

    body = server.asked[-1][3]
    assert (body["checkpoints"], body["grace_period_s"]) == (True, 60)


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        (["--priority", "60"], (60, True)),
        (["--priority", "inference", "--not-preemptible"], ("inference", False)),
        (["--interactive"], ("build", False)),
        (["--interactive", "--priority", "train"], ("train", False)),
        ([], (None, True)),
    ],
)
def test_a_job_is_submitted_with_a_priority(cli, server, options, asked):
    server.on("POST", "/compute/jobs", job(), status=201)

    cli("job", "submit", "python train.py", "--project", "team", *options)

    body = server.asked[-1][3]
    assert (body.get("priority"), body["is_preemptible"]) == asked


@pytest.mark.parametrize(("options", "asked"), [(["--timeout", "2h"], 7200), ([], None)])
def test_a_job_is_submitted_with_a_time_limit(cli, server, options, asked):
    server.on("POST", "/compute/jobs", job(), status=201)

    cli("job", "submit", "python train.py", "--project", "team", *options)

    assert server.asked[-1][3].get("timeout_s") == asked


def test_a_job_is_submitted_with_an_idle_limit(cli, server):
    server.on("POST", "/compute/jobs", job(), status=201)

    cli("job", "submit", "--jupyter", "--project", "team", "--idle-limit", "2h")

    assert server.asked[-1][3]["idle_limit_s"] == 7200


@pytest.mark.parametrize(("state", "told"), [("pending", "pending"), ("leaving", "queued again once it has stopped")])
def test_what_becomes_of_a_resumed_job_is_told(cli, server, state, told):
    server.on("POST", "/compute/jobs/train/resume", job(state=state))

    assert f"train is {told}." in cli("job", "resume", "train").stderr


def test_how_long_a_job_waited_ran_and_was_suspended_is_told_apart(cli, server):
    times = {"waited_s": 180.0, "ran_s": 2340.0, "suspended_s": 36000.0, "total_s": 38520.0}
    server.on("GET", "/compute/jobs/train", job(times=times))
    server.on("GET", "/compute/jobs/batch", job(times=times | {"suspended_s": 0.0}))

    assert "waited 3 min, ran 39 min, suspended 10 h, total 10 h 42 min" in cli("job", "show", "train").stdout
    assert "waited 3 min, ran 39 min, total 10 h 42 min" in cli("job", "show", "batch").stdout


def test_an_idle_job_is_told_in_the_list_and_kept(cli, server):
    idle = {"state": "idle", "limit_s": 7200, "text": "It has been idle for 1 h.", "is_warned": True}
    server.on("GET", "/compute/jobs", {"items": [job(idle=idle, why=idle["text"])], "next_cursor": None})
    server.on("GET", "/compute/jobs/train", job(idle=idle, idle_limit_s=7200))
    server.on("POST", "/compute/jobs/train/keep", job())
    server.refuse("POST", "/compute/jobs/batch/keep", 409, "batch has no idle limit.")

    listed = cli("job", "list").stdout
    shown = [line.split(maxsplit=2) for line in cli("job", "show", "train").stdout.splitlines()]
    kept = cli("job", "keep", "train", "batch")

    assert "It has been idle for 1 h." in listed
    assert ["idle", "limit:", "2 h"] in shown
    assert ["idle:", "It", "has been idle for 1 h."] in shown
    assert kept.exit_code == 5
    assert "train goes on. Its idle time counts from now." in kept.stderr
    assert "batch has no idle limit." in kept.stderr


def test_a_job_is_submitted_to_pools_in_an_order(cli, server):
    server.on("POST", "/compute/jobs", job(), status=201)

    cli("job", "submit", "python train.py", "--project", "team", "--gpus", "2", "--pool", "quick", "--pool", "default")

    assert server.asked[-1][3]["pools"] == ["quick", "default"]


def test_the_pools_the_timeout_and_the_priority_of_a_job_are_shown(cli, server):
    server.on(
        "GET",
        "/compute/jobs/train",
        job(pools=["quick", "default"], priority=100, is_preemptible=False, timeout_s=7200),
    )

    lines = [line.split(maxsplit=1) for line in cli("job", "show", "train").stdout.splitlines()]

    assert ["pools:", "quick, default"] in lines
    assert ["timeout:", "2 h"] in lines
    assert ["priority:", "100, not preemptible"] in lines


def test_a_job_is_tried_with_what_it_would_run_and_nothing_is_submitted(cli, server):
    trial = {"starts_now": True, "outlook": {"text": "It would start now on n1.", "places": []}}
    server.on("POST", "/compute/jobs/try", trial)

    out = cli("job", "try", "dgx.gpu-2", "python train.py", "--project", "team", "--data", "team/digits").stdout

    assert out == "It would start now on n1.\n"
    assert [(method, path) for method, path, *_ in server.asked] == [("POST", "/compute/jobs/try")]
    told = cli("job", "try", "dgx.gpu-2", "python train.py", "--project", "team", "--json").stdout
    assert json.loads(told) == trial


PLACED = [
    *("--gpus", "2", "--pool", "quick", "--replicas", "4", "--min-replicas", "2", "--memory", "8GiB"),
    *("--node-label", "gpu=a100", "--required-level", "rack", "--data", "team/digits", "--interactive"),
]


@pytest.mark.parametrize("verb", [["try"], ["submit", "--dry-run"]])
def test_a_job_is_tried_with_all_that_decides_where_it_starts(cli, server, verb):
    trial = {"starts_now": True, "outlook": {"text": "It would start now on n1.", "places": []}}
    server.on("POST", "/compute/jobs/try", trial)

    done = cli("job", *verb, "python train.py", "--project", "team", *PLACED)

    assert done.stdout == "It would start now on n1.\n", done.output
    assert [path for _, path, *_ in server.asked] == ["/compute/jobs/try"]
    [asked] = server.bodies("POST", "/compute/jobs/try")
    said = {
        "command": "python train.py",
        "template": "",
        "gpu_milli": 2000,
        "pools": ["quick"],
        "replicas": 4,
        "min_replicas": 2,
        "memory_bytes": 8 * 2**30,
        "node_labels": ["gpu=a100"],
        "required_level": "rack",
        "data": ["team/digits"],
        "is_preemptible": False,
        "priority": "build",
    }
    assert {key: asked[key] for key in said} == said


@pytest.mark.parametrize(
    ("flags", "launcher"),
    [
        (["--launcher"], {}),
        (["--launcher-cpu", "0.25"], {"cpu_millicores": 250}),
        (
            ["--launcher-memory", "2GiB", "--worker-command", "sshd -De", "--worker-port", "0"],
            {"memory_bytes": 2**31, "worker_command": "sshd -De", "worker_port": 0},
        ),
        ([], None),
    ],
)
def test_a_launcher_is_asked_for_by_anything_that_is_said_of_it(cli, server, flags, launcher):
    server.on("POST", "/compute/jobs", job())

    cli("job", "submit", "mpirun ./train", "--project", "team", "--gpus", "1", "--replicas", "2", *flags)

    [asked] = server.bodies("POST", "/compute/jobs")
    assert (asked["replicas"], asked.get("launcher")) == (2, launcher)


@pytest.mark.parametrize("part", [["--gpu-memory", "10GiB"], ["--mig-profile", "2g.10gb"], ["--gpus", "0.5"]])
def test_a_part_of_a_gpu_is_tried_as_it_is_submitted(cli, server, part):
    server.on("POST", "/compute/jobs/try", {"starts_now": True, "outlook": {"text": "Now.", "places": []}})
    server.on("POST", "/compute/jobs", job())

    for verb in ("try", "submit"):
        cli("job", verb, "train", "--project", "team", *part)

    [tried] = server.bodies("POST", "/compute/jobs/try")
    [submitted] = server.bodies("POST", "/compute/jobs")
    assert tried.items() <= submitted.items()


@pytest.mark.parametrize("words", [["a.b", "train", "more"], ["a.b", "train", "--template", "a.c"]])
def test_a_trial_of_two_templates_or_of_too_many_words_is_refused(cli, server, words):
    done = cli("job", "try", *words, "--project", "team")

    assert done.exit_code == 2
    assert server.asked == []


def lines(*items):
    return b"".join(json.dumps(item).encode() + b"\n" if item else b"\n" for item in items)


def test_a_command_in_a_job_prints_what_it_prints_there_and_ends_as_it_ends(cli, server):
    answer = lines({"stdout": "b25l"}, None, {"stderr": "bm8="}, {"stdout": "Cg=="}, {"exit_code": 3})
    server.on("POST", "/compute/jobs/train/exec", answer)

    done = cli("job", "exec", "train", "--replica", "2", "--", "ls", "-l")

    assert (done.stdout, done.exit_code) == ("one\n", 3)
    assert server.bodies("POST", "/compute/jobs/train/exec") == [{"command": ["ls", "-l"], "stdin": "", "replica": 2}]


def test_a_command_whose_connection_breaks_does_not_look_as_if_it_had_succeeded(cli, server):
    server.on("POST", "/compute/jobs/train/exec", lines({"stdout": "b25l"}))

    done = cli("job", "exec", "train", "--", "sleep", "9")

    assert done.exit_code != 0
    assert "it may still run" in done.stderr


def test_a_folder_is_sent_with_a_job_and_what_stays_behind_is_named(cli, server, tmp_path):
    (tmp_path / "train.py").write_text("print(1)")
    (tmp_path / "secret.txt").write_text("not for jobs")
    (tmp_path / ".nearlineignore").write_text("secret.txt\n")
    server.refuse("POST", "/code/uploads", 404)  # as a server of the release before does
    server.on("POST", "/flows/bundles", {"bundle": "ab12", "size_bytes": 8, "files": 1})
    server.on("POST", "/compute/jobs", job(is_simulated=False))

    done = cli("job", "submit", "python train.py", "--project", "team", "--code", str(tmp_path))

    (body,) = server.bodies("POST", "/compute/jobs")
    assert body["code"] == "ab12"
    assert "Left out of the code, listed in .nearlineignore: secret.txt" in done.stderr


def test_a_folder_without_code_is_refused_and_no_job_is_submitted(cli, server, tmp_path):
    empty = cli("job", "submit", "python train.py", "--project", "team", "--code", str(tmp_path))
    absent = cli("job", "submit", "python train.py", "--project", "team", "--code", str(tmp_path / "absent"))

    assert (empty.exit_code, absent.exit_code, server.asked) == (2, 2, [])
    assert "holds no code to send" in empty.stderr
    assert "is no folder" in absent.stderr


def test_jobs_are_deleted_once_that_is_confirmed(cli, server):
    server.on("DELETE", "/compute/jobs/train", None, status=204)

    asked = cli("job", "delete", "train")
    assert (asked.exit_code, server.asked) == (2, [])

    done = cli("job", "delete", "train", "--yes")
    assert (done.exit_code, "train is deleted." in done.stderr) == (0, True)
    assert [(method, path) for method, path, *_ in server.asked] == [("DELETE", "/compute/jobs/train")]
