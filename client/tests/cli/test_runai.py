"""`alias runai=nearline`: the command lines of TR-4858 as they are printed there, and what is refused, in words."""

import json
import shlex

import pytest

QUICKSTART = "gcr.io/run-ai-demo/quickstart"
TRAINING = {"gpu_milli": 1000, "is_preemptible": True}
NOTEBOOK = [
    "--service-type=ingress --port 8888",
    '--args="--NotebookApp.base_url=team-a-test-ingress" --command=start-notebook.sh',
]
NETAPP = """submit netapp1 -i netapp/tensorflow-tfl-py3:20.01.0 --local-image --large-shm -v /mnt:/mnt -v /tmp:/tmp
 --command python --args "/netapp/scripts/run.py"
 --args "--dataset_dir=/mnt/mount_0/dataset/imagenet/imagenet_original/"
 --args "--num_mounts=2" --args "--dgx_version=dgx1" --args "--num_devices=1" -g 1 -p team-a"""

FOLDER = "/root" + "/runai-robin-test"
SEARCH = "gcr.io/run-ai-demo/quickstart-hpo"
DISTRIBUTED = "gcr.io/run-ai-demo/quickstart-distributed:v0.3.0"
TEAM_A_NOTEBOOK = f"submit a-1-1-jupyter -i jupyter/base-notebook -g 1 --interactive {' '.join(NOTEBOOK)} -p team-a"


def walk_line(name, gpus):
    """Return a submission of sections 4.8 to 4.10, whose names begin with the team's; parts of GPUs are interactive."""
    kind = " --interactive" if "." in gpus else ""
    return f"submit {name} -i {QUICKSTART} -g {gpus}{kind} -p team-{name[0]}"


WALK = [
    *[("a-1-g", "1"), ("a-2-gg", "2"), ("b-1-g06", "0.6"), ("b-2-g04", "0.4"), ("b-3-g", "1"), ("b-4-gg", "2")],
    *[("c-1-g05", "0.5"), ("c-2-g03", "0.3"), ("c-3-g02", "0.2"), ("c-4-gg", "2"), ("c-5-g", "1"), ("d-1-gggg", "4")],
    *[("d-2-gg", "2"), ("d-3-gg", "2"), ("a-3-gg", "2"), ("a-4-gg", "2"), ("b-5-gg", "2"), ("c-6-gg", "2")],
]

# What each submission of the papers, as it stands there, asks of the server besides project, name and image.
SUBMISSIONS = [
    (f"submit hyper1 -i {QUICKSTART} -g 1", TRAINING),
    (
        "submit build1 -i python -g 1 --interactive --command sleep --args infinity",
        {"command": "sleep infinity", "is_preemptible": False, "priority": "build"},
    ),
    (
        (
            "submit test-ingress -i jupyter/base-notebook -g 1 --interactive --service-type=ingress --port 8888 "
            '--args="--NotebookApp.base_url=test-ingress" --command=start-notebook.sh'
        ),
        {"command": "start-notebook.sh --NotebookApp.base_url=test-ingress", "ports": [8888]},
    ),
    (
        NETAPP.replace("\n", ""),
        {
            "command": "python /netapp/scripts/run.py --dataset_dir=/mnt/mount_0/dataset/imagenet/imagenet_original/ "
            "--num_mounts=2 --dgx_version=dgx1 --num_devices=1",
            "volumes": ["/mnt:/mnt", "/tmp:/tmp"],
            "gpu_milli": 1000,
        },
    ),
    (f"submit frac05 -i {QUICKSTART} -g 0.5 --interactive", {"gpu_milli": 500, "is_preemptible": False}),
    (f"submit frac03 -i {QUICKSTART} -g 0.3", {"gpu_milli": 300, "is_preemptible": True}),
    (
        f"submit pvc-test -p team-a --pvc test:/tmp/pvc1mount -i {QUICKSTART} -g 1",
        {"volumes": ["test:/tmp/pvc1mount"]},
    ),
    (f"submit qf-a2 -i {QUICKSTART} -g 1", TRAINING),
    (TEAM_A_NOTEBOOK, {"ports": [8888], "is_preemptible": False}),
    *(
        (walk_line(name, gpus), {"gpu_milli": round(1000 * float(gpus)), "is_preemptible": "." not in gpus})
        for name, gpus in WALK
    ),
    (
        f"submit hpo1 -i {SEARCH} -g 2 --parallelism 2 --completions 4 -v {FOLDER}:/nfs",
        {"gpu_milli": 2000, "parallelism": 2, "completions": 4, "volumes": [f"{FOLDER}:/nfs"]},
    ),
    (
        (
            "submit train-with-checkpoints -i tensorflow/tensorflow:1.14.0-gpu-py3 -v /mnt/nfs_share/john:/mydir -g 1 "
            "--working-dir /mydir --command -- ./startup.sh"
        ),
        {"command": "cd /mydir && exec ./startup.sh", "volumes": ["/mnt/nfs_share/john:/mydir"]},
    ),
    (
        f"submit-dist mpi --workers=2 -g 1 -i {DISTRIBUTED} -e RUNAI_SLEEP_SECS=60",
        {"replicas": 2, "gpu_milli": 1000, "command": "", "env": {"RUNAI_SLEEP_SECS": "60"}},
    ),
    (f"submit memory1 -i {QUICKSTART} --gpu-memory 4G -p team-a", {"gpu_memory_bytes": 4 * 10**9}),
    (f"submit slice1 -i {QUICKSTART} --mig 2g.10gb -p team-a", {"mig_profile": "2g.10gb"}),
    (
        f"submit elastic1 -i {QUICKSTART} -g 1 --elastic --node-type dgx -p team-a",
        {"gpu_milli": 1000, "replicas": 2, "min_replicas": 1, "node_labels": ["run.ai/type=dgx"]},
    ),
]


