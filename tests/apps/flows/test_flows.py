import pytest

from accounts.errors import PermissionDenied, ProjectNotFound
from accounts.permissions import Role
from accounts.services import secrets
from compute.engine.job_spec import SourceKind
from compute.errors import NoResourceFits
from compute.models import Job, Resource
from flows.errors import InvalidFlow, InvalidParameters, NothingToRetry, RunHasEnded, RunNotFinished
from flows.models import Flow, FlowVersion, Run
from flows.services import flows, runs
from tests.factories.datasets import commit_files, make_dataset, make_store
from tests.factories.flows import World, state_of, states

FLOW = """\
flow: digits
parameters:
  epochs: {type: int, default: 3}
  optimizer: {type: str, choices: [adam, sgd]}
steps:
  - {name: train, command: train}
"""


def test_the_same_content_is_the_same_version(world: World, member, project):
    first = flows.save_version(actor=member, project=project, text=FLOW)
    again = flows.save_version(actor=member, project=project, text=f"# only a comment\n{FLOW}")
    changed = flows.save_version(actor=member, project=project, text=FLOW.replace("default: 3", "default: 4"))

    assert first.pk == again.pk
    assert (first.number, changed.number) == (1, 2)
    assert Flow.objects.get().name == "digits"


def test_the_platform_adds_what_only_it_knows_with_lines(world: World, member, project):
    text = """\
flow: f
steps:
  - name: a
    command: c
    compute: [this-machine.smal, nowhere.big]
    data: [{dataset: team-a/digits@main}]
    secrets: [API_KEY]
"""
    found = flows.validate_spec(actor=member, project=project, text=text)

    assert [(problem.line, problem.code, problem.message) for problem in found.problems] == [
        (5, "unknown_template", "There is no compute template 'this-machine.smal'. Did you mean 'this-machine.small'?"),
        (5, "unknown_template", "There is no compute template 'nowhere.big'."),
        (
            6,
            "unknown_dataset",
            "There is no dataset team-a/digits, or you are not a member of its project.",
        ),
        (7, "unknown_secret", "The project has no secret called 'API_KEY'."),
    ]
    assert found.spec is None


def test_a_template_whose_jobs_cannot_mount_what_a_step_reads_is_a_problem_of_the_flow(
    world: World, member, project, tmp_path
):
    make_store(tmp_path / "store")
    commit_files(member, make_dataset(member, project, "digits"), {"a": b"a"})
    world.drivers["lab"].mountable = frozenset({SourceKind.VOLUME})
    text = """\
flow: f
steps:
  - {name: prep, command: c, compute: [lab.small]}
  - name: train
    command: c
    after: [prep]
    compute: [this-machine.small, lab.small]
    data: [{dataset: team-a/digits@main}]
"""

    found = flows.validate_spec(actor=member, project=project, text=text)

    advice = "and jobs on lab mount volumes of a cluster. Choose a template of another resource."
    origin = "it comes from folders of the platform's host and trees of the store,"
    of_step = f"lab.small cannot read the output of another step: {origin}"
    of_data = f"lab.small cannot read the dataset team-a/digits@main: {origin}"
    assert [(problem.line, problem.code, problem.message) for problem in found.problems] == [
        (6, "unmountable", f"{of_step} {advice}"),
        (8, "unmountable", f"{of_data} {advice}"),
    ]


def test_a_gang_on_a_template_that_runs_each_job_on_one_node_is_told(world: World, member, project):
    text = """\
flow: f
steps:
  - name: train
    command: c
    replicas: 3
    compute: [this-machine.small]
"""

    found = flows.validate_spec(actor=member, project=project, text=text)

    message = (
        "this-machine.small cannot run 3 replicas: a resource of kind local runs each job on one node. "
        "Choose a template of a cluster."
    )
    assert [(each.line, each.code, each.message) for each in found.problems] == [(5, "no_gangs", message)]


def test_a_launcher_is_passed_on_to_the_job_and_refused_where_no_gangs_run(world: World, member, project):
    world.add_resource("k8s", world.drivers["lab"].root, kind="kubernetes")
    step = "  - {{name: train, command: mpirun ./train, replicas: 2, launcher: {launcher}, compute: [{template}]}}"

    world.start(member, project, "flow: f\nsteps:\n" + step.format(launcher="{cpu: 0.25}", template="k8s.small"))
    world.turn()

    job = Job.objects.get()
    assert (job.replica_count, job.launcher_cpu_millicores, job.launcher_memory_bytes) == (2, 250, 2**30)
    text = "flow: f\nsteps:\n" + step.format(launcher="{}", template="this-machine.small")
    problems = flows.validate_spec(actor=member, project=project, text=text).problems
    message = (
        "this-machine.small cannot run a launcher beside replicas: a resource of kind local runs each job on one node. "
        "Choose a template of a cluster."
    )
    assert [(each.line, each.code, each.message) for each in problems] == [(3, "no_gangs", message)]


