"""A job that is tried: what is told of it is what then happens, and trying it changes nothing."""

import os
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from accounts.errors import PermissionDenied
from accounts.models import Project
from accounts.permissions import Actor
from compute.engine.placing import Launcher, Placing
from compute.errors import NoResourceFits
from compute.models import Job, ResourceSite
from compute.services import resources, submissions, trials
from compute.services.submissions import Submission
from compute.workers import data_waits, launches, observe, resizes
from core import tasks
from datasets.models import CachedCommit
from datasets.services import cache_sites
from scheduler.models import CycleDump, Forecast, Pool, Queue, Reservation, Workload
from scheduler.selectors.workloads import list_terminating
from scheduler.services import pool_members
from scheduler.services import pools as pool_services
from scheduler.workers import cycle
from scheduler.workers.cycle import SessionCache
from tests.factories import compute as make
from tests.factories.api import call
from tests.factories.datasets import commit_files, make_dataset, make_store
from tests.factories.scheduler import NOON
from tests.transactions import undone

pytestmark = pytest.mark.usefixtures("null_queue")

CASES = int(os.environ.get("NEARLINE_TEST_TRIALS", "8"))
"""1,000 in all by hand: `NEARLINE_TEST_TRIALS=364`, and more that are parts of it."""

FIRST = int(os.environ.get("NEARLINE_TEST_FIRST_TRIAL", "0"))
"""The first seed: with another one, other cases are tried."""

TRIALS_OF_STATE = 5
_SECOND = timedelta(seconds=1)
SYSTEM = Actor.system("trials")


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


def turn(*labs) -> None:
    """Let the platform do all that there is to do at this moment."""
    before = facts()
    for _ in range(12):
        _observe(labs)
        if list_terminating():
            launches.evict_jobs()
            _observe(labs)
        cycle.run_once()
        launches.start_placed_jobs()
        if Job.objects.filter(min_replicas__gt=0).exists():
            resizes.resize_jobs()
        after = facts()
        if after == before:
            return
        before = after
    raise AssertionError("it does not come to rest")


def _observe(labs) -> None:
    for lab in labs:
        observe.observe_resource(resource_id=lab.pk)


def facts() -> list[tuple]:
    """Return all that may change without an end: jobs, workloads and reservations."""
    jobs = Job.objects.order_by("pk").values_list("name", "state", "evictions", "node_name", "replicas")
    workloads = Workload.objects.order_by("pk").values_list("name", "state", "evictions")
    return [*jobs, *workloads, *Reservation.objects.order_by("pk").values_list("workload", "node")]


def ends() -> list[datetime]:
    """Return when the jobs that run end, the first first."""
    running = Job.objects.filter(state="running")
    return sorted(job.started_at + timedelta(seconds=_runs_s(job.spec)) for job in running)


def _runs_s(spec) -> float:
    return min(filter(None, (spec["simulated_duration_s"], spec.get("timeout_s"))))


def submit(project, template: str, name: str, seconds: float, **more) -> None:
    wanted = Submission(template, "true", name, simulated_duration_s=seconds, **more)
    submissions.submit_job(actor=SYSTEM, project=project, submission=wanted)


@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES))
def test_what_a_trial_tells_is_what_then_happens(seed, move):
    dice = random.Random(seed)
    lab = attach("lab", *(dice.choice((2, 4, 8)) for _ in range(dice.randint(1, 3))))
    teams = [Project.objects.create(name=f"team-{letter}") for letter in "abc"[: dice.randint(1, 3)]]
    for team in teams:
        pool_members.ensure_queues([team.pk])
        Queue.objects.filter(project=team).update(gpu_quota_milli=1000 * dice.randint(0, 6))
    now = NOON
    for number in range(dice.randint(2, 12)):
        now += timedelta(seconds=dice.randint(1, 100))
        move(now)
        seconds = dice.randint(100, 5000) + number / 16
        submit(dice.choice(teams), f"lab.g{dice.choice((1, 2, 4))}", f"job-{number}", seconds)
        turn(lab)
    now += timedelta(seconds=dice.randint(1, 60))
    move(now)
    turn(lab)
    team, template, seconds = dice.choice(teams), f"lab.g{dice.choice((1, 2, 4))}", dice.randint(60, 600)
    is_preemptible = dice.random() < 0.7
    before = facts()

    wanted = Submission(template, "true", simulated_duration_s=seconds, is_preemptible=is_preemptible)
    trial = trials.try_job(actor=SYSTEM, project=team, submission=wanted)

    assert facts() == before
    evictions = dict(Job.objects.values_list("name", "evictions"))
    submit(team, template, "tried", seconds, is_preemptible=is_preemptible)
    turn(lab)
    stopped = {name for name, count in Job.objects.values_list("name", "evictions") if count > evictions.get(name, 0)}
    told = {stop.job for stop in trial.outlook.stops if stop.at == now}
    assert told == (stopped if Job.objects.get(name="tried").state == "running" else set())
    while (job := Job.objects.get(name="tried")).state == "pending" and ends():
        move(ends()[0])
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
            any_gang(dice),
        )
    )