def job(name="hyper1", project="team-a", **facts):
    said = {"state": "running", "resource": "lab", "template": "lab.1-gpu", "node": "lab-1", "gpu_milli": 1000}
    said |= {"reason": "", "created_at": "2026-11-21T12:00:00Z", "is_simulated": True, "image": QUICKSTART}
    return {"name": name, "project": project, "submitted_by": "ada", **said, **facts}


def paths(server):
    return [f"{method} {path}" for method, path, *_ in server.asked]


@pytest.fixture
def runai(cli, server, monkeypatch):
    """Run a line as the paper prints it, without its first word. The default project is team-a."""
    monkeypatch.setenv("NEARLINE_PROJECT", "team-a")
    return lambda line: cli(*shlex.split(line))


@pytest.mark.parametrize(("line", "asked"), SUBMISSIONS, ids=[line.split()[1] for line, _ in SUBMISSIONS])
def test_a_submission_of_the_paper_asks_for_what_it_says(runai, server, line, asked):
    server.on("POST", "/compute/jobs", job())
    server.on("POST", "/compute/jobs/try", {"is_simulated": True})

    done = runai(line)

    assert done.exit_code == 0, done.output
    first, second = done.stdout.splitlines()
    assert first == "The job 'hyper1' has been submitted successfully"
    assert second.startswith("You can run `runai describe job hyper1 -p team-")
    (body,) = server.bodies("POST", "/compute/jobs")
    assert {key: body[key] for key in asked} == asked
    assert body["image"] in line


def test_the_list_has_the_columns_of_the_paper_and_no_deleted_job(runai, server):
    items = [
        job("hyper1", is_simulated=False),
        job("gone", state="cancelled"),
        job("build1", state="pending", node="", is_preemptible=False, is_simulated=False),
    ]
    server.on("GET", "/compute/jobs", {"items": items, "next_cursor": None})

    for line in ("list", "list jobs", "list -p team-a"):
        done = runai(line)
        heads, build, hyper = done.stdout.splitlines()
        assert heads.split("  ")[0] == "NAME"
        assert [head.strip() for head in heads.split("  ") if head.strip()] == [
            *("NAME", "STATUS", "AGE", "NODE", "IMAGE", "TYPE", "PROJECT", "USER", "GPUs"),
            *("CREATED BY CLI", "SERVICE URL(S)"),
        ]
        assert build.split()[:2] + build.split()[3:9] == [
            *("build1", "Pending", "-", QUICKSTART, "Interactive", "team-a", "ada", "1")
        ]
        assert hyper.split()[:2] + hyper.split()[3:9] == [
            *("hyper1", "Running", "lab-1", QUICKSTART, "Train", "team-a", "ada", "1")
        ]
        assert done.stderr == "Showing jobs for project team-a\n"
    assert {query["project"] for _, _, query, _ in server.asked} == {"team-a"}


def test_simulated_jobs_are_marked_behind_the_columns_of_the_paper(runai, server):
    items = [job("a"), job("b", state="pending", node=""), job("c", is_simulated=False)]
    server.on("GET", "/compute/jobs", {"items": items, "next_cursor": None})
    server.on("GET", "/compute/jobs/a", items[0])
    server.on("GET", "/compute/jobs/c", items[2])

    heads, *rows = [line.split() for line in runai("list").stdout.splitlines()]

    assert heads[-3:] == ["SERVICE", "URL(S)", "SIMULATED"]
    assert [(row[0], row[5], row[-1]) for row in rows] == [
        ("a", "Train", "simulated"),
        ("b", "Train", "simulated"),
        ("c", "Train", "-"),
    ]
    statuses = [
        next(line.split()[1:] for line in runai(f"describe job {name}").stdout.splitlines() if "STATUS:" in line)
        for name in ("a", "c")
    ]
    assert statuses == [["Running", "(simulated)"], ["Running"]]


