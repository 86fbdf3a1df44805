"""Two simulated resources with a site each: steps start where their data is, and move to the other after the data."""

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from compute.models import Template
from compute.services import jobs, resources
from core import clock, tasks
from datasets.adapters.folder import FolderStore
from datasets.errors import StoreUnreachable
from datasets.models import CachedCommit, CacheHold, CacheSite
from datasets.selectors import trees
from datasets.services import cache_sites, caches
from flows.models import Attempt, AttemptInput, RunEvent, Step
from flows.selectors import runs as run_selectors
from flows.selectors.inputs import AHEAD
from flows.services import runs
from flows.workers import snapshots, staging
from scheduler.models import Workload
from tests.factories.datasets import commit_files, make_dataset, make_store
from tests.factories.flows import World, newest_attempt, states

START = datetime(2026, 11, 21, 14, tzinfo=UTC)
FLOW = """
flow: f
steps:
  - name: train
    command: c
    data: [{dataset: team-a/xray}]
    compute: [cloud.small, lab.small]
"""
RATES = {"lab": 100, "cloud": 10}
SIZE_BYTES = 3000


@pytest.fixture
def commit(world: World, member, project, tmp_path, site_admin):
    """A commit of 3,000 bytes; `lab` reads a site of 100 bytes a second, `cloud` one of 10."""
    make_store(tmp_path / "store")
    world.add_resource("cloud", tmp_path / "cloud", kind="simulated")
    lab = world.resources["lab"]
    type(lab).objects.filter(pk=lab.pk).update(kind="simulated", is_simulated=True)
    for name, rate in RATES.items():
        config = {"size_bytes": 10**6, "rate_bytes_s": rate}
        cache_sites.create_site(actor=site_admin, name=f"{name}-cache", kind="simulated", config=config)
        resource = type(lab).objects.get(name=name)
        resources.set_sites(actor=site_admin, resource=resource, sites=[f"{name}-cache"])
    return commit_files(member, make_dataset(member, project, "xray"), {"a": b"x" * SIZE_BYTES})


@pytest.fixture
def at(world: World):
    """Move the clock to so many seconds after the start, and let everything that ticks tick."""
    with clock.frozen_at(START) as move:

        def at(seconds: float) -> None:
            move(START + timedelta(seconds=seconds))
            for _ in range(3):
                follow_copies()
                world.turn()
                tasks.run("compute.update_missing_bytes", {})

        yield at


def follow_copies() -> None:
    for row in CachedCommit.objects.filter(state__in=("queued", "hydrating", "evicting")).order_by("pk"):
        tasks.run("datasets.evict" if row.state == "evicting" else "datasets.hydrate", {"cached_commit_id": row.pk})


def cache(member, commit, site: str) -> CachedCommit:
    return caches.request_cache(actor=member, commit=commit, site=CacheSite.objects.get(name=site))


def fill(world: World, project, member, resource: str) -> str:
    """Let another run take all of a resource, and return the name of its job."""
    Template.objects.filter(resource__name=resource, name="huge").update(cpu_millicores=4_000_000)
    run = world.start(member, project, f"flow: other\nsteps: [{{name: all, command: c, compute: {resource}.huge}}]")
    world.turn()
    world.turn()
    return newest_attempt(run, "all").job_name


def step_of(run) -> Step:
    return Step.objects.get(run=run)


def test_a_step_goes_where_its_commit_is_cached_and_says_what_the_first_template_would_take(
    world: World, member, project, commit, at
):
    cache(member, commit, "lab-cache")
    at(0)
    at(30)

    run = world.start(member, project, FLOW)
    at(31)

    step = step_of(run)
    assert (step.template, step.state, step.tried) == ("lab.small", "running", [])
    assert step.why == (
        "lab.small has its data sooner than cloud.small. "
        "xray is cached on lab-cache; 3.0 kB of xray would move to cloud-cache, about 5 min."
    )
    event = RunEvent.objects.get(run=run, kind="step.preparing")
    assert event.data["why"] == step.why
    (shown,) = run_selectors.list_steps(actor=member, run=run)
    assert (shown.reason, shown.decision["why"]) == (step.why, step.why)
    assert not CachedCommit.objects.filter(site__name="cloud-cache").exists()


def test_a_commit_that_is_on_its_way_to_a_site_draws_the_step_there(world: World, member, project, commit, at):
    cache(member, commit, "lab-cache")
    at(0)
    at(10)

    run = world.start(member, project, FLOW)
    at(11)

    assert (step_of(run).template, states(run)) == ("lab.small", {"train": "preparing"})
    assert (
        "1.9 kB of xray still move to lab-cache, about 19 s; 3.0 kB of xray would move to cloud-cache, about 5 min"
        in (step_of(run).why)
    )
    (shown,) = run_selectors.list_steps(actor=member, run=run)
    assert shown.reason == "1.9 kB of 3.0 kB still move to lab-cache at 100 B/s, ready in about 19 s (14:00 UTC)."
    at(30)
    assert states(run) == {"train": "running"}