def any_gang(dice: random.Random) -> dict[str, object]:
    """Return what a gang may ask for: a launcher, which is small or takes nearly half of a node, and one rack."""
    gang = {"gpu_milli": 1000, "replicas": dice.randint(1, 4)}
    launcher = dice.choice((None, Launcher(), Launcher(cpu_millicores=4 * 10**5)))
    return {**gang, "placing": Placing(required_level=dice.choice(("", "", "rack")), launcher=launcher)}


@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES // 2))
def test_a_trial_knows_parts_of_gpus_labels_levels_and_elastic_jobs(seed, move):
    try_among(any_ask, random.Random(seed), move)


@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES // 4))
def test_a_trial_knows_launchers(seed, move):
    try_among(any_gang, random.Random(seed), move)


def try_among(any_ask: Callable[[random.Random], dict[str, object]], dice: random.Random, move) -> None:
    """Bring a cluster into any state, try a job there, and see that what is told of it happens."""
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
        move(now)
        seconds = dice.randint(100, 5000) + number / 16
        submit(dice.choice(teams), "", f"job-{number}", seconds, resource="lab", **any_ask(dice))
        turn(lab)
    team, ask = dice.choice(teams), any_ask(dice)
    before = facts()

    wanted = Submission("", "true", resource="lab", simulated_duration_s=60, **ask)
    trial = trials.try_job(actor=SYSTEM, project=team, submission=wanted)

    assert facts() == before
    submit(team, "", "tried", 60, resource="lab", **ask)
    turn(lab)
    while (job := Job.objects.get(name="tried")).state == "pending" and ends():
        move(ends()[0])
        turn(lab)
    assert trial.outlook.likely_at == job.started_at
    assert set(trial.outlook.nodes) <= {name for name, _ in job.places} | {""}


RESERVATIONS_S = (900, 4500, 5400, 9000, 14400, 18000)
"""After such waits nodes begin or cease to be reserved for a job."""

RULES = {
    "prompt": {},
    "steady": {"claim_delay_s": 60.0, "reclaim_min_runtime_s": 600.0, "surplus_min_runtime_s": 3600.0},
    "often": {"claim_delay_s": 120.0, "surplus_evictions_at_most": 1, "consolidate_every_s": 300.0},
}


