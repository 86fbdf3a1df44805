import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from accounts.models import User
from accounts.selectors import actor_of
from compute.engine.job_spec import SourceKind
from compute.models import Resource, ResourceSite
from compute.services import resources
from core import clock
from core.models import Failure
from datasets.adapters.folder import FolderStore
from datasets.adapters.sites.folder.copy_folder import make_folder
from datasets.errors import StoreUnreachable
from datasets.models import CachedCommit, CacheHold, CacheSite
from datasets.selectors import trees
from datasets.services import cache_sites, caches
from datasets.workers import cache_hydration
from experiments.models import Experiment
from flows.models import Attempt, AttemptInput, Run
from flows.selectors import failures as flow_failures
from flows.services import runs
from flows.workers import advance, staging
from nearline.hydrate.engine import Cancellation
from tests.factories.datasets import commit_files, make_dataset, make_store, read_tree
from tests.factories.flows import World, newest_attempt, state_of, states
from tests.interleaving import happens_after

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
FILES = {"0/a.png": b"zero", "1/b.png": b"one"}


@pytest.fixture
def dataset(world: World, member, project, tmp_path):
    make_store(tmp_path / "store")
    return make_dataset(member, project, "digits")


@pytest.fixture
def site(world: World, tmp_path) -> CacheSite:
    folder = tmp_path / "cache"
    ResourceSite.objects.create(resource=Resource.objects.get(name="this-machine"), site="local", position=0)
    return CacheSite.objects.create(name="local", root=str(folder), mark=make_folder(folder), capacity_bytes=10**9)


def flow(*, cached: bool) -> str:
    return (
        "flow: f\nsteps: [{name: a, command: c, retries: {infrastructure: 0},"
        f" data: [{{dataset: team-a/digits@main, cached: {str(cached).lower()}}}]}}]"
    )


def test_an_attempt_that_ends_while_its_data_is_asked_for_holds_nothing(world: World, member, project, dataset, site):
    commit_files(member, dataset, FILES)
    world.start(member, project, flow(cached=True))

    def end() -> None:
        Attempt.objects.update(state="cancelled")
        staging.release_inputs()

    with happens_after('FROM "datasets_cachedcommit"', end):
        world.turn()

    assert AttemptInput.objects.get().state == "released"
    assert CacheHold.objects.count() == 0


def hydrate() -> None:
    for row in CachedCommit.objects.filter(state="queued"):
        cache_hydration.hydrate_cached_commit(cached_commit_id=row.pk)


def test_a_cached_input_is_cached_once_held_and_mounted(world: World, member, project, dataset, site):
    commit = commit_files(member, dataset, FILES)
    run = world.start(member, project, flow(cached=True))

    world.turn()
    assert states(run) == {"a": "preparing"}
    assert CachedCommit.objects.get().commit_id == commit.pk
    hydrate()
    world.turn()
    world.turn()

    attempt = newest_attempt(run, "a")
    (mount,) = attempt.job.spec["data"]
    assert mount["name"] == "digits"
    assert read_tree(Path(mount["source"]["path"])) == FILES
    assert states(run) == {"a": "running"}
    assert CacheHold.objects.get().holder == attempt.pk

    world.finish(run, "a")
    world.turn()
    assert CacheHold.objects.count() == 0
    assert state_of(run) == "succeeded"


def test_the_commit_is_chosen_when_the_run_starts(world: World, member, project, dataset, site):
    first = commit_files(member, dataset, FILES)
    run = world.start(member, project, flow(cached=True))
    commit_files(member, dataset, {"other": b"later"})

    world.turn()
    hydrate()
    world.turn()

    assert CachedCommit.objects.get().commit_id == first.pk
    (recorded,) = Experiment.objects.get(run_id=run.pk).datasets
    assert (recorded["reference"], recorded["commit"]) == ("team-a/digits@main", first.pk)
    assert Run.objects.get(pk=run.pk).datasets["team-a/digits@main"]["commit"] == first.pk


def test_an_uncached_input_is_a_copy_of_the_attempts_own(world: World, member, project, dataset, site):
    commit_files(member, dataset, FILES)
    run = world.start(member, project, flow(cached=False))

    world.turn()
    world.turn()
    world.turn()

    (mount,) = newest_attempt(run, "a").job.spec["data"]
    assert read_tree(Path(mount["source"]["path"])) == FILES
    assert CachedCommit.objects.count() == 0
    world.finish(run, "a")
    world.turn()
    assert not Path(mount["source"]["path"]).exists()


def test_a_resource_without_a_cache_site_gets_a_copy(world: World, member, project, dataset):
    commit_files(member, dataset, FILES)
    run = world.start(member, project, flow(cached=True))

    for _ in range(3):
        world.turn()

    assert states(run) == {"a": "running"}
    assert AttemptInput.objects.get().is_cached is False