def test_a_gang_is_listed_with_all_of_its_nodes_and_only_what_runs_counts_as_running(runai, server):
    replicas = [
        {"node": f"lab-{n}", "gpus": [], "state": s, "reason": ""} for n, s in ((1, "running"), (2, "starting"))
    ]
    gang = job("dist1", state="starting", replica_count=2, nodes=["lab-1", "lab-2"], replicas=replicas, gpu_milli=0)
    server.on("GET", "/compute/jobs", {"items": [gang], "next_cursor": None})
    server.on("GET", "/compute/jobs/dist1", gang)

    [_, listed] = runai("list").stdout.splitlines()
    shown = [line.split() for line in runai("describe job dist1").stdout.splitlines()]

    assert "lab-1 and 1 more" in listed
    assert ["RUNNING", "PODS:", "1"] in shown
    assert ["PENDING", "PODS:", "1"] in shown


def test_what_a_limit_ended_is_listed_like_other_jobs_that_have_ended(runai, server):
    limits = ("time_limit", "idle_limit")
    items = [job(limit, state="cancelled", reason_code=limit) for limit in limits]
    server.on("GET", "/compute/jobs", {"items": items, "next_cursor": None})

    listed = runai("list").stdout.splitlines()[1:]

    assert [line.split()[:2] for line in listed] == [["idle_limit", "TimedOut"], ["time_limit", "TimedOut"]]


@pytest.mark.parametrize("line", ["get hyper1", "get job hyper1", "describe job hyper1 -p team-a"])
def test_a_job_is_shown_with_its_pods_and_events(runai, server, line):
    events = [{"seq": 1, "state": "running", "message": "The job runs.", "at": "2026-11-21T12:00:01.5Z"}]
    server.on("GET", "/compute/jobs/hyper1", job(events=events, command="sleep 1", volumes=["/mnt:/mnt"]))

    out = runai(line).stdout

    for words in (
        ["NAME:", "hyper1"],
        ["STATUS:", "Running", "(simulated)"],
        ["GPUS:", "1"],
        ["VOLUMES:", "/mnt:/mnt"],
    ):
        assert words in [text.split() for text in out.splitlines()]
    assert "hyper1-0" in out
    assert "The job runs." in out
    assert json.loads(runai("get hyper1 -o json").stdout)["name"] == "hyper1"


GPUS = [
    {"index": 0, "model": "V100", "memory_bytes": 2**35, "held_milli": 600},
    {"index": 1, "model": "V100", "memory_bytes": 2**35, "held_milli": 0},
]


RESOURCE = {"name": "lab", "kind": "simulated", "state": "ready", "is_simulated": True}


def node(name, resource):
    sizes = {"cpu_millicores": 4000, "memory_bytes": 2**30, "cpu_held_millicores": 500, "memory_held_bytes": 2**29}
    facts = {"is_ready": True, "is_simulated": True, "labels": {"rack": "a", "zone": "z"}, "gpus": GPUS}
    return {"id": f"{resource}-{name}", "name": name, "resource": resource, **facts, **sizes}


def test_a_node_is_shown_with_its_gpus(runai, server):
    server.on("GET", "/scheduler/nodes", {"items": [node("lab-1", "lab"), node("lab-2", "lab")]})
    server.on("GET", "/compute/resources", {"items": [RESOURCE]})

    done = runai("describe node lab-1")

    assert done.exit_code == 0
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["NAME:", "lab-1", "(simulated)"],
        ["RESOURCE:", "lab"],
        ["STATUS:", "Ready"],
        ["LABELS:", "rack=a,", "zone=z"],
        ["CPU", "(allocated/total):", "0.5/4"],
        ["MEMORY", "(allocated/total):", "512", "MiB/1", "GiB"],
        ["GPUs", "(allocated/total):", "0.6/2"],
        [],
        ["GPUs:"],
        ["GPU", "TYPE", "MEMORY", "ALLOCATED"],
        ["0", "V100", "32", "GiB", "0.6"],
        ["1", "V100", "32", "GiB", "0"],
    ]
    assert json.loads(runai("describe node lab-1 -o json").stdout)["id"] == "lab-lab-1"


