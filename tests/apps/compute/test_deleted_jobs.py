"""What deleted jobs left: the store lets go of it once they have ended, of parts as of whole jobs."""

import pytest

from accounts.permissions import Actor
from compute.models import Job, StoredLogChunk
from compute.selectors.outputs import holder_of
from compute.services import submissions
from compute.services.submissions import Submission
from compute.workers import observe, parts
from compute.workers.cleaning import delete_old_files
from compute.workers.logs import store_logs
from core import tasks
from datasets.models import TreeHold
from datasets.services import trees
from experiments.models import Experiment
from tests.factories import compute as make
from tests.factories.datasets import make_store, source_files

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _store(null_queue, db, home):
    make_store(home / "store")


def purge() -> None:
    tasks.run("compute.purge_deleted_jobs", {})


def hold_output(job: Job) -> None:
    files = source_files({"model.pt": b"weights of " + job.name.encode()})
    trees.store_tree(actor=Actor.system("test"), project=job.project, holder=holder_of(job.pk), files=files)


def holders(prefix: str = "") -> set[str]:
    return set(TreeHold.objects.filter(holder__startswith=prefix).values_list("holder", flat=True))


def end_all(driver, resource) -> None:
    for name in list(Job.objects.filter(state="running").values_list("name", flat=True)):
        driver.print(name, f"I am {name}\n")
        driver.finish(name)
    observe.observe_resource(resource_id=resource.pk)


def test_parts_of_a_deleted_job_keep_no_output(member, project, template, driver, resource):
    wanted = Submission(template=template.full_name, command="c", name="hpo", completions=2, parallelism=2)
    job = submissions.submit_job(actor=member, project=project, submission=wanted)
    parts.advance_parts()
    make.start(list(job.parts.all()))
    end_all(driver, resource)
    parts.advance_parts()
    for each in Job.objects.all():
        hold_output(each)
    shown = job.parts.order_by("pk").first()
    Experiment.objects.filter(job__in=job.parts.all()).update(state="succeeded")
    Experiment.objects.exclude(job=shown).delete()

    submissions.delete_job(actor=member, job=Job.objects.get(pk=job.pk))
    purge()

    assert holders() == {holder_of(shown.pk)}
    assert not Job.objects.filter(purged_at=None).exists()


def test_a_log_goes_and_the_logs_that_share_its_tree_stay(member, project, template, driver, resource):
    first, second = make.submit(project, template, "first", "second")
    make.start([first, second])
    end_all(driver, resource)
    store_logs()
    Job.objects.update(kind=submissions.KIND)

    submissions.delete_job(actor=member, job=Job.objects.get(pk=first.pk))
    purge()

    assert list(StoredLogChunk.objects.values_list("job_id", flat=True)) == [second.pk]
    assert len(holders("log:")) == 1

    submissions.delete_job(actor=member, job=Job.objects.get(pk=second.pk))
    purge()

    assert not StoredLogChunk.objects.exists()
    assert holders("log:") == set()


def test_a_log_that_is_being_read_for_metrics_waits_for_that(member, project, template, driver, resource):
    wanted = Submission(template=template.full_name, command="c", name="train")
    job = submissions.submit_job(actor=member, project=project, submission=wanted)
    make.start([job])
    end_all(driver, resource)
    hold_output(job)
    submissions.delete_job(actor=member, job=Job.objects.get(pk=job.pk))

    purge()
    assert Job.objects.get().purged_at is None

    Experiment.objects.update(state="succeeded")
    purge()
    assert Job.objects.get().purged_at is not None
    assert holders() == {holder_of(job.pk)}  # its experiment shows the files


def test_a_live_one_keeps_what_it_uses_until_it_has_ended(member, project, template, driver, resource):
    (job,) = make.submit(project, template, "train")
    make.start([job])
    Job.objects.update(kind=submissions.KIND)
    hold_output(job)
    submissions.delete_job(actor=member, job=Job.objects.get())

    purge()

    assert holders() == {holder_of(job.pk)}


def test_its_files_go_with_the_next_cleaning(member, project, template, driver, resource):
    jobs = make.submit(project, template, "deleted", "other")
    make.start(jobs)
    end_all(driver, resource)
    Job.objects.update(kind=submissions.KIND)
    submissions.delete_job(actor=member, job=Job.objects.get(name="deleted"))
    purge()

    assert delete_old_files() == 1
    assert list(Job.objects.filter(files_deleted_at=None).values_list("name", flat=True)) == ["other"]