def test_a_resource_whose_jobs_read_the_store_gets_the_commits_tree_and_no_copy(world: World, member, project, dataset):
    commit = commit_files(member, dataset, FILES)
    world.drivers["this-machine"].mountable = frozenset({SourceKind.TREE})
    run = world.start(member, project, flow(cached=True))

    for _ in range(3):
        world.turn()

    (mount,) = newest_attempt(run, "a").job.spec["data"]
    assert mount["source"] == {"kind": "tree", "dataset_id": dataset.pk, "root": commit.root}
    assert states(run) == {"a": "running"}


def test_a_cache_that_fails_is_a_clear_reason_and_an_infrastructure_failure(
    world: World, member, project, dataset, site
):
    commit_files(member, dataset, FILES)
    run = world.start(member, project, flow(cached=True))
    world.turn()
    CachedCommit.objects.update(state="failed", error="The store does not answer.")
    world.turn()

    attempt = Attempt.objects.get(run=run)
    assert (attempt.state, attempt.failure) == ("failed", "infrastructure")
    assert attempt.reason == "The dataset 'digits' could not be brought here: The store does not answer."
    assert state_of(run) == "failed"


def test_a_full_site_says_what_is_in_the_way(world: World, member, project, dataset, site):
    commit_files(member, dataset, FILES)
    CacheSite.objects.update(capacity_bytes=1)
    run = world.start(member, project, flow(cached=True))

    world.turn()
    world.turn()

    assert Attempt.objects.get(run=run).reason.startswith("The dataset 'digits' could not be brought here: ")
    assert state_of(run) == "failed"


@pytest.fixture
def away(site, monkeypatch) -> list[str]:
    """A store that is away while this list holds anything, which ends when a copy waits; no tree is at hand."""
    reasons: list[str] = []
    get = FolderStore.get

    def answer(store: FolderStore, key: str) -> bytes:
        if reasons:
            raise StoreUnreachable(reasons[0])
        return get(store, key)

    for kept in (trees._roots, trees._ranges):
        monkeypatch.setattr(kept, "get", lambda key: None)
    monkeypatch.setattr(FolderStore, "get", answer)
    monkeypatch.setattr(Cancellation, "sleep", lambda *_: reasons.clear())
    return reasons


def test_a_full_site_is_asked_again_until_the_store_is_back(world: World, member, project, dataset, away):
    site = CacheSite.objects.get()
    older, newer = commit_files(member, dataset, FILES), commit_files(member, dataset, {**FILES, "2/c.png": b"two"})
    run = world.start(member, project, flow(cached=True))
    caches.request_cache(actor=member, commit=older, site=site)
    hydrate()
    CacheSite.objects.update(capacity_bytes=newer.size_bytes)
    away.append("The store does not answer.")

    with clock.frozen_at(clock.now()) as move:
        for _ in range(3):
            world.turn()
            move(clock.now() + timedelta(minutes=1))
        assert states(run) == {"a": "preparing"}
        (failure,) = flow_failures.list_failures(actor=member, run=run)
        assert "The store does not answer" in failure.message
        away.clear()
        advance.advance_all()
        assert not Failure.objects.exists()
        assert CachedCommit.objects.get(commit=newer).state == "queued"


def test_a_store_that_stays_away_fails_the_step_with_its_reason(world: World, member, project, dataset, away):
    commit_files(member, dataset, FILES)
    CacheSite.objects.update(capacity_bytes=1)
    run = world.start(member, project, flow(cached=True))
    away.append("The store does not answer.")

    with clock.frozen_at(clock.now()) as move:
        for _ in range(20):
            world.turn()
            move(clock.now() + timedelta(minutes=1))

    attempt = Attempt.objects.get(run=run)
    assert attempt.reason.startswith("The dataset 'digits' could not be brought here: ")
    assert attempt.reason.endswith("tries ended with The store does not answer.")
    assert state_of(run) == "failed"


def test_a_copy_of_its_own_waits_for_the_store_too(world: World, member, project, dataset, away):
    commit_files(member, dataset, FILES)
    run = world.start(member, project, flow(cached=False))
    world.turn()
    away.append("The store does not answer.")

    world.turn()
    world.turn()

    assert states(run) == {"a": "running"}


def test_cancelling_while_data_is_on_its_way_lets_go_of_it(world: World, member, project, dataset, site):
    commit_files(member, dataset, FILES)
    run = world.start(member, project, flow(cached=True))
    world.turn()

    runs.cancel_run(actor=member, run=run)
    world.turn()

    assert states(run) == {"a": "cancelled"}
    assert CacheHold.objects.count() == 0


