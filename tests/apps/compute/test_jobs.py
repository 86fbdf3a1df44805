import pytest

from accounts.errors import PermissionDenied, ProjectNotFound
from accounts.models import AuditEntry, Project
from accounts.permissions import Actor, Role
from compute.engine.job_spec import HostFolder, Mount, SourceKind
from compute.engine.states import JobState
from compute.errors import JobNameTaken, TemplateNotFound, UnmountableSource
from compute.models import Job, JobEvent
from compute.services import jobs
from compute.workers import observe
from scheduler.models import Workload
from tests.factories import compute as make


def test_a_submitted_job_waits_with_a_workload_of_its_templates_size(project, template, member):
    request = make.make_request(project, template, "train")

    [job] = jobs.submit_many(actor=member, requests=[request])

    workload = Workload.objects.get(pk=job.workload_id)
    assert (job.state, job.template_name, job.submitted_by) == (JobState.PENDING, "scripted.small", "member")
    assert (workload.name, workload.state, workload.resource_id) == ("train", "pending", template.resource_id)
    assert (workload.cpu_millicores, workload.memory_bytes, workload.gpu_milli) == (1000, 2**30, 0)
    assert list(job.events.values_list("seq", "state", "message")) == [(1, "pending", "Waits for scripted.small.")]


def test_submitting_a_name_again_returns_the_job_that_has_it(project, template, member):
    first = jobs.submit_many(actor=member, requests=[make.make_request(project, template, "train", "echo 1")])

    again = jobs.submit_many(actor=member, requests=[make.make_request(project, template, "train", "echo 2")])

    assert again == first
    assert again[0].spec["command"] == "echo 1"
    assert (Job.objects.count(), Workload.objects.count(), JobEvent.objects.count()) == (1, 1, 1)


def test_old_and_new_names_come_back_in_the_order_of_the_requests(project, template, member):
    make.submit(project, template, "b")

    names = [make.make_request(project, template, name) for name in ("c", "b", "a")]
    found = jobs.submit_many(actor=member, requests=names)

    assert [job.name for job in found] == ["c", "b", "a"]


def test_a_name_of_another_project_is_refused_and_nothing_is_created(project, template, member):
    other = Project.objects.create(name="team-b")
    make.submit(other, template, "train")

    with pytest.raises(JobNameTaken):
        jobs.submit_many(actor=member, requests=[make.make_request(project, template, n) for n in ("new", "train")])

    assert Job.objects.count() == 1


@pytest.mark.parametrize(("role", "error"), [(Role.VIEWER, PermissionDenied), (None, ProjectNotFound)])
def test_those_who_may_not_write_cannot_submit(project, template, make_actor, role, error):
    actor = make_actor(role)

    with pytest.raises(error):
        jobs.submit_many(actor=actor, requests=[make.make_request(project, template, "train")])

    assert not Job.objects.exists()


def test_an_unknown_template_is_refused(project, template, member):
    request = make.make_request(project, template, "train")
    template.delete()

    with pytest.raises(TemplateNotFound):
        jobs.submit_many(actor=member, requests=[request])

    assert not Job.objects.exists()


def test_a_thousand_jobs_are_submitted_in_a_handful_of_queries(
    project, template, member, django_assert_max_num_queries
):
    requests = [make.make_request(project, template, f"job-{number}") for number in range(1000)]

    # SQLite takes 999 values a statement, so its inserts come in pieces of some tens of rows.
    with django_assert_max_num_queries(110):
        submitted = jobs.submit_many(actor=member, requests=requests)

    assert len(submitted) == Job.objects.count() == 1000


def test_submitting_leaves_one_audit_entry(project, template, member):
    jobs.submit_many(actor=member, requests=[make.make_request(project, template, n) for n in ("a", "b")])

    entry = AuditEntry.objects.get(action="compute.submit_jobs")

    assert (entry.actor_name, entry.project_id, entry.facts) == ("member", project.pk, {"count": 2})


