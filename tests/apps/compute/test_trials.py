"""A job that is tried: what is told of it is what then happens, and trying it changes nothing."""

import os
import random
from datetime import UTC, datetime, timedelta

import pytest

from accounts.actor import Actor
from accounts.errors import PermissionDenied
from accounts.models import Project
from compute.engine.placing import Placing
from compute.models import Job
from compute.services import resources, submissions, trials
from compute.services.submissions import Submission
from compute.workers import launches, observe, resizes, stops
from core import clock, tasks
from scheduler.models import Forecast, Queue, Reservation, Workload
from scheduler.services import pool_members
from scheduler.workers import cycle
from tests.factories import compute as make
from tests.factories.api import call

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
CASES = int(os.environ.get("NEARLINE_TEST_TRIALS", "12"))
SYSTEM = Actor.system("trials")


@pytest.fixture(autouse=True)
def _null_queue():
    before = tasks.install(tasks.NullQueue())
    yield
    tasks.install(before)


@pytest.fixture
def at_noon():
    with clock.frozen_at(NOON) as move_to:
        yield move_to


def node(name: str, gpus: int) -> dict[str, object]:
    more = {"cpu_millicores": 10**6, "memory_bytes": 2**40, "gpu_model": "V100", "gpu_memory_bytes": 2**35}
    return {"name": name, "gpus": gpus, **more}


def attach(name: str, *gpus: int):
    """Attach nodes that do not exist, with templates of one to eight GPUs."""
    nodes = [node(f"{name}-{number}", count) for number, count in enumerate(gpus)]
    lab = resources.attach_resource(actor=SYSTEM, name=name, kind="simulated", config={"nodes": nodes})
    for count in (1, 2, 4, 8):
        make.make_template(lab, f"g{count}", gpu_milli=1000 * count)
    return lab


def turn(lab) -> None:
    """Let the platform do all that there is to do at this moment."""
    for _ in range(12):
        before = facts()
        observe.observe_resource(resource_id=lab.pk)
        stops.evict_jobs()
        observe.observe_resource(resource_id=lab.pk)
        cycle.run_once()
        launches.start_placed_jobs()
        resizes.resize_jobs()
        if facts() == before:
            return
    raise AssertionError("it does not come to rest")


def facts() -> list[tuple]:
    """Return all that may change without an end: jobs, workloads and reservations."""
    jobs = Job.objects.order_by("pk").values_list("name", "state", "evictions", "node_name", "replicas")
    workloads = Workload.objects.order_by("pk").values_list("name", "state", "evictions")
    return [*jobs, *workloads, *Reservation.objects.order_by("pk").values_list("workload", "node")]


def ends() -> list[datetime]:
    """Return when the jobs that run end, the first first."""
    running = Job.objects.filter(state="running")
    return sorted(job.started_at + timedelta(seconds=job.spec["simulated_duration_s"]) for job in running)


def submit(project, template: str, name: str, seconds: float, **more) -> None:
    wanted = Submission(template, "true", name, simulated_duration_s=seconds, **more)
    submissions.submit_job(actor=SYSTEM, project=project, wanted=wanted)


@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(CASES))
def test_what_a_trial_tells_is_what_then_happens(seed, at_noon):
    dice = random.Random(seed)
    lab = attach("lab", *(dice.choice((2, 4, 8)) for _ in range(dice.randint(1, 3))))
    teams = [Project.objects.create(name=f"team-{letter}") for letter in "abc"[: dice.randint(1, 3)]]
    for team in teams:
        pool_members.ensure_queues([team.pk])
        Queue.objects.filter(project=team).update(gpu_quota_milli=1000 * dice.randint(0, 6))
    now = NOON
    for number in range(dice.randint(2, 12)):
        now += timedelta(seconds=dice.randint(1, 100))
        at_noon(now)
        seconds = dice.randint(100, 5000) + number / 16
        submit(dice.choice(teams), f"lab.g{dice.choice((1, 2, 4))}", f"job-{number}", seconds)
        turn(lab)
    now += timedelta(seconds=dice.randint(1, 60))
    at_noon(now)
    turn(lab)
    team, template, seconds = dice.choice(teams), f"lab.g{dice.choice((1, 2, 4))}", dice.randint(60, 600)
    is_preemptible = dice.random() < 0.7
    before = facts()

    wanted = Submission(template, "true", simulated_duration_s=seconds, is_preemptible=is_preemptible)
    trial = trials.try_job(actor=SYSTEM, project=team, wanted=wanted)

    assert facts() == before
    evictions = dict(Job.objects.values_list("name", "evictions"))
    submit(team, template, "tried", seconds, is_preemptible=is_preemptible)
    turn(lab)
    stopped = {name for name, count in Job.objects.values_list("name", "evictions") if count > evictions.get(name, 0)}
    told = {stop.job for stop in trial.outlook.stops if stop.at == now}
    assert told == (stopped if Job.objects.get(name="tried").state == "running" else set())
    while (job := Job.objects.get(name="tried")).state == "pending" and ends():
        at_noon(ends()[0])
        turn(lab)
    assert trial.outlook.likely_at == job.started_at
    assert list(trial.outlook.nodes) == ([job.node_name] if job.node_name else [])