def test_a_node_that_there_is_not_or_several_of_a_name_are_told(runai, server):
    server.on("GET", "/scheduler/nodes", {"items": [node("gpu-1", "near"), node("gpu-1", "far")]})
    server.on("GET", "/compute/resources", {"items": [RESOURCE]})

    missing = runai("describe node nope")
    several = runai("describe node gpu-1")

    assert (missing.exit_code, missing.stderr.splitlines()[0]) == (3, "✗ There is no node called 'nope'.")
    assert several.exit_code == 2
    assert several.stderr.splitlines()[0] == "✗ 2 nodes are called 'gpu-1': near/gpu-1, far/gpu-1."
    assert runai("describe node far/gpu-1 --quiet").stdout == "gpu-1 (simulated)\n"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("describe nope x", "'nope' cannot be shown."),
        ("describe job a b", "Only one job can be shown: 'b' is one too many."),
        ("describe node a b", "Only one node can be shown: 'b' is one too many."),
        *(
            (f"submit x -i {QUICKSTART} -v {text}", f"-v '{text}' is not written as HOST:PATH[:ro|rw].")
            for text in ("/mnt", "a:b:rw", "/a:/b:xx", ":/b", "/a:/b:ro:/c")
        ),
        *(
            (f"submit x -i {QUICKSTART} --pvc {text}", f"--pvc '{text}' is not written as NAME:PATH[:ro].")
            for text in ("data", "data:b", ":/b", ":10x:/d", "data:/b:rw", "fast:10Gi:/b:rw")
        ),
        (f"submit '' -i {QUICKSTART}", "The name of the job is empty."),
        (f"submit --name '' -i {QUICKSTART}", "The name of the job is empty."),
        (f"submit-dist mpi '' -i {QUICKSTART}", "The name of the job is empty."),
    ],
)
def test_a_refusal_says_what_is_wrong(runai, server, line, words):
    done = runai(line)

    assert (done.exit_code, done.stderr.splitlines()[0]) == (2, f"✗ {words}")
    assert server.asked == []


def test_volumes_and_claims_are_sent_as_they_are_written(runai, server):
    server.on("POST", "/compute/jobs", job())
    volumes = ["/raid/john:/data", "/raid:/data:ro"]
    claims, new = ["data:/d", "data:/d:ro"], [":10Gi:/d", "fast:1.5T:/d:ro"]

    options = [*(f"-v {each}" for each in volumes), *(f"--pvc {each}" for each in [*claims, *new])]
    runai(f"submit x -i {QUICKSTART} {' '.join(options)}")

    [asked] = server.bodies("POST", "/compute/jobs")
    assert asked["volumes"] == [*volumes, *claims, *(f"claim {each}" for each in new)]


def test_several_jobs_are_deleted_without_asking_and_a_missing_one_stops_no_other(runai, server):
    server.refuse("GET", "/compute/jobs/d-1-gggg", 404, title="No such job.")
    for name in ("d-2-gg", "d-3-gg"):
        server.on("GET", f"/compute/jobs/{name}", job(name, "team-d"))
        server.on("DELETE", f"/compute/jobs/{name}", None, status=204)

    done = runai("delete -p team-d d-1-gggg d-2-gg d-3-gg")

    assert done.stdout.splitlines() == ["Job d-2-gg deleted successfully.", "Job d-3-gg deleted successfully."]
    assert (done.exit_code, "No such job." in done.stderr) == (3, True)


def test_a_job_whose_name_a_deleted_one_had_is_shown_as_it_was_called(runai, server):
    server.on("GET", "/compute/jobs", {"items": [job("train.2", "team-d", label="train", kind="job")]})

    out = runai("list -p team-d").stdout

    assert [line.split()[0] for line in out.splitlines()] == ["NAME", "train"]


def test_a_job_that_cannot_be_resumed_keeps_none_of_the_others_from_it(runai, server):
    for name in ("busy", "idle"):
        server.on("GET", f"/compute/jobs/{name}", job(name))
    server.refuse("POST", "/compute/jobs/busy/resume", 409, "busy is not suspended: it is running.")
    server.on("POST", "/compute/jobs/idle/resume", job("idle", state="pending"))

    done = runai("resume busy idle")

    assert done.stdout.splitlines() == ["Job idle resumed successfully."]
    assert (done.exit_code, "busy is not suspended" in done.stderr) == (5, True)


def test_a_job_that_has_ended_is_not_said_to_be_suspended(runai, server):
    server.on("GET", "/compute/jobs/hyper1", job(state="failed"))
    server.on("POST", "/compute/jobs/hyper1/suspend", job(state="failed"))

    done = runai("suspend hyper1")

    assert (done.exit_code, done.stdout) == (5, "")
    assert done.stderr.startswith("✗ The job hyper1 was not suspended: it is failed.")