def test_a_step_whose_place_is_taken_for_long_goes_to_the_other_site_after_its_data_moved(
    world: World, member, project, commit, at
):
    cache(member, commit, "lab-cache")
    at(0)
    at(30)
    fill(world, project, member, "lab")
    fill(world, project, member, "cloud")
    run = world.start(member, project, FLOW)
    at(31)
    waiting = newest_attempt(run, "train")
    assert (waiting.template, states(run)) == ("lab.small", {"train": "queued"})
    lab, cloud = world.resources["lab"].pk, world.resources["cloud"].pk
    workload = Workload.objects.get(name=waiting.job_name)
    assert workload.missing_bytes == {lab: 0, cloud: SIZE_BYTES}

    world.driver_of(newest_of(world, "cloud")).finish(newest_of(world, "cloud"))
    at(330)
    assert not CachedCommit.objects.filter(site__name="cloud-cache").exists()
    at(332)
    copy = CachedCommit.objects.get(site__name="cloud-cache")
    assert (copy.state, copy.bytes_total) == ("hydrating", SIZE_BYTES)
    event = RunEvent.objects.get(run=run, kind="step.bringing")
    assert event.message.startswith("Could not start within 5 min")
    assert event.message.endswith(
        "Meanwhile its data is brought to cloud.small: 3.0 kB of xray would move to cloud-cache, about 5 min."
    )
    at(432)
    workload.refresh_from_db()
    assert workload.missing_bytes == {lab: 0, cloud: 2000}
    (shown,) = run_selectors.list_steps(actor=member, run=run)
    assert shown.reason.endswith(
        ". Meanwhile 2.0 kB of 3.0 kB still move to cloud-cache at 10 B/s, ready in about 3 min 20 s (14:10 UTC)."
    )
    assert (newest_attempt(run, "train").pk, states(run)) == (waiting.pk, {"train": "queued"})

    at(632)
    at(634)

    assert list(Attempt.objects.filter(run=run).order_by("number").values_list("state", "template")) == [
        ("superseded", "lab.small"),
        ("running", "cloud.small"),
    ]
    assert [(tried["template"], tried["waited_s"]) for tried in step_of(run).tried] == [("lab.small", 601.0)]
    assert list(CacheHold.objects.values_list("holder", flat=True)) == [newest_attempt(run, "train").pk]


def test_what_is_brought_ahead_stays_until_the_next_attempt_has_asked_for_it(world: World, member, project, commit, at):
    cache(member, commit, "lab-cache")
    at(0)
    at(30)
    for name in ("lab", "cloud"):
        fill(world, project, member, name)
    run = world.start(member, project, FLOW)
    at(31)
    at(332)
    first = newest_attempt(run, "train")
    Attempt.objects.filter(pk=first.pk).update(state="superseded")
    second = Attempt.objects.create(
        run=run, step=first.step, number=2, template="cloud.small", state="preparing", job_name="second"
    )
    wish = AttemptInput.objects.create(
        attempt=second, name="xray", reference="team-a/xray", commit_id=commit.pk, is_cached=True
    )
    ahead = CacheHold.objects.filter(holder__startswith=AHEAD)

    staging.release_inputs()
    assert ahead.count() == 1

    AttemptInput.objects.filter(pk=wish.pk).update(cached_commit_id=ahead.get().cached_commit_id)
    staging.release_inputs()
    assert ahead.count() == 0


def newest_of(world: World, resource: str) -> str:
    (name,) = world.drivers[resource].jobs.reports
    return name


def test_a_place_that_gets_free_while_the_data_moves_is_taken_and_the_other_copy_is_let_go(
    world: World, member, project, commit, at
):
    cache(member, commit, "lab-cache")
    at(0)
    at(30)
    holder = fill(world, project, member, "lab")
    fill(world, project, member, "cloud")
    run = world.start(member, project, FLOW)
    at(31)
    at(332)
    assert CacheHold.objects.filter(cached_commit__site__name="cloud-cache").count() == 1

    world.driver_of(holder).finish(holder)
    at(340)

    assert (step_of(run).template, states(run)) == ("lab.small", {"train": "running"})
    assert Attempt.objects.filter(run=run).count() == 1
    assert not CacheHold.objects.filter(cached_commit__site__name="cloud-cache").exists()


@pytest.fixture
def away(monkeypatch):
    """Let the store be away while this is entered; no tree is at hand."""

    @contextmanager
    def away():
        def answer(store: FolderStore, key: str) -> bytes:
            raise StoreUnreachable("The store does not answer.")

        with monkeypatch.context() as changes:
            for kept in (trees._roots, trees._ranges):
                changes.setattr(kept, "get", lambda key: None)
            changes.setattr(FolderStore, "get", answer)
            yield

    return away


@pytest.fixture
def taken(world: World, member, project, commit, at) -> None:
    """The commit is cached on one site, and all of both resources is taken."""
    cache(member, commit, "lab-cache")
    at(0)
    at(30)
    fill(world, project, member, "lab")
    fill(world, project, member, "cloud")