def test_a_reference_that_leads_nowhere_stops_the_push(world: World, member, project, dataset):
    from flows.errors import InvalidFlow

    with pytest.raises(InvalidFlow) as caught:
        world.start(member, project, flow(cached=True).replace("digits", "letters"))

    assert caught.value.details["problems"][0]["code"] == "unknown_dataset"
    assert Run.objects.count() == 0


@pytest.fixture(params=[0, 5], ids=["one clock", "a clock of the disk that is behind"])
def minutes_ahead(request, monkeypatch) -> None:
    """The platform's clock, and that of the disk the same or minutes behind."""
    monkeypatch.setattr(clock, "_source", lambda: datetime.now(UTC) + timedelta(minutes=request.param))


@pytest.mark.usefixtures("minutes_ahead", "site")
def test_a_cached_commit_that_a_job_without_a_sandbox_changed_fails_its_readers_and_is_healed(
    world: World, member, project, dataset
):
    commit_files(member, dataset, FILES)
    Resource.objects.filter(name="this-machine").update(unconfined_reason="The setting NEARLINE_CONFINE_JOBS is 0.")
    text = flow(cached=True).replace(
        "[{name: a", "[{name: b, command: c, data: [{dataset: team-a/digits@main}]}, {name: a"
    )
    run = runs_by_admin(world, project, text)
    world.turn()
    hydrate()
    world.turn()
    world.turn()
    file = Path(newest_attempt(run, "a").job.spec["data"][0]["source"]["path"]) / "0" / "a.png"
    before = file.stat()
    file.chmod(0o644)
    file.write_bytes(b"ZERO")
    file.chmod(0o444)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    world.finish(run, "a")
    world.finish(run, "b")

    for step in ("a", "b"):
        attempt = newest_attempt(run, step)
        assert (attempt.state, attempt.failure) == ("failed", "input_changed")
        assert "Its dataset 'digits' was changed while this step could read it: 0/a.png." in attempt.reason
    assert file.read_bytes() == FILES["0/a.png"]


def test_a_cached_commit_that_nobody_changed_lets_a_step_without_a_sandbox_succeed(
    world: World, member, project, dataset, site
):
    commit_files(member, dataset, FILES)
    Resource.objects.filter(name="this-machine").update(unconfined_reason="The setting NEARLINE_CONFINE_JOBS is 0.")
    run = runs_by_admin(world, project, flow(cached=True))
    world.turn()
    hydrate()
    world.finish_all(run)

    assert state_of(run) == "succeeded"


def runs_by_admin(world: World, project, text: str) -> Run:
    """Start a run as somebody who may use a resource without a sandbox."""
    admin = User.objects.create_user("operator", password=None, is_superuser=True)
    return world.start(actor_of(admin), project, text)


@pytest.fixture
def lab(world: World, site_admin, tmp_path):
    """A simulated resource that reads a simulated site, at 10 bytes a second."""
    config = {"size_bytes": 10**6, "rate_bytes_s": 10}
    cache_sites.create_site(actor=site_admin, name="lab-cache", kind="simulated", config=config)
    world.add_resource("sim", tmp_path / "sim", kind="simulated")
    resources.set_sites(actor=site_admin, resource=world.resources["sim"], sites=["lab-cache"])


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("cached", [True, False])
def test_a_simulated_step_waits_for_its_simulated_copy_and_holds_it(world: World, member, project, dataset, cached):
    commit = commit_files(member, dataset, {"a": b"x" * 100})
    text = flow(cached=cached).replace("command: c,", "command: c, compute: sim.small,")

    with clock.frozen_at(START) as move:
        run = world.start(member, project, text)
        world.turn()
        if cached:
            assert states(run) == {"a": "preparing"}
            hydrate()
            move(START + timedelta(seconds=9))
            follow()
            world.turn()
            assert states(run) == {"a": "preparing"}
            move(START + timedelta(seconds=10))
            follow()
        world.turn()
        world.turn()

        attempt = newest_attempt(run, "a")
        tree = {"kind": "tree", "dataset_id": dataset.pk, "root": commit.root}
        assert attempt.job.spec["data"] == [{"name": "digits", "source": tree, "read_only": True}]
        assert list(CacheHold.objects.values_list("holder", flat=True)) == ([attempt.pk] if cached else [])
        world.finish(run, "a")
        world.turn()
    assert state_of(run) == "succeeded"
    assert not CacheHold.objects.exists()


def follow() -> None:
    """Ask the simulated site how far its copies are."""
    for row in CachedCommit.objects.filter(state="hydrating"):
        cache_hydration.hydrate_cached_commit(cached_commit_id=row.pk)