class Clusters:
    """Pools of simulated nodes, each lab with a site of a declared rate; departments with quotas, limits and rules.

    `has_racks`: the nodes of one rack are a pool of their own, for which some jobs ask.
    """

    def __init__(self, dice: random.Random, at, *, has_racks: bool = False) -> None:
        self.dice, self.at, self.now = dice, at, NOON
        self.labs = {}
        for name in ("lab", "cloud")[: dice.choice((1, 2, 2))]:
            cache_sites.create_site(
                actor=SYSTEM,
                name=f"{name}-site",
                kind="simulated",
                config={"size_bytes": 10**6, "rate_bytes_s": dice.choice((1, 5, 50))},
            )
            nodes = [
                node(f"{name}-{number}", dice.choice((1, 2, 4)))
                | {"labels": {"rack": f"r{number % 2}"}, "mig_strategy": dice.choice(("off", "off", "dynamic"))}
                | {"gpu_model": "A100", "gpu_memory_bytes": 40 * 2**30}
                for number in range(dice.randint(1, 3))
            ]
            lab = resources.attach_resource(actor=SYSTEM, name=name, kind="simulated", config={"nodes": nodes})
            ResourceSite.objects.create(resource=lab, site=f"{name}-site", position=0)
            self.labs[name] = lab
        if has_racks:
            labs = [lab.pk for lab in self.labs.values()]
            pool_services.create_pool(actor=SYSTEM, name="racks", resource_ids=labs, label="rack=r1")
        self._has_racks = has_racks
        self.teams = [Project.objects.create(name=f"team-{letter}") for letter in "abc"]
        pools = list(Pool.objects.order_by("name"))
        for pool in pools:
            pool_members.ensure_queues([team.pk for team in self.teams], pool_id=pool.pk)
            self._set_rules(pool)
        commit_files(SYSTEM, make_dataset(SYSTEM, self.teams[0], "digits"), {"a.txt": b"x" * dice.choice((500, 2000))})

    def _set_rules(self, pool: Pool) -> None:
        dice = self.dice
        Pool.objects.filter(pk=pool.pk).update(**dice.choice(list(RULES.values())))
        above = Queue.objects.create(pool=pool, name="research", gpu_quota_milli=1000 * dice.randint(0, 8))
        for queue in Queue.objects.filter(pool=pool, project__in=self.teams).order_by("project__name"):
            queue.parent = dice.choice((None, above, above))
            queue.gpu_quota_milli = 1000 * dice.randint(0, 4)
            queue.gpu_limit_milli = dice.choice((None, None, None, 4000))
            queue.preempt_min_runtime_s = dice.choice((None, None, 300.0))
            queue.training_run_at_most_s = dice.choice((None, None, 1800.0))
            queue.save()

    def any_submission(self, name: str, seconds: float) -> tuple[Project, Submission]:
        """Return what somebody may submit."""
        dice, team = self.dice, self.dice.choice(self.teams)
        whole = {"gpu_milli": 1000 * dice.choice((1, 1, 2, 4))}
        ask = dice.choice((whole, whole, any_ask(dice)))
        more = {"timeout_s": dice.choice((None, None, 600.0)), "priority": dice.choice((50, 50, 25, 90))}
        more |= {"is_preemptible": dice.random() < 0.7, "data": ["team-a/digits"] if dice.random() < 0.25 else []}
        more["resource"] = dice.choice(list(self.labs))
        if self._has_racks:
            more["pool"] = dice.choice(("", "", "racks", "default"))
        return team, Submission("", "true", name, simulated_duration_s=seconds, **ask, **more)

    def pass_to(self, moment: datetime) -> None:
        """Let time pass, with all that happens until then."""
        while (due := self._next_moment()) is not None and due < moment:
            self._turn(due)
        self._turn(moment)

    def pass_on(self) -> bool:
        """Let time pass to the next moment at which something may change; false: there is none."""
        due = self._next_moment()
        if due is not None:
            self._turn(due)
        return due is not None

    def _turn(self, moment: datetime) -> None:
        self.now = moment
        self.at(moment)
        for row in CachedCommit.objects.filter(state__in=("queued", "hydrating")).order_by("pk"):
            tasks.run("datasets.hydrate", {"cached_commit_id": row.pk})
        data_waits.queue_ready_jobs()
        turn(*self.labs.values())

    def _next_moment(self) -> datetime | None:
        pools = list(Pool.objects.all())
        limits = {limit for pool in pools for limit in (pool.reclaim_min_runtime_s, pool.surplus_min_runtime_s)}
        limits |= {300.0, 1800.0}
        moments = ends()
        for started_at in Job.objects.filter(state="running").values_list("started_at", flat=True):
            moments += [started_at + timedelta(seconds=limit) for limit in limits]
        for row in Workload.objects.filter(state="pending"):
            since = row.requeued_at or row.enqueued_at
            delay_s = row.queue.pool.claim_delay_s
            moments += [since + timedelta(seconds=delay_s / count) for count in (0.5, 1, 2, 3, 4, 8) if delay_s]
            moments += [_full_minute(since + timedelta(seconds=wait_s)) for wait_s in RESERVATIONS_S]
        moments += [
            pool.consolidated_at + timedelta(seconds=pool.consolidate_every_s) for pool in pools if pool.consolidated_at
        ]
        for copy in CachedCommit.objects.filter(state="hydrating").select_related("site"):
            missing_bytes = copy.bytes_total - copy.bytes_shared
            moments.append(copy.started_at + timedelta(seconds=missing_bytes / copy.site.config["rate_bytes_s"]))
        return min((moment for moment in moments if moment > self.now), default=None)


def _full_minute(moment: datetime) -> datetime:
    """Return the first full minute of the clock that is not before a moment."""
    return moment + timedelta(seconds=-moment.timestamp() % 60)


def _held() -> dict[str, tuple[int, set[str]]]:
    """Return how often each job was evicted, and where its replicas hold capacity."""
    return {job.name: (job.evictions, {str(place) for place in job.places if place[0]}) for job in Job.objects.all()}


def find_disagreements(world: Clusters) -> list[str]:
    """Bring clusters into any state, try some jobs there, submit each, and return what of it happens otherwise.

    The cycles that evicted on the way are decided again too.
    """
    dice = world.dice
    for number in range(dice.randint(2, 12)):
        world.pass_to(world.now + timedelta(seconds=dice.randint(1, 200)))
        team, wanted = world.any_submission(f"job-{number}", dice.randint(100, 5000) + number / 16)
        with suppress(NoResourceFits):
            submissions.submit_job(actor=SYSTEM, project=team, submission=wanted)
    world.pass_to(world.now + timedelta(seconds=dice.randint(1, 60)))
    now, found = world.now, _find_other_decisions()
    for _ in range(TRIALS_OF_STATE):
        team, wanted = world.any_submission("tried", dice.randint(60, 600))
        with suppress(NoResourceFits), undone():
            found.append(_disagreement(world, team, wanted))
        world.now = now
        world.at(now)
        cycle._sessions = SessionCache()
        tasks.read_anew()
    return list(filter(None, found))