def any_ask(dice: random.Random) -> dict[str, object]:
    """Return what a job may ask for beside a template: parts of GPUs, slices, labels, gangs, elastic jobs."""
    gang = {"gpu_milli": 1000, "replicas": dice.randint(2, 4)}
    return dice.choice(
        (
            {"gpu_milli": 500},
            {"placing": Placing(gpu_memory_bytes=dice.choice((4, 9, 18)) * 2**30)},
            {"placing": Placing(mig_profile=dice.choice(("1g.5gb", "2g.10gb", "3g.20gb")))},
            {"gpu_milli": 1000, "placing": Placing(node_labels=("rack=r0",))},
            {**gang, "placing": Placing(required_level="rack")},
            {**gang, "placing": Placing(preferred_level="rack", min_replicas=1)},
        )
    )


@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(CASES // 2))
def test_a_trial_knows_parts_of_gpus_labels_levels_and_elastic_jobs(seed, at_noon):
    dice = random.Random(seed)
    shape = {"cpu_millicores": 10**6, "memory_bytes": 2**40, "gpu_model": "A100", "gpu_memory_bytes": 40 * 2**30}
    nodes = [
        {
            "name": f"lab-{number}",
            "gpus": dice.choice((1, 2, 4)),
            "labels": {"rack": f"r{number % 2}"},
            "mig_strategy": "dynamic" if number == 3 else "off",
            **shape,
        }
        for number in range(4)
    ]
    lab = resources.attach_resource(actor=SYSTEM, name="lab", kind="simulated", config={"nodes": nodes})
    teams = [Project.objects.create(name=f"team-{letter}") for letter in "ab"]
    for team in teams:
        pool_members.ensure_queues([team.pk])
        Queue.objects.filter(project=team).update(gpu_quota_milli=1000 * dice.randint(0, 6))
    now = NOON
    for number in range(dice.randint(2, 8)):
        now += timedelta(seconds=dice.randint(1, 100))
        at_noon(now)
        seconds = dice.randint(100, 5000) + number / 16
        submit(dice.choice(teams), "", f"job-{number}", seconds, resource="lab", **any_ask(dice))
        turn(lab)
    team, ask = dice.choice(teams), any_ask(dice)
    before = facts()

    wanted = Submission("", "true", resource="lab", simulated_duration_s=60, **ask)
    trial = trials.try_job(actor=SYSTEM, project=team, wanted=wanted)

    assert facts() == before
    submit(team, "", "tried", 60, resource="lab", **ask)
    turn(lab)
    while (job := Job.objects.get(name="tried")).state == "pending" and ends():
        at_noon(ends()[0])
        turn(lab)
    assert trial.outlook.likely_at == job.started_at
    assert set(trial.outlook.nodes) <= {name for name, _ in job.places} | {""}


def test_a_trial_names_whom_it_would_stop_and_changes_nothing(db, at_noon):
    lab = attach("lab", 2)
    lends, owns = Project.objects.create(name="lends"), Project.objects.create(name="owns")
    pool_members.ensure_queues([lends.pk, owns.pk])
    Queue.objects.filter(project=owns).update(gpu_quota_milli=2000)
    submit(lends, "lab.g2", "borrower", 3600)
    turn(lab)

    trial = trials.try_job(actor=SYSTEM, project=owns, wanted=Submission("lab.g2", "true"))

    assert (trial.starts_now, trial.outlook.text) == (
        False,
        "It would start on lab-0 as soon as borrower (lends) is stopped for it.",
    )
    assert (Job.objects.count(), Workload.objects.count(), Forecast.objects.count()) == (1, 1, 0)


def test_a_trial_that_starts_now_and_one_that_waits_say_so(member, project, at_noon):
    lab = attach("lab", 2)
    pool_members.ensure_queues([project.pk])
    body = {"project": "team-a", "template": "lab.g2", "command": "true"}

    first = call(member, "POST", "/compute/jobs/try", body).body
    submit(project, "lab.g2", "holder", 3600)
    turn(lab)
    second = call(member, "POST", "/compute/jobs/try", body).body

    assert (first["starts_now"], first["outlook"]["text"]) == (True, "It would start now on lab-0.")
    assert second["starts_now"] is False
    assert second["outlook"]["text"].startswith("It would not start now: ")
    assert second["outlook"]["likely_at"] == "2026-11-01T13:00:00.000Z"
    assert Job.objects.count() == 1


def test_a_viewer_cannot_try_what_he_cannot_submit(viewer, project, at_noon):
    attach("lab", 2)

    with pytest.raises(PermissionDenied):
        trials.try_job(actor=viewer, project=project, wanted=Submission("lab.g2", "true"))
    assert not Job.objects.exists()