def test_a_grace_period_that_is_longer_than_an_admin_allows_is_told(world: World, member, project):
    text = """\
flow: f
steps:
  - name: train
    command: c
    grace_period: 10m
"""

    found = flows.validate_spec(actor=member, project=project, text=text)

    message = "A grace period of 600 s is longer than the 300 s that this installation allows"
    assert [(each.line, each.code, each.message.partition(" (")[0]) for each in found.problems] == [
        (5, "wrong_value", message)
    ]


def test_a_long_grace_period_is_told_without_an_exponent(world: World, member, project):
    text = "flow: f\nsteps:\n  - {name: a, command: c, grace_period: 99d}"

    found = flows.validate_spec(actor=member, project=project, text=text)

    assert [each.message.partition(" is ")[0] for each in found.problems] == ["A grace period of 8,553,600 s"]


def test_a_priority_that_is_none_is_told(world: World, member, project):
    text = (
        "flow: f\nsteps:\n  - name: a\n    command: c\n    priority: urgent\n  - {name: b, command: c, priority: 1001}"
    )

    found = flows.validate_spec(actor=member, project=project, text=text)

    names = "train, build-preemptible, build, inference"
    assert [(each.line, each.code, each.message) for each in found.problems] == [
        (5, "wrong_value", f"'urgent' is no priority: write {names}, or a number from 0 to 1000."),
        (6, "wrong_value", "'priority' must be at most 1000."),
    ]


def test_the_jobs_of_a_step_have_its_priority(world: World, member, project):
    world.start(member, project, "flow: f\nsteps: [{name: a, command: c, priority: build, preemptible: false}]")

    world.turn()

    job = Job.objects.get()
    assert (job.priority, job.is_preemptible) == (100, False)
    assert (job.workload.priority, job.workload.is_preemptible) == (100, False)


def test_checkpoints_on_a_template_that_keeps_none_are_told(world: World, member, project):
    world.add_resource("sim", world.drivers["lab"].root, kind="simulated")
    text = """\
flow: f
steps:
  - name: train
    command: c
    checkpoints: true
    compute: [this-machine.small, sim.small]
"""

    found = flows.validate_spec(actor=member, project=project, text=text)

    message = "sim.small keeps no checkpoints: resources of kind simulated have no folder that outlives a run."
    assert [(each.line, each.code, each.message) for each in found.problems if not each.is_note] == [
        (5, "no_checkpoints", message)
    ]


def test_ports_on_a_resource_where_none_can_be_reached_are_told(world: World, member, project):
    world.add_resource("box", world.drivers["lab"].root, kind="docker")
    text = "flow: f\nsteps:\n  - name: a\n    command: c\n    ports: [8080, 9090]\n    compute: [box.small]"

    found = flows.validate_spec(actor=member, project=project, text=text)

    message = "Ports of jobs on box cannot be reached; this one has 8080, 9090. Choose a template of another resource."
    assert [(each.line, each.code, each.message) for each in found.problems] == [(5, "no_ports", message)]


VOLUMES = "flow: f\nsteps:\n  - name: a\n    command: c\n    volumes: [scratch:/mnt/x]\n    compute: [{places}]"


def test_each_place_of_a_step_must_offer_its_volumes(world: World, member, project):
    world.add_resource("box", world.drivers["lab"].root, kind="docker")
    world.add_resource("k8s", world.drivers["lab"].root, kind="kubernetes", config={"job_claims": ["scratch:ro"]})
    text = VOLUMES.format(places="box.small, k8s.small")

    problems = flows.validate_spec(actor=member, project=project, text=text).problems
    reading = flows.validate_spec(actor=member, project=project, text=text.replace("/mnt/x", "/mnt/x:ro")).problems

    lacks = "box gives jobs no volumes; this one asks for scratch:/mnt/x"
    writes = "Jobs on k8s only read scratch: write scratch:/mnt/x:ro."
    assert [(each.line, each.code, each.message) for each in problems] == [
        (5, "no_volumes", writes),
        (5, "no_volumes", f"{lacks}."),
    ]
    assert [each.message for each in reading] == [f"{lacks}:ro."]


