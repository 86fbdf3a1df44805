"""Code of flows in the store: what of it is kept, for how long, and that the server's own disk holds none of it."""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings

from compute.adapters import drivers
from compute.adapters.local import kind
from compute.models import Job, Resource
from compute.workers import cleaning
from core import clock
from datasets.models import Pack, StoredTree, TreeHold
from datasets.workers import collection
from experiments.workers import artifacts
from flows.errors import BundleNotFound
from flows.models import Bundle, Run
from flows.services import bundles, flows, runs
from flows.workers import code
from tests.apps.flows.test_bundles import FLOW, pack
from tests.factories.experiments import keep_in_old_folder
from tests.factories.flows import World, bring_code, newest_attempt, states

CODE = pack(("train.py", b"print('hello')"), ("lib/model.py", b"x = 1"))
TWO_STEPS = "flow: f\nsteps: [{name: a, command: cat train.py}, {name: b, command: cat train.py, after: [a]}]"
DAY = timedelta(days=1)


def save(actor, project, text=FLOW, data=CODE):
    bundle = bundles.save_bundle(actor=actor, project=project, data=data)
    return flows.save_version(actor=actor, project=project, text=text, bundle=bundle.sha256)


@pytest.fixture
def driver(world: World):
    """The driver of this machine with real jobs."""
    resource = Resource.objects.get(name="this-machine")
    home = Path(settings.NEARLINE.home)
    driver = kind.open_driver(resource, home, {})
    drivers.install(resource, driver)
    yield driver
    driver.close()
    shutil.rmtree(home / "trees", ignore_errors=True)


def test_equal_files_of_two_versions_of_the_code_are_stored_once(world: World, member, project):
    save(member, project)
    before = set(Pack.objects.values_list("sha256", flat=True))

    save(member, project, data=pack(("train.py", b"print('hello')"), ("model.py", b"x = 1")))

    assert set(Pack.objects.values_list("sha256", flat=True)) == before
    assert StoredTree.objects.count() == 2


def test_code_stays_while_a_version_has_it_and_leaves_the_store_when_none_has(world: World, member, project):
    with clock.frozen_at(clock.now()) as move:
        start = clock.now()
        used = save(member, project)
        unused = bundles.save_bundle(actor=member, project=project, data=pack(("other.py", b"2")))
        move(start + DAY - timedelta(seconds=1))
        assert code.delete_unused() == 0

        move(start + DAY + timedelta(seconds=1))
        assert code.delete_unused() == 1
        move(start + 3 * DAY)
        collection.collect()

    assert list(Bundle.objects.values_list("sha256", flat=True)) == [used.bundle]
    assert not Bundle.objects.filter(pk=unused.pk).exists()
    assert [hold.holder for hold in TreeHold.objects.all()] == [Bundle.objects.get().holder]
    assert list(StoredTree.objects.values_list("root", flat=True)) == [Bundle.objects.get().root]


def test_code_that_is_sent_again_stays_another_day(world: World, member, project):
    with clock.frozen_at(clock.now()) as move:
        start = clock.now()
        bundles.save_bundle(actor=member, project=project, data=CODE)
        move(start + DAY)
        bundles.save_bundle(actor=member, project=project, data=CODE)
        move(start + 2 * DAY - timedelta(seconds=1))

        assert code.delete_unused() == 0


def keep_as_before(project, data: bytes = CODE) -> Bundle:
    """Keep code as the first release did: an archive in the home folder."""
    return Bundle.objects.create(
        project=project, sha256="a" * 64, size_bytes=len(data), files=2, content_hash=keep_in_old_folder(data)
    )


def test_code_of_the_first_release_runs_before_and_after_it_is_moved(world: World, member, project):
    old = keep_as_before(project)
    version = flows.save_version(actor=member, project=project, text=FLOW, bundle=old.sha256)
    run = runs.start_run(actor=member, version=version, parameters={})
    world.turn()

    assert (bring_code(run, "a") / "lib/model.py").read_text() == "x = 1"
    assert not code.find_old()[0].exists()


