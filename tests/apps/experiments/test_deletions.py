"""Deleting one experiment: what is lost is told first; what goes on, or belongs to a run, stays."""

import pytest
from django.db import connection

from accounts.errors import PermissionDenied
from accounts.models import AuditEntry
from accounts.permissions import Actor, Role
from compute.models import Job
from compute.selectors.outputs import holder_of
from compute.services import submissions
from compute.services.submissions import Submission
from core import clock, tasks
from datasets.models import TreeHold
from datasets.services import trees
from experiments.errors import ExperimentGoesOn, ExperimentOfRun
from experiments.models import Experiment, Fact, MetricLast, MetricPoint
from experiments.selectors import experiments
from experiments.services import annotations, deletions, recording
from experiments.services.recording import Point, Values
from tests.factories.api import call
from tests.factories.browsers import browser_of
from tests.factories.datasets import make_store, source_files
from tests.factories.experiments import make_experiments, make_run
from tests.factories.flows import World
from tests.markup import flat

pytestmark = pytest.mark.django_db
MEASURED = Values(parameters={"lr": 0.1}, tags={"split": "patient"}, metrics=[Point("loss", 0.5), Point("loss", 0.4)])
EFFECTS = ["It loses 1 metric (2 points), 1 parameter, 1 tag, its note.", "It cannot be restored."]


def create(actor, project, *, is_over: bool = True) -> Experiment:
    row = recording.create_experiment(actor=actor, project=project, title="elsewhere", values=MEASURED)
    annotations.write_note(actor=actor, experiment=row, text="Look again.", seen_at=None)
    if is_over:
        recording.finish_experiment(actor=actor, experiment=row, state="succeeded")
    return Experiment.objects.get(pk=row.pk)


def test_what_is_lost_is_told_and_then_it_goes_with_all_that_it_recorded(member, project):
    row, other = create(member, project), create(member, project)

    assert deletions.foresee_deletion(actor=member, experiment=row) == EFFECTS
    assert Experiment.objects.count() == 2
    deletions.delete_experiment(actor=member, experiment=row)
    deletions.delete_experiment(actor=member, experiment=row)

    assert list(experiments.list_experiments(actor=member)) == [other]
    tasks.run("experiments.remove_deleted", {})
    assert list(Experiment.objects.all()) == [other]
    for part in (MetricPoint, MetricLast, Fact):
        assert set(part.objects.values_list("experiment", flat=True)) == {other.pk}
    assert AuditEntry.objects.filter(action="experiments.delete").count() == 1


def test_one_that_goes_on_and_one_of_a_run_stay(member, project, make_actor):
    live = create(member, project, is_over=False)
    (of_run,) = make_experiments(make_run(project, by="member"), 1, lambda _: {"title": "train"})

    admin = make_actor(Role.ADMIN)
    for row, refusal in ((live, ExperimentGoesOn), (of_run, ExperimentOfRun)):
        for refused in (deletions.foresee_deletion, deletions.delete_experiment):
            with pytest.raises(refusal):
                refused(actor=admin, experiment=row)
    assert Experiment.objects.count() == 2


def test_that_of_another_is_deleted_by_an_admin_alone(member, project, viewer, make_actor):
    row = create(member, project)

    other = make_actor(Role.MEMBER, name="other")
    for actor in (viewer, other):
        for refused in (deletions.foresee_deletion, deletions.delete_experiment):
            with pytest.raises(PermissionDenied):
                refused(actor=actor, experiment=row)
    assert Experiment.objects.get() == row

    admin = make_actor(Role.ADMIN)
    deletions.delete_experiment(actor=admin, experiment=row)
    assert not experiments.list_experiments(actor=admin).exists()


def test_its_points_are_removed_some_at_a_time(member, project):
    row = create(member, project)
    at = clock.now()
    points = [MetricPoint(experiment=row, key="loss", step=step, value=0.5, at=at) for step in range(1200)]
    MetricPoint.objects.bulk_create(points)
    deletions.delete_experiment(actor=member, experiment=row)
    counts: list[int] = []

    def note(execute, sql, params, many, context):
        answer = execute(sql, params, many, context)
        if sql.startswith("DELETE") and "metricpoint" in sql:
            counts.append(len(params))
        return answer

    with connection.execute_wrapper(note):
        tasks.run("experiments.remove_deleted", {})

    assert counts == [500, 500, 202, 1]  # what is left is looked for once more, by the experiment
    assert not Experiment.objects.exists()


@pytest.fixture
def ended(world: World, member, project, tmp_path) -> Job:
    """A job that has ended and left a file."""
    make_store(tmp_path / "store")
    wanted = Submission(template="this-machine.small", command="python train.py", name="train")
    job = submissions.submit_job(actor=member, project=project, submission=wanted)
    Experiment.objects.update(state="succeeded")
    files = source_files({"model.pt": b"weights"})
    tree = trees.store_tree(actor=Actor.system("test"), project=project, holder=holder_of(job.pk), files=files)
    Job.objects.update(output_root=tree.root, output_files=1, state="succeeded")
    return Job.objects.get()


@pytest.mark.parametrize("is_job_first", [True, False])
def test_files_of_a_job_go_once_neither_it_nor_its_experiment_is_there(member, ended, is_job_first):
    row = Experiment.objects.get()

    def delete_job():
        submissions.delete_job(actor=member, job=ended)

    def delete_experiment():
        effects = deletions.foresee_deletion(actor=member, experiment=row)
        fate = "are deleted, as its job was" if is_job_first else "stay in the output of the job train"
        assert effects[-2:] == [f"Its 1 file {fate}.", "It cannot be restored."]
        deletions.delete_experiment(actor=member, experiment=row)

    first, second = (delete_job, delete_experiment) if is_job_first else (delete_experiment, delete_job)

    first()
    tasks.run("compute.purge_deleted_jobs", {})
    assert TreeHold.objects.filter(holder=holder_of(ended.pk)).exists()
    second()
    tasks.run("compute.purge_deleted_jobs", {})
    assert not TreeHold.objects.filter(holder=holder_of(ended.pk)).exists()


def test_files_of_the_parts_of_a_job_go_with_it(member, ended):
    Experiment.objects.all().delete()
    whole = Job.objects.get(pk=ended.pk)
    whole.pk, whole.name, whole.output_root, whole._state.adding = "job_whole", "whole", "", True
    whole.workload = None
    whole.save()
    Job.objects.filter(pk=ended.pk).update(part_of=whole.pk, part_index=0)

    submissions.delete_job(actor=member, job=whole)
    tasks.run("compute.purge_deleted_jobs", {})

    assert not TreeHold.objects.filter(holder=holder_of(ended.pk)).exists()


def test_the_api_tells_and_deletes(member, project):
    row = create(member, project)

    assert call(member, "GET", f"/experiments/{row.pk}/deletion") == (200, {"effects": EFFECTS})
    assert call(member, "DELETE", f"/experiments/{row.pk}").status == 204
    assert call(member, "GET", f"/experiments/{row.pk}").status == 404


def test_the_page_offers_it_to_those_who_may_and_says_what_is_lost(member, viewer, project):
    row = create(member, project)
    address = f"/experiments/{row.pk}/"

    page = flat(browser_of(member).get(address).content.decode())
    assert " ".join(["<b>elsewhere</b>is deleted.", *EFFECTS]) in page
    assert "Delete this experiment?" not in browser_of(viewer).get(address).content.decode()

    answer = browser_of(member).post(f"{address}delete/")

    assert answer.url == "/experiments/?project=team-a"
    assert not experiments.list_experiments(actor=member).exists()