def test_the_jobs_of_a_step_have_its_volumes_for_as_long_as_they_are_offered(world: World, member, project):
    offers = {"config": {"job_claims": ["scratch"]}}
    world.add_resource("k8s", world.drivers["lab"].root, kind="kubernetes", **offers)
    run = world.start(member, project, VOLUMES.format(places="k8s.small"))
    world.turn()
    runs.cancel_run(actor=member, run=run)
    world.finish_all(run)

    Resource.objects.filter(name="k8s").update(config={})

    assert Job.objects.get().spec["volumes"] == ["scratch:/mnt/x"]
    for begin in (
        lambda: runs.start_run(actor=member, version=run.version, parameters={}),
        lambda: runs.retry_run(actor=member, run=run),
    ):
        with pytest.raises(NoResourceFits, match=r"'a' cannot run on k8s\.small: k8s gives jobs no volumes"):
            begin()
    assert Run.objects.count() == 1


def test_the_jobs_of_a_step_have_its_ports_and_its_idle_limit(world: World, member, project):
    world.start(member, project, "flow: f\nsteps: [{name: a, command: c, ports: [8080], idle_limit: 30m}]")

    world.turn()

    job = Job.objects.get()
    assert (job.idle_limit_s, job.spec["ports"]) == (1800, [8080])


def test_a_step_runs_as_parts_one_by_one_and_the_next_step_reads_all_of_them(world: World, member, project):
    run = world.start(
        member,
        project,
        "flow: f\nsteps: [{name: search, command: c, completions: 3}, {name: best, command: c, after: [search]}]",
    )

    world.turn()
    world.turn()
    assert states(run) == {"search": "running", "search[1]": "pending", "search[2]": "pending", "best": "pending"}
    world.finish_all(run)

    jobs = Job.objects.order_by("created_at")
    parts = [
        (job.title, job.spec["env"]["NEARLINE_INDEX"], job.spec["env"]["NEARLINE_COMPLETIONS"]) for job in jobs[:3]
    ]
    assert parts == [(f"f #1 · search-{index}", str(index), "3") for index in range(3)]
    assert state_of(run) == "succeeded"
    assert [mount["name"] for mount in jobs[3].spec["inputs"]] == ["search/0", "search/1", "search/2"]


def test_one_look_tells_the_mistakes_of_the_file_and_those_that_only_the_platform_sees(world: World, member, project):
    text = """\
flow: f
steps:
  - name: a
    command: c
    secrets: [API_KEY]
    after: [b]
    data: [{dataset: team-a/digits, cahced: true}]
  - name: b
    comand: c
    after: [a]
    compute: nowhere.small
"""
    found = flows.validate_spec(actor=member, project=project, text=text)

    assert [(problem.line, problem.step, problem.path, problem.code) for problem in found.problems] == [
        (5, "a", "steps[0].secrets[0]", "unknown_secret"),
        (6, "a", "steps[0].after", "cycle"),
        (7, "a", "steps[0].data[0].dataset", "unknown_dataset"),
        (7, "a", "steps[0].data[0].cahced", "unknown_key"),
        (8, "b", "steps[1].command", "missing_key"),
        (9, "b", "steps[1].comand", "unknown_key"),
        (11, "b", "steps[1].compute[0]", "unknown_template"),
    ]
    assert found.spec is None


def test_an_image_is_accepted_with_a_note_where_it_has_no_effect(world: World, member, project):
    text = "flow: f\nsteps:\n  - {name: a, command: c, image: python, compute: this-machine.small}\n"

    found = flows.validate_spec(actor=member, project=project, text=text)

    assert found.problems == ()
    assert [(note.line, note.message) for note in found.notes] == [
        (3, "The image has no effect on this machine: its jobs run as plain processes.")
    ]


def test_an_invalid_flow_is_refused_with_all_problems_and_nothing_is_stored(world: World, member, project):
    with pytest.raises(InvalidFlow, match="The flow has 2 problems") as caught:
        flows.save_version(actor=member, project=project, text="flow: f\nsteps: [{nmae: a, command: c}]")

    assert [problem["code"] for problem in caught.value.details["problems"]] == ["missing_key", "unknown_key"]
    assert Flow.objects.count() == FlowVersion.objects.count() == 0


def test_a_viewer_may_look_but_neither_push_nor_run_nor_cancel(world: World, member, viewer, project):
    version = flows.save_version(actor=member, project=project, text=FLOW)
    run = runs.start_run(actor=member, version=version, parameters={"optimizer": "adam"})

    for deed in (
        lambda: flows.save_version(actor=viewer, project=project, text=FLOW.replace("3", "5")),
        lambda: runs.start_run(actor=viewer, version=version, parameters={"optimizer": "adam"}),
        lambda: runs.cancel_run(actor=viewer, run=run),
        lambda: runs.retry_run(actor=viewer, run=run),
    ):
        with pytest.raises(PermissionDenied):
            deed()

    assert FlowVersion.objects.count() == Run.objects.count() == 1
    assert Run.objects.get().cancel_requested_at is None
    assert flows.validate_spec(actor=viewer, project=project, text=FLOW).problems == ()