def test_a_job_of_another_project_is_not_deleted(runai, server):
    server.on("GET", "/compute/jobs/hyper1", job())

    done = runai("delete -p team-b hyper1")

    assert (done.exit_code, done.stderr) == (3, "✗ The job hyper1 does not exist in project team-b.\n")
    assert paths(server) == ["GET /compute/jobs/hyper1"]


@pytest.mark.parametrize("verb", ["suspend", "resume"])
def test_a_job_is_suspended_and_resumed(runai, server, verb):
    server.on("GET", "/compute/jobs/hyper1", job())
    server.on("POST", f"/compute/jobs/hyper1/{verb}", job(state="suspended"))

    assert runai(f"{verb} hyper1").stdout.startswith(f"Job hyper1 {verb}")
    assert paths(server)[-1] == f"POST /compute/jobs/hyper1/{verb}"


def test_logs_are_printed_and_their_end_alone_where_asked_for(runai, server):
    server.on("GET", "/compute/jobs/hyper1", job())
    piece = {"text": "one\ntwo\nthree\n", "next_offset": 14, "is_complete": True}
    rest = {"text": "", "next_offset": 14, "is_complete": True}
    for line, shown in (("logs hyper1", "one\ntwo\nthree\n"), ("logs hyper1 --tail 2", "two\nthree\n")):
        server.on("GET", "/compute/jobs/hyper1/log", [piece, rest])
        assert runai(line).stdout == shown


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("bash build1", ["/bin/sh", "-c", "command -v bash >/dev/null && exec bash || exec sh"]),
        ("exec build1 ls -l", ["ls", "-l"]),
        ("exec build1 -- ls -l", ["ls", "-l"]),
        ("exec -p team-a build1 -i cat", ["cat"]),
    ],
)
def test_commands_run_in_a_job(runai, server, line, command):
    server.on("GET", "/compute/jobs/build1", job("build1"))
    server.on("POST", "/compute/jobs/build1/exec", b'{"stdout": "b25l"}\n{"exit_code": 3}\n')

    done = runai(line)

    assert (done.stdout, done.exit_code) == ("one", 3)
    (body,) = server.bodies("POST", "/compute/jobs/build1/exec")
    assert body["command"] == command


def test_a_resource_without_shells_refuses_in_words(runai, server):
    server.on("GET", "/compute/jobs/build1", job("build1"))
    title = "Commands can be run in jobs of clusters; lab is of kind simulated."
    server.refuse("POST", "/compute/jobs/build1/exec", 409, title=title, code="compute.command_refused")

    done = runai("bash build1")

    assert (done.exit_code, done.stderr) == (5, f"✗ {title}\n")


@pytest.mark.parametrize("line", ["config project team-b", "project set team-b"])
def test_the_default_project_is_remembered(runai, server, here, monkeypatch, line):
    server.on("GET", "/projects", {"items": [{"name": "team-b", "description": "", "role": "admin"}]})
    monkeypatch.delenv("NEARLINE_PROJECT")

    done = runai(line)

    assert done.stderr == "✔ Project team-b has been set as default project.\n"
    server.on("GET", "/compute/jobs", {"items": [], "next_cursor": None})
    assert "Showing jobs for project team-b" in runai("list jobs").stderr


def test_a_project_that_is_not_yours_is_not_remembered(runai, server):
    server.on("GET", "/projects", {"items": []})

    assert runai("config project nobody").exit_code == 3


def test_projects_nodes_and_what_is_held_of_them_are_listed(runai, server):
    queue = {"pool": "default", "project": "team-a", "gpu_quota_milli": 4000, "interactive_run_at_most_s": 28800}
    quick = queue | {"pool": "quick", "gpu_quota_milli": 1500, "interactive_run_at_most_s": None}
    server.on("GET", "/scheduler/pools", {"items": [{"name": "default"}, {"name": "quick"}]})
    server.on("GET", "/scheduler/queues", [{"items": [queue]}, {"items": [quick]}])
    server.on("GET", "/scheduler/nodes", {"items": [node("lab-1", "lab")]})

    heads, row = runai("list projects").stdout.splitlines()
    assert heads.split("  ")[0] == "PROJECT"
    assert [cell.strip() for cell in row.split("  ") if cell.strip()] == [
        *("team-a (default)", "default", "5.5", "8 h", "none", "none")
    ]
    server.on("GET", "/compute/resources", {"items": [RESOURCE]})
    assert runai("list nodes").stdout.splitlines()[1].split()[-3:] == ["V100", "2", "1.4"]
    assert runai("top node").stdout.splitlines()[1].split()[:3] == ["lab-1", "0.6/2", "0.5/4"]
    assert runai("top node").stdout.splitlines()[1].split()[-2:] == ["30%", "simulated"]


