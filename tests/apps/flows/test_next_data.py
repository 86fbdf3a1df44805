"""Two simulated sites: the data of a step is brought to its likely place while its parent runs, and makes way there."""

from datetime import UTC, datetime, timedelta

import pytest

from accounts.permissions import Actor
from compute.services import resources
from core import clock, tasks
from datasets.errors import CacheFull
from datasets.models import CachedCommit, CachedCommitEvent, CacheHold, CacheSite
from datasets.services import cache_sites, caches
from flows.models import Run, RunEvent, Step
from flows.selectors import runs as run_selectors
from flows.services import runs
from tests.factories.datasets import commit_files, make_dataset, make_store
from tests.factories.flows import World, newest_attempt, states

SYSTEM = Actor.system("test")
START = datetime(2026, 11, 21, 14, tzinfo=UTC)
RATES = {"lab": 100, "cloud": 10}
SIZE_BYTES = 3000
FLOW = """
flow: f
steps:
  - {name: prep, command: c, compute: lab.small, retries: {user_error: 1}}
  - name: train
    command: c
    after: [prep]
    data: [{dataset: team-a/xray}]
    compute: [lab.small, cloud.small]
"""


@pytest.fixture
def site(world: World, tmp_path, site_admin) -> CacheSite:
    """The site that `lab` reads, of 10,000 bytes and 100 a second; `cloud` reads another one of 10 a second."""
    make_store(tmp_path / "store")
    world.add_resource("cloud", tmp_path / "cloud", kind="simulated")
    for name, rate in RATES.items():
        type(world.resources[name]).objects.filter(name=name).update(kind="simulated", is_simulated=True)
        config = {"size_bytes": 10_000, "rate_bytes_s": rate}
        cache_sites.create_site(actor=site_admin, name=f"{name}-cache", kind="simulated", config=config)
        resource = type(world.resources[name]).objects.get(name=name)
        resources.set_sites(actor=site_admin, resource=resource, sites=[f"{name}-cache"])
    return CacheSite.objects.get(name="lab-cache")


@pytest.fixture
def new_commit(site, member, project):
    """Return the commit of a new dataset."""
    return lambda name, size_bytes=SIZE_BYTES: commit_files(
        member, make_dataset(member, project, name), {"a": name[:1].encode() * size_bytes}
    )


@pytest.fixture
def xray(new_commit):
    """A commit of 3,000 bytes, which `train` reads."""
    return new_commit("xray")


@pytest.fixture
def at(world: World):
    """Move the clock to so many seconds after the start, and let everything that ticks tick."""
    with clock.frozen_at(START) as move:

        def at(seconds: float) -> None:
            move(START + timedelta(seconds=seconds))
            for _ in range(3):
                for row in CachedCommit.objects.filter(state__in=("queued", "hydrating", "evicting")).order_by("pk"):
                    name = "datasets.evict" if row.state == "evicting" else "datasets.hydrate"
                    tasks.run(name, {"cached_commit_id": row.pk})
                world.turn()

        yield at


@pytest.fixture
def start(world: World, member, project, xray):
    """Start a run of a flow."""
    return lambda text: world.start(member, project, text)


@pytest.fixture
def run(start, at) -> Run:
    """A run whose `prep` has begun to run."""
    run = start(FLOW)
    at(0)
    at(1)
    assert states(run) == {"prep": "running", "train": "pending"}
    return run


def copies() -> list[tuple[str, str, str]]:
    rows = CachedCommit.objects.order_by("pk").values_list("dataset__name", "site__name", "state")
    return [tuple(row) for row in rows]


def end(world: World, run: Run, step: str, **how) -> None:
    name = newest_attempt(run, step).job_name
    world.driver_of(name).finish(name, **how)


def log_of(run: Run, kind: str) -> list[tuple[str, str]]:
    return list(RunEvent.objects.filter(run=run, kind=kind).order_by("seq").values_list("step_key", "message"))


def last_word_of(dataset: str) -> str:
    return CachedCommitEvent.objects.filter(cached_commit__dataset__name=dataset, state="evicting").get().message


