"""The output of a step becomes a version of a dataset, without a copy of its content."""

import html

import pytest

from accounts.errors import PermissionDenied
from accounts.permissions import Role
from datasets.errors import DatasetNotFound
from datasets.models import Commit, Dataset, Pack
from datasets.selectors import datasets as dataset_reads
from datasets.selectors import files
from datasets.services import datasets
from flows.errors import OutputNotStored, RunNotFound, StepAmbiguous
from flows.services import outputs
from tests.factories.api import call
from tests.factories.browsers import browser_of
from tests.factories.flows import World, newest_attempt
from tests.markup import flat

FLOW = (
    "flow: digits\nsteps: [{name: train, command: c, grid: {C: [1, 10]}}, {name: report, command: c, after: [train]}]"
)


@pytest.fixture
def run(world: World, member, project):
    """A run of which each try of `train` left a model, and `report` nothing."""
    run = world.start(member, project, FLOW)
    world.turn()
    world.turn()
    for index in (0, 1):
        name = newest_attempt(run, "train", index).job_name
        world.driver_of(name).leave(name, "model.bin", b"weights %d" % index)
    world.finish_all(run)
    return run


def read(actor, kept, path):
    commit = dataset_reads.resolve(actor, f"{kept.dataset}@{kept.commit}").commit
    return b"".join(files.open_file(actor, commit, path=path).read())


def test_an_output_is_the_newest_version_of_a_dataset(run, member, project):
    datasets.create_dataset(actor=member, project=project, name="models")
    packs = Pack.objects.filter(lender=None).count()

    kept = outputs.keep_output(actor=member, run=run, step="train", index=1, dataset="models", message="the best")

    assert (kept.dataset, kept.branch, kept.files, kept.size_bytes) == ("team-a/models", "main", 1, 9)
    assert read(member, kept, b"model.bin") == b"weights 1"
    commit = Commit.objects.get(pk=kept.commit)
    assert (commit.message, commit.source, commit.author_name) == ("the best", "flow", member.name)
    assert Pack.objects.filter(lender=None).count() == packs


def test_a_dataset_is_created_only_when_asked_for(run, member):
    with pytest.raises(DatasetNotFound):
        outputs.keep_output(actor=member, run=run, step="train", index=0, dataset="models")
    assert not Dataset.objects.filter(name="models").exists()

    kept = outputs.keep_output(actor=member, run=run, step="train", index=0, dataset="team-a/models", creates=True)

    assert read(member, kept, b"model.bin") == b"weights 0"
    assert Commit.objects.get().message == "Output of train C=1 in digits #1"


def test_a_grid_without_an_index_is_refused_with_its_tries(run, member):
    with pytest.raises(StepAmbiguous, match=r"train C=1 \(index 0\), train C=10 \(index 1\)\."):
        outputs.keep_output(actor=member, run=run, step="train", dataset="models", creates=True)
    answer = call(member, "GET", f"/runs/{run.pk}/steps/train/log")

    assert (answer.status, answer.body["code"]) == (400, "flows.step_ambiguous")
    assert not Dataset.objects.filter(name="models").exists()


def test_a_version_holds_the_files_of_the_output_and_no_others(run, member):
    first = outputs.keep_output(actor=member, run=run, step="train", index=0, dataset="models", creates=True)
    second = outputs.keep_output(actor=member, run=run, step="train", index=1, dataset="models")

    assert second.files == 1
    assert Commit.objects.get(pk=second.commit).parent_id == first.commit
    assert read(member, first, b"model.bin") == b"weights 0"


def test_a_step_that_left_nothing_has_no_output_to_keep(run, member):
    with pytest.raises(OutputNotStored):
        outputs.keep_output(actor=member, run=run, step="report", dataset="models", creates=True)

    assert not Dataset.objects.filter(name="models").exists()


def test_a_step_that_the_run_does_not_have_is_told(run, member):
    with pytest.raises(RunNotFound):
        outputs.keep_output(actor=member, run=run, step="other", dataset="models", creates=True)


def test_viewers_keep_nothing(run, make_actor):
    with pytest.raises(PermissionDenied):
        outputs.keep_output(actor=make_actor(Role.VIEWER), run=run, step="train", dataset="models", creates=True)

    assert not Dataset.objects.filter(name="models").exists()


def test_the_form_keeps_an_output(run, member):
    answer = browser_of(member).post(f"/runs/{run.pk}/steps/train/keep/?index=1", {"dataset": "models"})

    kept = Commit.objects.get()
    assert answer.headers["Location"] == f"/datasets/team-a/models/?ref={kept.pk}"
    assert kept.message == "Output of train C=10 in digits #1"


@pytest.mark.parametrize(
    ("form", "dataset", "error"),
    [
        ("train/keep/?index=0", "Not a name", "'Not a name' cannot be a name. Use 1 to 63 lower-case letters"),
        ("train/keep/?index=0", "", "This field is required."),
        ("report/keep/?index=", "models", "'report' of run #1 left no file in its output folder."),
    ],
)
def test_an_output_that_cannot_be_kept_is_refused_in_the_form(run, member, form, dataset, error):
    given = {"dataset": dataset, "message": "the best"}

    answer = browser_of(member).post(f"/runs/{run.pk}/steps/{form}", given)

    page = flat(html.unescape(answer.content.decode()))
    assert answer.status_code == 422
    assert error in page
    assert all(f'value="{value}"' in page for value in given.values() if value)
    assert not Commit.objects.exists()
