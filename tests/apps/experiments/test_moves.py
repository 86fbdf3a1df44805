"""What the first release stored in a folder of files by hash is moved into the store of trees, and readable meanwhile."""

from datetime import timedelta

import pytest
from blake3 import blake3
from django.conf import settings

from core import clock, isolation
from experiments.models import Artifact, Experiment
from experiments.selectors import artifacts, experiments
from experiments.workers import moves
from flows.models import Run
from flows.selectors import failures
from tests.factories.flows import World

FLOW = "flow: f\nsteps: [{name: a, command: c}]"


FILES = (("report.txt", b"fine"), ("models/best.bin", b"model"), ("copy.bin", b"model"))


@pytest.fixture
def world(db, tmp_path, settings) -> World:
    settings.NEARLINE = settings.NEARLINE.__class__(**{**vars(settings.NEARLINE), "home": tmp_path / "home"})
    return World(tmp_path / "world")


@pytest.fixture
def experiment(world, project, member):
    return make_old(world, project, member, FILES)


def make_old(world, project, member, files):
    """Return an experiment that succeeded under the first release: rows, and files in the folder."""
    run = world.start(member, project, FLOW)
    world.finish_all(run)
    row = Experiment.objects.get(run_id=run.pk)
    for path, content in files:
        Artifact.objects.create(
            experiment=row, path=path, size_bytes=len(content), content_hash=blake3(content).hexdigest()
        )
        file_of(content).parent.mkdir(parents=True, exist_ok=True)
        file_of(content).write_bytes(content)
    return row


def file_of(content):
    digest = blake3(content).hexdigest()
    return settings.NEARLINE.home / "artifacts" / digest[:2] / digest


def read(actor, experiment, path):
    row = experiments.get_experiment(actor=actor, experiment_id=experiment.pk)
    return b"".join(artifacts.open_artifact(actor=actor, experiment=row, path=path)[1])


def listed(actor, experiment):
    row = experiments.get_experiment(actor=actor, experiment_id=experiment.pk)
    files = artifacts.list_artifacts(actor=actor, experiment=row)
    return [(file.path, file.size_bytes, file.content_hash) for file in files]


def test_old_artifacts_are_read_before_and_after_they_are_moved(experiment, member):
    before = listed(member, experiment)
    assert read(member, experiment, "report.txt") == b"fine"

    moves.move_artifacts()
    moves.move_artifacts()

    assert listed(member, experiment) == before
    assert [path for path, _, _ in before] == ["copy.bin", "models/best.bin", "report.txt"]
    assert read(member, experiment, "models/best.bin") == b"model"
    assert not Artifact.objects.exists()
    experiment.job.refresh_from_db()
    assert (experiment.job.output_state, experiment.job.output_files, experiment.job.output_bytes) == ("stored", 3, 14)


def test_moved_artifacts_need_the_old_folder_no_more(experiment, member):
    moves.move_artifacts()

    file_of(b"fine").unlink()

    assert read(member, experiment, "report.txt") == b"fine"


def test_files_that_the_old_folder_lost_are_named_and_the_others_moved(experiment, member):
    file_of(b"fine").unlink()

    moves.move_artifacts()

    assert [path for path, _, _ in listed(member, experiment)] == ["copy.bin", "models/best.bin"]
    experiment.refresh_from_db()
    assert experiment.artifacts_error == "Gone or damaged in the old folder: report.txt."


def why_not(actor, experiment):
    """Return what the page of its run says about an experiment."""
    [failure] = failures.list_failures(actor=actor, run=Run.objects.get(pk=experiment.run_id))
    return failure.message


def test_outputs_that_the_store_refuses_stay_readable_and_their_run_says_why(experiment, member):
    Artifact.objects.filter(path="copy.bin").update(path=".nearline/copy.bin")
    before = listed(member, experiment)

    moves.move_artifacts()

    assert listed(member, experiment) == before
    assert read(member, experiment, ".nearline/copy.bin") == b"model"
    assert Artifact.objects.count() == 3
    assert why_not(member, experiment) == (
        "The platform could not move the outputs of 'a': '.nearline/copy.bin' lies in a '.nearline' folder, which is"
        " reserved for the workspace itself. The outputs stay in the old folder, where they can be read."
    )


def test_outputs_whose_folder_is_not_there_are_moved_once_it_is_back(experiment, member):
    folder = settings.NEARLINE.home / "artifacts"
    folder.rename(folder.with_name("elsewhere"))

    moves.move_artifacts()

    assert Artifact.objects.count() == 3
    assert why_not(member, experiment).endswith(
        "None of the outputs is in the old folder 'artifacts' of the platform's home folder."
    )
    folder.with_name("elsewhere").rename(folder)
    isolation.try_now([failure.pk for failure in isolation.find(["experiments.move_artifacts"])])
    moves.move_artifacts()
    assert [path for path, _, _ in listed(member, experiment)] == ["copy.bin", "models/best.bin", "report.txt"]
    assert (Artifact.objects.count(), isolation.find(["experiments.move_artifacts"])) == (0, [])


def test_experiments_that_cannot_be_moved_hold_up_no_other(world, project, member):
    for path in (".nearline/a", ".nearline/b"):
        make_old(world, project, member, [(path, b"bad")])
    good = make_old(world, project, member, [("good.txt", b"good")])

    with clock.frozen_at(clock.now()) as move:
        for _ in range(2):
            moves.move_artifacts(limit=2)
            move(clock.now() + timedelta(hours=1))

    assert not Artifact.objects.filter(experiment=good).exists()
    assert [path for path, _, _ in listed(member, good)] == ["good.txt"]