def test_data_comes_while_the_parent_runs_and_the_step_takes_it_over_without_a_second_transfer(
    world: World, member, run, at
):
    at(11)
    (copy,) = CachedCommit.objects.all()
    assert (copy.site.name, copy.state, copy.bytes_done) == ("lab-cache", "hydrating", 1100)
    (hold,) = CacheHold.objects.all()
    assert (hold.is_ahead, hold.why) == (True, "may be read next by f #1, train")
    assert log_of(run, "step.bringing") == [
        ("train", "Its data is brought ahead for lab.small while other steps run: xray to lab-cache.")
    ]
    shown = run_selectors.list_steps(actor=member, run=run)[1]
    assert shown.reason == (
        "Data brought ahead: 1.9 kB of 3.0 kB still move to lab-cache at 100 B/s, ready in about 19 s (14:00 UTC)."
    )

    at(40)
    end(world, run, "prep")
    at(41)

    assert states(run) == {"prep": "succeeded", "train": "running"}
    assert copies() == [("xray", "lab-cache", "ready")]
    assert CachedCommit.objects.get().bytes_moved == SIZE_BYTES
    assert list(CacheHold.objects.values_list("holder", "is_ahead")) == [(newest_attempt(run, "train").pk, False)]


def test_a_copy_that_is_still_coming_is_taken_over_too(world: World, run, at):
    at(11)
    end(world, run, "prep")
    at(12)
    assert states(run) == {"prep": "succeeded", "train": "preparing"}
    assert list(CacheHold.objects.values_list("holder", flat=True)) == [newest_attempt(run, "train").pk]

    at(32)

    assert states(run) == {"prep": "succeeded", "train": "running"}
    assert CachedCommit.objects.get().bytes_moved == SIZE_BYTES


def test_nothing_is_brought_for_a_step_whose_parent_waits(start, at):
    run = start(FLOW.replace("compute: lab.small", "compute: lab.huge", 1))

    at(0)
    at(1)

    assert states(run) == {"prep": "queued", "train": "pending"}
    assert copies() == []


def test_nothing_is_brought_for_steps_further_below(start, new_commit, at):
    new_commit("other")
    run = start(FLOW + "  - {name: test, command: c, after: [train], data: [{dataset: team-a/other}]}\n")
    at(0)
    at(1)

    assert states(run)["prep"] == "running"
    assert copies() == [("xray", "lab-cache", "hydrating")]


def test_stopping_the_run_cancels_what_is_on_its_way(member, run, at):
    at(11)

    runs.cancel_run(actor=member, run=run)
    at(12)

    assert copies() == [("xray", "lab-cache", "gone")]
    assert last_word_of("xray") == "Cancelled: train of f #1 will not read it: member cancelled the run."
    assert log_of(run, "step.let_go") == [
        ("train", "Its data is not brought to lab-cache any more: member cancelled the run.")
    ]
    assert not CacheHold.objects.exists()


def test_a_parent_that_fails_for_good_cancels_it_and_one_that_is_tried_again_does_not(world: World, run, at):
    at(5)
    end(world, run, "prep", exit_code=1)
    at(6)
    assert states(run) == {"prep": "backoff", "train": "pending"}
    assert copies() == [("xray", "lab-cache", "hydrating")]
    at(10)
    assert (states(run)["prep"], newest_attempt(run, "prep").number) == ("running", 2)
    assert CacheHold.objects.count() == 1
    assert len(log_of(run, "step.bringing")) == 1

    end(world, run, "prep", exit_code=1)
    at(11)

    assert states(run) == {"prep": "failed", "train": "skipped"}
    assert copies() == [("xray", "lab-cache", "gone")]
    assert log_of(run, "step.let_go") == [("train", "Its data is not brought to lab-cache any more: 'prep' failed.")]


def test_a_step_that_its_condition_skips_lets_its_data_go(world: World, start, at):
    conditional = FLOW.replace("after: [prep]", "after: [prep]\n    when: prep.loss < 0.5")
    run = start(conditional)
    at(0)
    at(1)
    assert copies() == [("xray", "lab-cache", "hydrating")]

    end(world, run, "prep")
    at(2)

    assert states(run) == {"prep": "succeeded", "train": "skipped"}
    assert copies() == [("xray", "lab-cache", "gone")]
    ((_, reason),) = log_of(run, "step.let_go")
    assert reason.startswith("Its data is not brought to lab-cache any more: Its condition does not hold")