def test_gpus_that_pods_of_others_hold_are_counted_where_nodes_are_listed_and_shown(runai, server):
    full = node("lab-2", "lab") | {"gpus": []}
    server.on("GET", "/scheduler/nodes", {"items": [node("lab-1", "lab"), full]})
    server.on("GET", "/compute/resources", {"items": [RESOURCE | {"foreign_gpus": {"lab-1": 1, "lab-2": 2}}]})

    listed = [line.split()[-2:] for line in runai("list nodes").stdout.splitlines()[1:]]
    held = [line.split()[1] for line in runai("top node").stdout.splitlines()[1:]]
    shown = runai("describe node lab-1").stdout

    assert listed == [["3", "1.4"], ["2", "0"]]
    assert held == ["1.6/3", "2/2"]
    assert "1.6/3" in shown
    assert shown.endswith("and 1 GPU that pods of others hold.\n")


def test_a_search_tells_its_parts_as_pods(runai, server):
    parts = [
        {"part_index": index, "node": "lab-1", "state": state, "reason": "", "evictions": 0}
        for index, state in enumerate(["succeeded", "running", "running", "pending"])
    ]
    parts = [{**part, "name": f"hpo1-{part['part_index']}.1"} for part in parts]
    sizes = {"gpu_milli": 2000, "completions": 4, "parallelism": 3, "parts_done": 1, "parts_running": 2}
    server.on(
        "GET", "/compute/jobs/hpo1", job("hpo1", **sizes, parts=parts, reason="1 of 4 done, 2 running, 1 waiting")
    )

    lines = runai("describe job hpo1").stdout.splitlines()

    told = {line.partition(":")[0]: line.split()[-1] for line in lines if ":" in line}
    assert [told[name] for name in ("TOTAL REQUESTED GPUS", "ALLOCATED GPUS", "RUNNING PODS", "PENDING PODS")] == [
        *"6421"
    ]
    assert [told[name] for name in ("PARALLELISM", "COMPLETIONS", "SUCCEEDED PODS", "FAILED PODS")] == [*"3410"]
    assert sum(line.startswith("hpo1-") for line in lines) == 4


def test_what_a_flag_cannot_mean_here_is_refused_by_name_and_nothing_is_asked(runai, server):
    flags = ["--working-dir /mydir", "--ttl-after-finish 5s", "--cpu-limit 2", "--host-ipc"]
    flags += [
        "--memory 2G --memory-limit 4G",
        "--image-pull-policy Always",
        "--git-sync x",
        "--inference",
        "-t",
        "--attach",
    ]
    for flag in flags:
        done = runai(f"submit x -i {QUICKSTART} {flag} --json")
        problem = json.loads(done.stderr)
        assert (done.exit_code, problem["code"]) == (2, "client.flag_refused"), flag
        assert problem["hint"]
    assert server.asked == []


@pytest.mark.parametrize(
    "line",
    [
        "submit x -g 1",
        f"submit x -i {QUICKSTART} --bogus",
        f"submit x -i {QUICKSTART} --parallelism 2 --completions 4 --interactive",
        f"submit x -i {QUICKSTART} --backoff-limit 3 --interactive",
        f"submit x -i {QUICKSTART} --parallelism 0",
        f"submit x -i {QUICKSTART} -g -1",
        f"submit x -i {QUICKSTART} -g nan",
        f"submit x -i {QUICKSTART} -g 1e308",
        f"submit x -i {QUICKSTART} -g two",
        f"submit x -i {QUICKSTART} --memory lots",
        f"submit x -i {QUICKSTART} --port 99999",
        f"submit x -i {QUICKSTART} --port {'9' * 5000}",
        f"submit x -i {QUICKSTART} --port ²",
        f"submit x -i {QUICKSTART} --port 0655350",
        f"submit x -i {QUICKSTART} -e NOVALUE",
        f"submit x --name y -i {QUICKSTART}",
        f"submit x -i {QUICKSTART} --args 1",
        f"submit x -i {QUICKSTART} --service-type tunnel",
        f"submit-dist smoke x -i {QUICKSTART}",
        f"submit-dist mpi x -i {QUICKSTART} --workers 0",
        "list clouds",
        "top job",
        "config cluster c",
        "get one two",
        "get hyper1 -o toml",
        "logs hyper1 --timestamps",
        "logs hyper1 --since 5s",
        "exec hyper1 -it bash",
        "exec build1 -i",
    ],
)
def test_bad_input_is_told_and_nothing_is_submitted(runai, server, line):
    server.on("GET", "/compute/jobs/hyper1", job())
    done = runai(line)

    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert "Something broke" not in done.stderr
    assert not any(method == "POST" for method, *_ in server.asked)