@pytest.mark.usefixtures("taken")
def test_a_store_that_is_away_refuses_no_place_and_is_asked_again(world, member, project, at, away):
    CacheSite.objects.filter(name="cloud-cache").update(capacity_bytes=1)
    run = world.start(member, project, FLOW)
    at(31)
    with away():
        at(332)
    assert not CachedCommit.objects.filter(site__name="cloud-cache").exists()

    CacheSite.objects.filter(name="cloud-cache").update(capacity_bytes=10**6)
    at(340)

    assert CachedCommit.objects.get(site__name="cloud-cache").state == "hydrating"
    assert states(run) == {"train": "queued"}


def test_a_site_that_is_full_is_left_out_and_the_step_keeps_its_place(world: World, member, project, commit, at):
    cache(member, commit, "lab-cache")
    at(0)
    at(30)
    fill(world, project, member, "lab")
    fill(world, project, member, "cloud")
    CacheSite.objects.filter(name="cloud-cache").update(capacity_bytes=1)
    run = world.start(member, project, FLOW)

    for seconds in (31, 332, 340, 3600):
        at(seconds)

    assert (step_of(run).template, states(run)) == ("lab.small", {"train": "queued"})
    assert Attempt.objects.filter(run=run).count() == 1


def test_a_look_at_sites_and_nodes_costs_eight_statements_and_only_a_step_with_a_choice(
    world: World, member, project, commit, at
):
    counts = []
    for name, compute in (("one", "lab.small"), ("two", "[cloud.small, lab.small]")):
        run = world.start(
            member, project, FLOW.replace("[cloud.small, lab.small]", compute).replace(": f", f": {name}")
        )
        with CaptureQueriesContext(connection) as queries:
            row = snapshots.get_run(run.pk)
            snapshots.load(row, START, snapshots.read_news(row, START), snapshots.Ended())
        counts.append(len(queries))

    # The sites of one more resource; and copies, what new ones share, sites, what these fill, nodes with their GPUs, the
    # pools that these are in, jobs.
    assert counts[1] - counts[0] == 1 + 8


READS = """
flow: reads
steps: [{name: train, command: c, data: [{dataset: team-a/xray}], compute: lab.huge}]
"""


@pytest.fixture
def whole_lab():
    """Let `lab.huge` take all of the node."""
    Template.objects.filter(resource__name="lab", name="huge").update(cpu_millicores=4_000_000)


@pytest.mark.usefixtures("commit", "whole_lab")
def test_a_step_whose_data_moved_starts_before_steps_that_were_queued_after_it(world: World, member, project, at):
    holder = fill(world, project, member, "lab")
    at(0)
    reads = world.start(member, project, READS)
    at(1)
    waits = newest_attempt(reads, "train")
    assert (waits.state, waits.job.state, waits.job.workload_id) == ("preparing", "pending", None)
    later = world.start(member, project, "flow: later\nsteps: [{name: train, command: c, compute: lab.huge}]")
    at(2)
    at(31)
    assert (states(reads), states(later)) == ({"train": "queued"}, {"train": "queued"})

    world.driver_of(holder).finish(holder)
    at(32)

    assert (states(reads), states(later)) == ({"train": "running"}, {"train": "queued"})
    assert newest_attempt(reads, "train").pk == waits.pk
    (mount,) = newest_attempt(reads, "train").job.spec["data"]
    assert mount["name"] == "xray"


@pytest.mark.usefixtures("commit", "whole_lab")
def test_no_node_idles_for_a_step_whose_data_still_moves(world: World, member, project, at):
    reads = world.start(member, project, READS)
    at(0)
    later = world.start(member, project, "flow: later\nsteps: [{name: train, command: c, compute: lab.huge}]")

    at(1)

    assert (states(reads), states(later)) == ({"train": "preparing"}, {"train": "running"})


@pytest.mark.usefixtures("commit", "whole_lab")
def test_a_cancelled_run_takes_the_job_that_waits_for_data_and_its_copy_along(world: World, member, project, at):
    reads = world.start(member, project, READS)
    at(0)
    at(10)
    assert CachedCommit.objects.get().state == "hydrating"

    runs.cancel_run(actor=member, run=reads)
    at(11)

    assert (states(reads), newest_attempt(reads, "train").job.state) == ({"train": "cancelled"}, "cancelled")
    assert CachedCommit.objects.get().state == "gone"


@pytest.mark.usefixtures("commit", "whole_lab")
def test_a_step_ends_when_its_job_is_cancelled_while_its_data_moves(world: World, member, project, at):
    reads = world.start(member, project, READS)
    at(0)
    job = newest_attempt(reads, "train").job

    jobs.cancel_job(actor=member, job=job, reason="Not needed.")
    at(1)

    assert states(reads) == {"train": "cancelled"}
    assert newest_attempt(reads, "train").reason == "member cancelled the job: Not needed."
    assert not CacheHold.objects.exists()