def test_a_stranger_learns_nothing(world: World, make_actor, project):
    stranger = make_actor(None)

    with pytest.raises(ProjectNotFound):
        flows.validate_spec(actor=stranger, project=project, text=FLOW)


def test_parameters_are_read_as_their_types_and_all_faults_are_told(world: World, member, project):
    version = flows.save_version(actor=member, project=project, text=FLOW)

    run = runs.start_run(actor=member, version=version, parameters={"epochs": "10", "optimizer": "sgd"})
    assert run.parameters == {"epochs": 10, "optimizer": "sgd"}

    with pytest.raises(InvalidParameters) as caught:
        runs.start_run(actor=member, version=version, parameters={"epochs": "many", "lr": 1})
    assert caught.value.details["problems"] == [
        "There is no parameter 'lr'.",
        "The parameter 'epochs' is not a whole number: 'many'.",
        "The parameter 'optimizer' has no default and needs a value.",
    ]
    assert Run.objects.count() == 1


def test_a_run_whose_tries_multiply_a_long_value_is_refused(world: World, member, project):
    text = f"{FLOW.replace('{name: train, command: train}', '{name: train, command: train, grid: {n: {min: 0, max: 1, steps: 1000}}}')}"
    version = flows.save_version(actor=member, project=project, text=text.replace(", choices: [adam, sgd]", ""))

    with pytest.raises(InvalidParameters, match=r"more than 64\.0 MB together"):
        runs.start_run(actor=member, version=version, parameters={"optimizer": "x" * 70_000})

    assert not Run.objects.exists()


LONG = """
flow: long
parameters: {{text: {{type: str}}}}
steps: [{{name: train, command: {command}, append_parameters: {append}, env: {{NOTE: "{note}"}}}}]
"""
REFERENCE = "${{ parameters.text }}"


@pytest.mark.parametrize(
    ("fields", "most", "what"),
    [
        ({"command": f'"echo {REFERENCE}"'}, 131_066, "command"),
        ({"command": f'"echo {REFERENCE} {REFERENCE}"'}, 65_532, "command"),
        ({"append": "true"}, 131_058, "command"),
        ({"note": REFERENCE}, 131_066, "variable NOTE"),
    ],
)
@pytest.mark.usefixtures("world")
def test_a_value_that_makes_a_command_longer_than_a_program_can_be_given_is_refused(
    member, project, fields, most, what
):
    text = LONG.format(**{"command": "train", "append": "false", "note": "", **fields})
    version = flows.save_version(actor=member, project=project, text=text)

    runs.start_run(actor=member, version=version, parameters={"text": "x" * most})
    with pytest.raises(InvalidParameters, match=f"the {what} of step 'train' has more than 131,071 bytes"):
        runs.start_run(actor=member, version=version, parameters={"text": "x" * (most + 1)})

    assert Run.objects.count() == 1


def test_runs_are_numbered_within_their_flow(world: World, member, project):
    version = flows.save_version(actor=member, project=project, text=FLOW)

    numbers = [runs.start_run(actor=member, version=version, parameters={"optimizer": "adam"}).number for _ in range(3)]

    assert numbers == [1, 2, 3]


def test_only_what_makes_sense_can_be_cancelled_or_retried(world: World, member, project):
    version = flows.save_version(actor=member, project=project, text=FLOW)
    run = runs.start_run(actor=member, version=version, parameters={"optimizer": "adam"})

    with pytest.raises(RunNotFinished):
        runs.retry_run(actor=member, run=run)
    world.finish_all(run)
    with pytest.raises(NothingToRetry):
        runs.retry_run(actor=member, run=run)
    with pytest.raises(RunHasEnded):
        runs.cancel_run(actor=member, run=run)

    assert state_of(run) == "succeeded"


def test_secrets_are_asked_for_by_name_and_never_in_the_spec(world: World, member, make_actor, project):
    secrets.set_secret(actor=make_actor(Role.ADMIN), project=project, name="API_KEY", value="hush")
    run = world.start(member, project, "flow: f\nsteps: [{name: a, command: c, secrets: [API_KEY]}]")
    world.turn()
    world.turn()

    from tests.factories.flows import newest_attempt

    job = newest_attempt(run, "a").job
    assert job.spec["secret_names"] == ["API_KEY"]
    assert "hush" not in str(job.spec)
    assert world.driver_of(job.name).jobs.launches[job.name].secrets == {"API_KEY": "hush"}