def test_a_waiting_job_is_cancelled_at_once_and_gives_its_place_in_the_queue_back(project, template):
    [job] = make.submit(project, template, "train")

    jobs.cancel_many(actor=Actor.system("test"), job_ids=[job.pk], reason="No longer needed.")

    job.refresh_from_db()
    assert (job.state, job.reason_code, job.reason) == ("cancelled", "cancelled", "No longer needed.")
    assert job.finished_at is not None
    assert job.workload.state == "released"


def test_a_running_job_is_stopped_and_then_cancelled(project, template, resource, driver):
    [job] = make.submit(project, template, "train")
    make.start([job])

    jobs.cancel_many(actor=Actor.system("test"), job_ids=[job.pk], reason="No longer needed.")
    before = make.state_of(job)
    observe.observe_resource(resource_id=resource.pk)
    observe.observe_resource(resource_id=resource.pk)

    job.refresh_from_db()
    assert before == JobState.STOPPING
    assert (job.state, job.reason, job.workload.state) == ("cancelled", "No longer needed.", "released")


def test_a_job_that_succeeded_before_the_stop_reached_it_keeps_its_success(project, template, resource, driver):
    [job] = make.submit(project, template, "train")
    make.start([job])
    driver.finish("train")

    jobs.cancel_many(actor=Actor.system("test"), job_ids=[job.pk], reason="No longer needed.")
    observe.observe_resource(resource_id=resource.pk)

    assert make.state_of(job) == JobState.SUCCEEDED


def test_cancelling_an_ended_job_changes_nothing(project, template, resource, driver, member):
    [job] = make.submit(project, template, "train")
    make.start([job])
    driver.finish("train")
    observe.observe_resource(resource_id=resource.pk)
    events = job.events.count()

    jobs.cancel_job(actor=member, job=job)

    assert (job.state, job.events.count()) == (JobState.SUCCEEDED, events)
    assert not AuditEntry.objects.filter(action="compute.cancel_job").exists()


def test_a_viewer_cannot_cancel(project, template, viewer):
    [job] = make.submit(project, template, "train")

    with pytest.raises(PermissionDenied):
        jobs.cancel_job(actor=viewer, job=job)

    assert make.state_of(job) == JobState.PENDING


def test_a_thousand_jobs_are_cancelled_in_a_handful_of_queries(project, template, django_assert_max_num_queries):
    submitted = make.submit(project, template, *(f"job-{number}" for number in range(1000)))
    ids = [job.pk for job in submitted]

    with django_assert_max_num_queries(30):
        jobs.cancel_many(actor=Actor.system("test"), job_ids=ids, reason="Enough.")

    assert Job.objects.filter(state=JobState.CANCELLED).count() == 1000


def test_news_of_all_changed_jobs_is_sent_once_on_commit(project, template, news, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        submitted = make.submit(project, template, "a", "b")

    assert news == [[job.pk for job in submitted]]


def test_only_jobs_that_still_wait_are_withdrawn(project, template, driver):
    waiting, placed, running = make.submit(project, template, "waiting", "placed", "running")
    make.start([running])
    make.place([placed])

    withdrawn = jobs.withdraw_many(
        actor=Actor.system("test"), job_ids=[waiting.pk, placed.pk, running.pk], reason="Tried elsewhere."
    )

    assert withdrawn == [waiting.pk]
    assert [make.state_of(job) for job in (waiting, placed, running)] == ["cancelled", "pending", "running"]
    assert Workload.objects.get(pk=placed.workload_id).state == "placed"
    assert Workload.objects.get(pk=waiting.workload_id).state == "released"


def test_a_job_that_mounts_what_its_resource_cannot_is_refused_by_name(project, template, driver):
    driver.mountable = frozenset({SourceKind.VOLUME, SourceKind.NFS_EXPORT})
    mount = Mount("digits", HostFolder("/site/digits"))

    with pytest.raises(UnmountableSource) as raised:
        make.submit(project, template, "job", data=[mount])

    assert raised.value.message == (
        "scripted.small cannot read 'digits': it comes from folders of the platform's host, "
        "and jobs on scripted mount volumes of a cluster and NFS exports."
    )
    assert not Job.objects.exists()