def test_code_of_the_first_release_is_moved_in_the_background(world: World, member, project):
    old = keep_as_before(project)

    code.move_code()
    shutil.rmtree(Path(settings.NEARLINE.home) / "artifacts")

    version = flows.save_version(actor=member, project=project, text=FLOW, bundle=old.sha256)
    run = runs.start_run(actor=member, version=version, parameters={})
    world.turn()
    assert (bring_code(run, "a") / "train.py").read_text() == "print('hello')"
    assert Bundle.objects.get().size_bytes == len(CODE)


def test_code_whose_old_files_are_gone_is_told_and_holds_up_no_other(world: World, member, project):
    lost = keep_as_before(project)
    shutil.rmtree(Path(settings.NEARLINE.home) / "artifacts")
    kept = keep_in_old_folder(pack(("other.py", b"2")))
    other = Bundle.objects.create(project=project, sha256="b" * 64, size_bytes=1, files=1, content_hash=kept)

    code.move_code()

    with pytest.raises(BundleNotFound, match="gone from the home folder"):
        code.get_tree(project.pk, lost.sha256)
    assert Bundle.objects.get(pk=other.pk).root
    assert Bundle.objects.get(pk=lost.pk).root == ""


def test_the_servers_disk_may_lose_the_code_between_push_and_run_and_between_steps(
    world: World, member, project, driver
):
    version = save(member, project, TWO_STEPS)
    shutil.rmtree(Path(settings.NEARLINE.home) / "trees", ignore_errors=True)
    run = runs.start_run(actor=member, version=version, parameters={})
    while Run.objects.get(pk=run.pk).finished_at is None:
        world.turn()
        driver.wait_for_news(0.05)
        if states(run) == {"a": "succeeded", "b": "queued"}:
            shutil.rmtree(Path(settings.NEARLINE.home) / "trees")

    assert states(run) == {"a": "succeeded", "b": "succeeded"}
    logs = [driver.read_log(newest_attempt(run, step).job_name, 0, 1000).data for step in ("a", "b")]
    assert logs == [b"print('hello')"] * 2
    assert not (Path(settings.NEARLINE.home) / "code").exists()


PASSING_ON = """
flow: f
steps:
- {name: a, command: echo weights > $NEARLINE_OUTPUT/model.txt}
- {name: b, command: cat $NEARLINE_INPUT/a/model.txt, after: [a]}
"""


def test_a_step_reads_the_output_of_an_earlier_one_that_is_not_on_this_host_from_the_store(
    world: World, member, project, driver
):
    version = flows.save_version(actor=member, project=project, text=PASSING_ON)
    run = runs.start_run(actor=member, version=version, parameters={})
    while Run.objects.get(pk=run.pk).finished_at is None:
        world.turn()
        driver.wait_for_news(0.05)
    on_host = newest_attempt(run, "b").job.spec["inputs"][0]["source"]["kind"]
    artifacts.store_artifacts()
    folder = Path(settings.NEARLINE.home) / "jobs" / newest_attempt(run, "a").job_name
    shutil.rmtree(folder)

    runs.retry_run(actor=member, run=Run.objects.get(pk=run.pk), step="b")
    while Run.objects.get(pk=run.pk).finished_at is None:
        world.turn()
        driver.wait_for_news(0.05)

    assert on_host == "host_folder"
    assert states(run) == {"a": "succeeded", "b": "succeeded"}
    attempt = newest_attempt(run, "b")
    assert attempt.job.spec["inputs"][0]["source"]["kind"] == "tree"
    assert driver.read_log(attempt.job_name, 0, 100).data == b"weights\n"


def test_the_folder_of_code_goes_once_no_live_job_reads_it(world: World, member, project):
    run = runs.start_run(actor=member, version=save(member, project), parameters={})
    world.turn()
    folder = bring_code(run, "a")

    assert cleaning.delete_idle_trees(keep=timedelta(0)) == 0
    Job.objects.update(state="cancelled")
    assert cleaning.delete_idle_trees(keep=timedelta(0)) == 1
    assert not folder.exists()