def test_without_a_project_the_paper_s_words_say_so(cli, server):
    done = cli("submit", "x", "-i", QUICKSTART, "-g", "1")

    assert done.exit_code == 2
    assert "Define a project by --project flag, alternatively set a project as default" in done.stderr


@pytest.mark.parametrize("name", ["../x", "a b", "naïve", "x" * 300, "-"])
def test_an_odd_name_is_the_server_s_to_refuse_or_names_nothing(runai, server, name):
    server.refuse("POST", "/compute/jobs", 422, title="It cannot name a job.")

    done = runai(f"submit --name '{name}' -i {QUICKSTART}")

    assert (done.exit_code, done.stderr) == (6, "✗ It cannot name a job.\n")


def test_a_dry_run_submits_nothing(runai, server):
    server.on(
        "POST", "/compute/jobs/try", {"starts_now": True, "outlook": {"text": "It would start now.", "places": []}}
    )

    assert runai(f"submit x -i {QUICKSTART} -g 1 --dry-run").stdout == "It would start now.\n"
    assert paths(server) == ["POST /compute/jobs/try"]


def test_what_simulated_nodes_leave_out_is_told(runai, server):
    server.on("POST", "/compute/jobs", job(ports=[8888], volumes=["/mnt:/mnt"]))

    told = runai(f"submit x -i {QUICKSTART} --port 8888 -v /mnt:/mnt").stderr

    assert told == ("lab is simulated: no command runs, no image is pulled, no port is opened, no volume is mounted.\n")


def test_a_job_begins_in_the_folder_that_is_named(runai, server):
    server.on("POST", "/compute/jobs", job())

    runai(f"submit x -i {QUICKSTART} --working-dir '/my dir' --command -- ./train.sh --out 'a b'")

    [asked] = server.bodies("POST", "/compute/jobs")
    assert asked["command"] == "cd '/my dir' && exec ./train.sh --out 'a b'"


def test_a_limit_of_memory_is_what_is_asked_for(runai, server):
    server.on("POST", "/compute/jobs", job())

    for flags in ("--memory-limit 4G", "--memory 4G --memory-limit 4000M", "--memory 4G"):
        assert runai(f"submit x -i {QUICKSTART} {flags}").exit_code == 0

    assert {asked["memory_bytes"] for asked in server.bodies("POST", "/compute/jobs")} == {4 * 10**9}


def test_mpi_has_a_launcher_beside_its_workers(runai, server):
    server.on("POST", "/compute/jobs", job(is_simulated=False))

    runai(f"submit-dist mpi x --workers=2 -g 1 -i {DISTRIBUTED} --working-dir /src --command -- mpirun ./train")
    runai(f"submit-dist mpi x --workers=1 -g 1 -i {DISTRIBUTED} --command -- mpirun ./train")
    runai(f"submit-dist pytorch x --workers=2 -g 1 -i {DISTRIBUTED} --command -- torchrun train.py")

    asked = server.bodies("POST", "/compute/jobs")
    assert [(each["command"], each["replicas"], each.get("launcher")) for each in asked] == [
        ("cd /src && exec mpirun ./train", 2, {}),
        ("mpirun ./train", 1, None),
        ("torchrun train.py", 2, None),
    ]


def test_a_launcher_is_one_of_the_pods_of_a_job(runai, server):
    launcher = {"cpu_millicores": 500, "memory_bytes": 2**30, "worker_command": "sshd", "worker_port": 22}
    pods = [{"node": f"n{rank}", "gpus": [[0, 1000]] * bool(rank), "state": "running"} for rank in range(3)]
    server.on("GET", "/compute/jobs/x", job("x", replica_count=2, launcher=launcher, replicas=pods, gpus=[]))
    server.on("GET", "/compute/jobs/x/log?offset=0", {"text": "", "next_offset": 0, "is_complete": True})

    shown = [line.split() for line in runai("describe job x").stdout.splitlines()]

    assert ["RUNNING", "PODS:", "3"] in shown
    assert ["TOTAL", "REQUESTED", "GPUS:", "2"] in shown
    assert ["IS", "DISTRIBUTED", "WORKLOAD:", "true"] in shown
    assert [line[0] for line in shown if line and line[0].startswith("x-")] == ["x-0", "x-1", "x-2"]