def _find_other_decisions() -> list[str]:
    """Decide again, from its dump, what each cycle decided that evicted, and return what comes out otherwise."""
    found = []
    for cycle_id in CycleDump.objects.order_by("pk").values_list("pk", flat=True):
        try:
            call_command("replay_cycle", cycle_id, stdout=StringIO(), stderr=StringIO())
        except CommandError as error:
            found.append(f"{cycle_id}: {error}")
    return found


def _disagreement(world: Clusters, team: Project, wanted: Submission) -> str:
    """Try a job, then submit it, and return what of it happens otherwise; empty: nothing."""
    now, before, held = world.now, facts(), _held()
    is_copying = CachedCommit.objects.filter(state="hydrating").exists()
    trial = trials.try_job(actor=SYSTEM, project=team, submission=wanted)
    told = trial.outlook

    assert facts() == before
    submissions.submit_job(actor=SYSTEM, project=team, submission=wanted)
    world.pass_to(now)
    after = _held()
    stopped = {(name, False) for name, (evictions, _) in held.items() if after[name][0] > evictions}
    stopped |= {
        (name, True)
        for name, (evictions, places) in held.items()
        if after[name][0] == evictions and after[name][1] and not places <= after[name][1]
    }
    named = {(stop.job, stop.goes_on) for stop in told.stops if stop.at == now}
    if named != (stopped if Job.objects.get(name="tried").state == "running" else set()):
        return f"{wanted}: {named} would be stopped, {stopped} were"
    deadline = max(told.likely_at or now, now) + timedelta(minutes=20)
    while (job := Job.objects.get(name="tried")).state == "pending" and world.now < deadline and world.pass_on():
        pass
    # Bytes are told whole, so at one byte a second it is known to the second when they are there.
    moments = {told.likely_at, job.started_at}
    is_equal = len(moments) == 1 or (is_copying and None not in moments and max(moments) - min(moments) < _SECOND)
    if not is_equal:
        return f"{wanted}: it would start at {told.likely_at}, it did at {job.started_at}"
    places = {name for name, _ in job.places}
    return "" if set(told.nodes) <= places | {""} else f"{wanted}: it would start on {told.nodes}, it did on {places}"


@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES // 4))
def test_a_trial_knows_pools_departments_limits_rules_priorities_and_data(db, seed, move, home, record_property):
    make_store(home / "store")

    assert find_disagreements(Clusters(random.Random(seed), move)) == []
    record_property("replayed", CycleDump.objects.count())


@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES // 8))
def test_a_trial_knows_pools_that_divide_a_lab_by_labels(db, seed, move, home):
    make_store(home / "store")

    assert find_disagreements(Clusters(random.Random(seed), move, has_racks=True)) == []


def test_a_trial_names_whom_it_would_stop_and_changes_nothing(db, move):
    lab = attach("lab", 2)
    lends, owns = Project.objects.create(name="lends"), Project.objects.create(name="owns")
    pool_members.ensure_queues([lends.pk, owns.pk])
    Queue.objects.filter(project=owns).update(gpu_quota_milli=2000)
    submit(lends, "lab.g2", "borrower", 3600)
    turn(lab)

    trial = trials.try_job(actor=SYSTEM, project=owns, submission=Submission("lab.g2", "true"))

    assert (trial.starts_now, trial.outlook.text) == (
        False,
        "It would start on lab-0 as soon as borrower (lends) is stopped for it.",
    )
    assert (Job.objects.count(), Workload.objects.count(), Forecast.objects.count()) == (1, 1, 0)


def test_a_trial_says_of_an_elastic_job_that_it_gives_back_replicas_and_goes_on(db, move):
    lab = attach("lab", 2)
    lends, owns = Project.objects.create(name="lends"), Project.objects.create(name="owns")
    pool_members.ensure_queues([lends.pk, owns.pk])
    Queue.objects.filter(project=owns).update(gpu_quota_milli=1000)
    submit(lends, "lab.g1", "elastic", 3600, replicas=2, placing=Placing(min_replicas=1))
    turn(lab)

    trial = trials.try_job(actor=SYSTEM, project=owns, submission=Submission("lab.g1", "true"))

    assert trial.outlook.text == "It would start on lab-0 as soon as elastic (lends) has given back replicas."


def test_a_trial_that_starts_now_and_one_that_waits_say_so(member, project, move):
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


def test_a_viewer_cannot_try_what_he_cannot_submit(viewer, project, move):
    attach("lab", 2)

    with pytest.raises(PermissionDenied):
        trials.try_job(actor=viewer, project=project, submission=Submission("lab.g2", "true"))
    assert not Job.objects.exists()