def test_a_step_that_starts_elsewhere_lets_its_data_go(world: World, run, xray, at):
    at(5)
    cloud = CacheSite.objects.get(name="cloud-cache")
    CacheSite.objects.filter(pk=cloud.pk).update(config={"size_bytes": 10_000, "rate_bytes_s": 10_000})
    caches.request_cache(actor=SYSTEM, commit=xray, site=cloud)
    at(6)
    at(7)
    assert copies() == [("xray", "lab-cache", "hydrating"), ("xray", "cloud-cache", "ready")]

    end(world, run, "prep")
    at(8)

    assert Step.objects.get(run=run, key="train").template == "cloud.small"
    assert copies() == [("xray", "lab-cache", "gone"), ("xray", "cloud-cache", "ready")]
    assert log_of(run, "step.let_go") == [
        ("train", "Its data is not brought to lab-cache any more: it starts on cloud.small.")
    ]


def test_nothing_that_is_held_or_pinned_leaves_for_it_and_the_step_gets_its_data_later(start, new_commit, site, at):
    pinned = caches.request_cache(actor=SYSTEM, commit=new_commit("pinned", 5000), site=site)
    caches.set_pinned(actor=SYSTEM, cached_commit_id=pinned.pk, is_pinned=True)
    held = new_commit("held", 4000)
    caches.request_cache(actor=SYSTEM, commit=held, site=site, holder="someone", why="a job")
    at(0)
    at(50)
    at(100)
    run = start(FLOW.replace("[lab.small, cloud.small]", "lab.small"))
    at(101)
    at(102)
    assert states(run) == {"prep": "running", "train": "pending"}
    assert copies() == [("pinned", "lab-cache", "ready"), ("held", "lab-cache", "ready")]

    caches.release_holds(actor=SYSTEM, holder="someone")
    at(200)

    assert copies() == [
        ("pinned", "lab-cache", "ready"),
        ("held", "lab-cache", "gone"),
        ("xray", "lab-cache", "hydrating"),
    ]


def test_what_is_needed_now_takes_the_space_of_what_was_brought_ahead(run, new_commit, site, at):
    at(40)
    assert copies() == [("xray", "lab-cache", "ready")]

    caches.request_cache(actor=SYSTEM, commit=new_commit("big", 9000), site=site)
    at(41)

    assert copies() == [("xray", "lab-cache", "gone"), ("big", "lab-cache", "hydrating")]
    assert not CacheHold.objects.exists()
    with pytest.raises(CacheFull):
        caches.request_cache(actor=SYSTEM, commit=new_commit("next", 2000), site=site, holder="x", is_ahead=True)


def test_what_is_needed_now_goes_first_and_what_was_brought_ahead_goes_on_where_it_stopped(run, new_commit, site, at):
    at(11)
    caches.request_cache(actor=SYSTEM, commit=new_commit("urgent"), site=site)

    at(12)
    assert copies() == [("xray", "lab-cache", "queued"), ("urgent", "lab-cache", "hydrating")]
    paused = CachedCommit.objects.get(dataset__name="xray")
    assert paused.waits_for == "the copies that are needed on lab-cache now"
    at(42)
    at(43)
    assert copies() == [("xray", "lab-cache", "hydrating"), ("urgent", "lab-cache", "ready")]
    at(50)
    before = CachedCommit.objects.get(dataset__name="xray").bytes_done
    at(62)

    paused.refresh_from_db()
    assert (paused.state, paused.bytes_moved) == ("ready", SIZE_BYTES)
    assert before > 1000


def test_a_worker_that_died_after_the_parent_began_leaves_no_data_behind(start, at):
    run = start(FLOW)
    at(0)
    at(1)
    caches.release_holds(actor=SYSTEM, holder=CacheHold.objects.get().holder)
    Run.objects.filter(pk=run.pk).update(wake_at=clock.now())

    at(2)

    assert [hold.is_ahead for hold in CacheHold.objects.all()] == [True]