@pytest.mark.parametrize(("framework", "words"), [("tf", "No $TF_CONFIG is set."), ("xgboost", "No tracker")])
def test_what_a_framework_lacks_here_is_told(runai, server, framework, words):
    server.on("POST", "/compute/jobs", job(is_simulated=False))

    assert words in runai(f"submit-dist {framework} x --workers=2 -g 1 -i {DISTRIBUTED} --command=./train").stderr


def test_the_type_of_a_job_tells_interactive_work_that_may_be_preempted(runai, server):
    kinds = {"train": {}, "build": {"is_preemptible": False, "priority": 100}, "lent": {"priority": 75}}
    items = [job(name, **{"is_preemptible": True, "priority": 50} | kind) for name, kind in kinds.items()]
    server.on("GET", "/compute/jobs", {"items": items, "next_cursor": None})

    listed = [line.split() for line in runai("list").stdout.splitlines()[1:]]

    assert {line[0]: line[5] for line in listed} == {
        "train": "Train",
        "build": "Interactive",
        "lent": "Interactive-Preemptible",
    }


def test_the_urls_of_ports_are_listed_and_shown(runai, server):
    notebook = job("nb", ports=[8888], is_simulated=False, port_urls={"8888": "/ports/8888-0-x/"})
    items = [
        notebook,
        job("waits", ports=[8888], is_simulated=False, state="pending"),
        job("plain", is_simulated=False),
    ]
    server.on("GET", "/compute/jobs", {"items": items, "next_cursor": None})
    server.on("GET", "/compute/jobs/nb", notebook)

    listed = [line.split() for line in runai("list").stdout.splitlines()[1:]]
    shown = runai("describe job nb").stdout

    [url] = {line[-1] for line in listed if line[0] == "nb"}
    assert url.startswith("http")
    assert url.endswith("/ports/8888-0-x/")
    assert {line[0]: line[-1] for line in listed if line[0] != "nb"} == {"waits": "-", "plain": "-"}
    assert ["SERVICE", "URL(S):", url] in [line.split() for line in shown.splitlines()]
    assert paths(server) == ["GET /compute/jobs", "GET /compute/jobs/nb"]


def test_who_submits_a_job_with_ports_is_told_where_their_urls_are(runai, server):
    server.on("POST", "/compute/jobs", job("nb", ports=[8888], is_simulated=False))

    told = runai(f"submit nb -i {QUICKSTART} --port 8888").stderr

    assert "`runai describe job nb` shows the URLs of its ports" in told


def test_a_job_and_a_node_are_shown_as_yaml(runai, server):
    yaml = pytest.importorskip("ruamel.yaml").YAML(typ="safe")
    events = [{"seq": 1, "state": "running", "message": "The job runs: at last.", "at": "2026-11-21T12:00:01.5Z"}]
    told = job(events=events, gpus=[[0, 1000]], started_at=None, env={"N": "yes"}, volumes=[])
    server.on("GET", "/compute/jobs/hyper1", told)
    server.on("GET", "/scheduler/nodes", {"items": [node("lab-1", "lab")]})
    server.on("GET", "/compute/resources", {"items": [RESOURCE]})

    assert yaml.load(runai("describe job hyper1 -o yaml").stdout) == told
    assert yaml.load(runai("describe node lab-1 -o yaml").stdout)["gpus"] == GPUS


def test_the_log_of_one_pod_is_printed(runai, server):
    gang = job("dist1", replica_count=2)
    search = job("hpo1", completions=2, parts=[{"name": "hpo1-0", "node": "lab-1", "state": "running", "reason": ""}])
    texts = {"dist1": "epoch 1\n[1] joined\n[1] [2] ok\nepoch 2", "hpo1-0": "part\n", "hyper1": "[1] mine\n"}
    for told in (gang, search, job("hyper1")):
        server.on("GET", f"/compute/jobs/{told['name']}", told)

    def read(line, name):
        size = len(texts[name])
        pieces = [{"text": text, "next_offset": size, "is_complete": True} for text in (texts[name], "")]
        server.on("GET", f"/compute/jobs/{name}/log", pieces)
        return runai(line).stdout

    assert read("logs dist1 --pod dist1-0", "dist1") == "epoch 1\nepoch 2"
    assert read("logs dist1 --pod dist1-1", "dist1") == "joined\n[2] ok\n"
    assert read("logs dist1 --pod dist1-1 --tail 1", "dist1") == "[2] ok\n"
    assert read("logs hpo1 --pod hpo1-0", "hpo1-0") == "part\n"
    assert read("logs hyper1 --pod hyper1-0", "hyper1") == "[1] mine\n"
    for pod in ("dist1-2", "dist1", "other-0", "dist1-²"):
        assert runai(f"logs dist1 --pod {pod}").exit_code == 3
