"""What the usage tab of a dataset shows of flows."""

import pytest

from compute.services import submissions
from compute.services.submissions import Submission
from datasets.models import CachedCommit, CacheSite
from datasets.selectors import usage
from datasets.services import caches
from experiments.engine.columns import Kind
from experiments.models import Experiment, Fact
from tests.factories.browsers import browser_of
from tests.factories.datasets import commit_files, make_dataset, make_store
from tests.factories.flows import World

FLOW = "flow: f\nsteps: [{name: a, command: c, data: [{dataset: team-a/digits@main, cached: false}]}]"


@pytest.fixture
def dataset(world: World, member, project, tmp_path):
    make_store(tmp_path / "store")
    return make_dataset(member, project, "digits")


def test_an_attempt_that_read_a_commit_is_a_use_of_it(world: World, member, project, dataset):
    commit = commit_files(member, dataset, {"a": b"a"})
    run = world.start(member, project, FLOW)
    world.turn()
    world.turn()

    (use,) = usage.list_uses(member, dataset, limit=10)

    assert (use.commit_id, use.what, use.who, use.where) == (commit.id, f"f #{run.number} · a", "member", "")
    assert use.url == f"/experiments/{Experiment.objects.get().pk}/"


def test_a_job_that_read_a_cached_commit_is_not_said_to_have_a_copy_of_its_own(world: World, member, project, dataset):
    commit = commit_files(member, dataset, {"a": b"a"})
    job = submissions.submit_job(
        actor=member, project=project, submission=Submission(template="this-machine.small", command="c", name="train")
    )
    read = {"name": "digits", "dataset": "team-a/digits", "commit": commit.id, "cached": True}
    experiment = Experiment.objects.get(job=job)
    Experiment.objects.filter(pk=experiment.pk).update(datasets=[read])
    Fact.objects.create(experiment=experiment, kind=Kind.DATA, key="team-a/digits", text=commit.id)

    (use,) = usage.list_uses(member, dataset, limit=10)

    assert (use.what, use.where) == ("train", "a cached copy")


def test_uses_in_projects_of_others_stay_hidden(world: World, member, project, dataset, site_admin):
    commit_files(member, dataset, {"a": b"a"})
    world.start(member, project, FLOW)
    world.turn()
    experiment = Experiment.objects.get()
    other = type(project).objects.create(name="team-b")
    Experiment.objects.filter(pk=experiment.pk).update(project=other)

    assert list(usage.list_uses(member, dataset, limit=10)) == []
    assert len(usage.list_uses(site_admin, dataset, limit=10)) == 1


def test_the_tab_shows_uses_copies_and_damage(world: World, member, project, dataset, tmp_path):
    commit = commit_files(member, dataset, {"a": b"a"})
    world.start(member, project, FLOW)
    world.turn()
    folder = tmp_path / "cache"
    folder.mkdir()
    site = CacheSite.objects.create(name="near", root=str(folder), capacity_bytes=10**9)
    copy = caches.request_cache(actor=member, commit=commit, site=site)
    CachedCommit.objects.filter(pk=copy.pk).update(state="ready", error="Not healed: the store is away.")
    client = browser_of(member)

    tab = client.get("/datasets/team-a/digits/usage/").content.decode()
    commits = client.get("/datasets/team-a/digits/commits/").content.decode()

    assert "f #1 · a" in tab
    assert "Damaged" in tab
    assert "near · damaged" in commits
    assert "Not healed: the store is away." in commits
