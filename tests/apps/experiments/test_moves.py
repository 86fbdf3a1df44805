"""What the first release stored in a folder of files by hash is moved into the store of trees, and readable meanwhile."""

import pytest
from blake3 import blake3
from django.conf import settings

from experiments.models import Artifact, Experiment
from experiments.selectors import artifacts, experiments
from experiments.workers import moves
from tests.factories.flows import World

FLOW = "flow: f\nsteps: [{name: a, command: c}]"


@pytest.fixture
def experiment(tmp_path, project, member, settings):
    """An experiment that succeeded under the first release: rows, and files in the folder."""
    settings.NEARLINE = settings.NEARLINE.__class__(**{**vars(settings.NEARLINE), "home": tmp_path / "home"})
    world = World(tmp_path / "world")
    run = world.start(member, project, FLOW)
    world.finish_all(run)
    row = Experiment.objects.get()
    for path, content in (("report.txt", b"fine"), ("models/best.bin", b"model"), ("copy.bin", b"model")):
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
