"""Following the sources of experiments: many of them in one statement, each with its own values."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.errors import PermissionDenied
from accounts.permissions import Actor
from experiments.models import Experiment
from experiments.services import experiments
from experiments.services.experiments import NewExperiment

SYSTEM = Actor.system("tests")
AT = datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _three(db, project):
    new = [
        NewExperiment(
            project.pk, f"att_{number}", f"train {number}", "queued", "ada", is_simulated=number == 2, labels=labels
        )
        for number, labels in enumerate([experiments.Labels(run_id="run_1")] * 3)
    ]
    experiments.create_experiments(actor=SYSTEM, kind="attempt", experiments=new)


def read(*fields: str) -> list[tuple]:
    return list(Experiment.objects.order_by("source_id").values_list(*fields))


def test_each_source_gets_its_own_values_and_others_keep_theirs_in_one_statement():
    changes = {
        "att_0": {"state": "succeeded", "started_at": AT, "finished_at": AT + timedelta(seconds=5), "reason": ""},
        "att_1": {"state": "failed", "started_at": None, "finished_at": AT, "reason": "It could not start."},
    }

    with CaptureQueriesContext(connection) as queries:
        experiments.update_experiments(actor=SYSTEM, kind="attempt", changes=changes)

    assert len(queries) == 1
    assert read("state", "reason", "started_at", "finished_at") == [
        ("succeeded", "", AT, AT + timedelta(seconds=5)),
        ("failed", "It could not start.", None, AT),
        ("queued", "", None, None),
    ]


def test_outputs_are_stored_of_all_but_simulated_jobs():
    wanted = {f"att_{number}": {"state": "succeeded", "artifacts_wanted": True} for number in range(3)}

    experiments.update_experiments(actor=SYSTEM, kind="attempt", changes=wanted)

    assert read("state", "artifacts_wanted") == [("succeeded", True), ("succeeded", True), ("succeeded", False)]


def test_sources_of_another_kind_are_left_alone():
    experiments.update_experiments(actor=SYSTEM, kind="job", changes={"att_0": {"state": "running"}})

    assert read("state") == [("queued",)] * 3


def test_what_is_cancelled_ends_with_its_run_and_outputs_of_what_had_succeeded_are_stored_all_the_same():
    stored = {"att_0": {"state": "succeeded", "finished_at": AT, "artifacts_wanted": True}}
    experiments.update_experiments(actor=SYSTEM, kind="attempt", changes=stored)

    experiments.cancel_experiments(actor=SYSTEM, run_id="run_1", reason="The run was cancelled.", at=AT)

    assert read("state", "artifacts_wanted", "artifacts_error") == [
        ("succeeded", True, ""),
        ("cancelled", False, ""),
        ("cancelled", False, ""),
    ]


def test_a_viewer_changes_no_experiment(viewer, project):
    new = NewExperiment(project.pk, "att_9", "train 9", "queued", "viewer")

    with pytest.raises(PermissionDenied):
        experiments.create_experiments(actor=viewer, kind="attempt", experiments=[new])
    experiments.update_experiments(actor=viewer, kind="attempt", changes={"att_0": {"state": "failed"}})
    experiments.cancel_experiments(actor=viewer, run_id="run_1", reason="No.", at=AT)

    assert read("source_id", "state") == [(f"att_{number}", "queued") for number in range(3)]
