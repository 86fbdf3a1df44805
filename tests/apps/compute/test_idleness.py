"""Jobs with an idle limit: how their use is measured, and how they are warned about, kept and stopped."""

from datetime import UTC, datetime, timedelta

import pytest

from accounts.errors import PermissionDenied
from accounts.models import AuditEntry, User
from accounts.permissions import Actor
from compute.engine.ports import UsageSample
from compute.errors import JobNotRunning, NoIdleLimit
from compute.models import Job, JobUse
from compute.selectors.job_rows import find_idle_states
from compute.services import connections, jobs, keeping, suspensions
from compute.workers import idleness, launches, observe
from core import clock
from scheduler.models import Queue
from scheduler.selectors import queues as queue_selectors
from scheduler.services import pool_members, queues
from tests.factories import compute as make
from tests.factories.api import call

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
HOUR = 3600


@pytest.fixture
def at():
    """Return what moves the clock to so many minutes past noon."""
    with clock.frozen_at(NOON) as set_clock:
        yield lambda minutes: set_clock(NOON + timedelta(minutes=minutes))


@pytest.fixture
def notebook(at, project, template) -> Job:
    """Return an interactive job that runs, and may be idle for an hour by its project."""
    queue_id = pool_members.ensure_queue(project_id=project.pk)
    Queue.objects.filter(pk=queue_id).update(interactive_idle_at_most_s=HOUR)
    return run(project, template, "notebook", is_preemptible=False)


def run(project, template, name: str, **fields) -> Job:
    [job] = make.submit(project, template, name)
    Job.objects.filter(pk=job.pk).update(**fields)
    make.start([job])
    return now(job)


def now(job: Job) -> Job:
    return Job.objects.select_related("resource", "project").get(pk=job.pk)


def sample(driver, job: Job, millicores: int = 0) -> None:
    """Let the job have used so much CPU until now."""
    driver.use(job.run_name, UsageSample(clock.now(), millicores, 0))


def look(driver, at, job: Job, *minutes: float) -> None:
    """Look at these minutes past noon at a job that uses no CPU."""
    for minute in minutes:
        at(minute)
        sample(driver, job)
        idleness.watch_idle()


def state_of(job: Job) -> str:
    return find_idle_states([now(job)])[job.pk].state


def events_of(job: Job) -> list[tuple[str, str]]:
    return list(job.events.order_by("seq").values_list("state", "message"))


def test_an_idle_job_is_warned_about_then_stopped_for_good_and_says_why(notebook, driver, at):
    look(driver, at, notebook, 0, 3, 45)
    warned = now(notebook)
    assert (warned.state, state_of(notebook)) == ("running", "idle")
    warning = "It has been idle for 45 min, and is stopped in 15 min unless it is used."
    assert events_of(notebook)[-1] == ("running", f"{warning} `nearline job keep {notebook.name}` keeps it.")

    look(driver, at, notebook, 59)
    assert now(notebook).state == "running"
    look(driver, at, notebook, 60)
    assert (now(notebook).state, now(notebook).reason_code) == ("stopping", "idle_limit")
    launches.stop_ending_jobs()
    observe.observe_resource(resource_id=notebook.resource_id)

    ended = now(notebook)
    assert (ended.state, ended.reason_code) == ("cancelled", "idle_limit")
    assert ended.reason == (
        "Stopped: it was idle for 1 h, and may be for 1 h: no connection carried anything, no command was run, it printed "
        "nothing, and it used less than 5 % of a CPU core."
    )
    assert [state for state, _ in events_of(notebook)][-3:] == ["running", "stopping", "cancelled"]
    idleness.watch_idle()
    assert not JobUse.objects.exists()


def test_cpu_and_output_are_use(notebook, driver, at):
    look(driver, at, notebook, 0, 10)
    at(44)
    sample(driver, notebook, millicores=60)
    idleness.watch_idle()
    assert (state_of(notebook), JobUse.objects.get().used_by) == ("in_use", "cpu")

    look(driver, at, notebook, 50)
    assert state_of(notebook) == "idle"
    driver.print("notebook", "epoch 1\n")
    look(driver, at, notebook, 88)
    assert (state_of(notebook), JobUse.objects.get().used_by) == ("in_use", "log")

    look(driver, at, notebook, 120)
    assert now(notebook).state == "running"


def test_a_connection_and_a_command_are_use_and_take_the_warning_back(notebook, driver, at, member):
    look(driver, at, notebook, 0, 45)
    assert JobUse.objects.get().warned_at is not None

    at(59)
    connections.note_traffic(actor=Actor.system("connections"), job_ids={notebook.pk})

    assert (JobUse.objects.get().used_by, JobUse.objects.get().warned_at) == ("connection", None)
    look(driver, at, notebook, 60, 103)
    assert now(notebook).state == "running"
    look(driver, at, notebook, 104)
    assert "idle for 45 min" in events_of(notebook)[-1][1]


def test_a_job_whose_use_nobody_can_measure_is_never_stopped_and_says_so(notebook, driver, at):
    for minute in (0, 1, 50, 100, 1000):
        at(minute)
        idleness.watch_idle()

    state = find_idle_states([now(notebook)])[notebook.pk]
    assert (now(notebook).state, state.state, state.stops_at) == ("running", "unknown", None)
    assert state.text == (
        "scripted does not tell what CPU its jobs use. So whether it is used is unknown, and its idle limit of 1 h "
        "does not stop it."
    )


def test_time_in_which_the_resource_does_not_answer_counts_as_use(notebook, driver, at):
    look(driver, at, notebook, 0, 44)
    driver.is_away = True
    look(driver, at, notebook, 59)
    assert "scripted does not answer" in find_idle_states([now(notebook)])[notebook.pk].text
    driver.is_away = False

    look(driver, at, notebook, 103)
    assert (now(notebook).state, JobUse.objects.get().warned_at) == ("running", None)
    look(driver, at, notebook, 104)
    assert JobUse.objects.get().warned_at == NOON + timedelta(minutes=104)


def test_a_late_look_warns_first_and_sees_what_was_measured_meanwhile(notebook, driver, at):
    look(driver, at, notebook, 0, 1)

    look(driver, at, notebook, 600)
    assert (now(notebook).state, JobUse.objects.get().warned_at) == ("running", NOON + timedelta(minutes=600))
    look(driver, at, notebook, 614)
    assert now(notebook).state == "running"
    look(driver, at, notebook, 615)
    assert now(notebook).state == "stopping"


def test_training_has_a_limit_of_its_own_and_without_one_is_not_looked_at(notebook, driver, at, project, template):
    training = run(project, template, "training")
    idleness.watch_idle()
    assert list(JobUse.objects.values_list("job__name", flat=True)) == ["notebook"]

    Queue.objects.update(training_idle_at_most_s=600)
    idleness.watch_idle()

    assert JobUse.objects.get(job=training).limit_s == 600


def test_the_shorter_one_of_its_own_limit_and_that_of_its_project_holds(notebook, at, project, template):
    Job.objects.filter(pk=notebook.pk).update(idle_limit_s=2 * HOUR)
    other = run(project, template, "other", idle_limit_s=600)

    idleness.watch_idle()

    assert JobUse.objects.get(job=notebook).limit_s == HOUR
    assert JobUse.objects.get(job=other).limit_s == 600


def test_a_limit_that_is_taken_back_holds_no_longer(notebook, driver, at):
    look(driver, at, notebook, 0, 45)
    Queue.objects.update(interactive_idle_at_most_s=None)

    look(driver, at, notebook, 60)

    assert (now(notebook).state, JobUse.objects.exists()) == ("running", False)
    assert find_idle_states([now(notebook)]) == {}


def test_a_new_run_of_a_job_begins_with_all_of_its_time(notebook, driver, at):
    look(driver, at, notebook, 0, 45)
    Job.objects.filter(pk=notebook.pk).update(token="another")

    assert find_idle_states([now(notebook)]) == {}
    look(driver, at, notebook, 60)

    assert (JobUse.objects.get().used_at, JobUse.objects.get().warned_at) == (NOON + timedelta(minutes=60), None)


def test_one_job_that_cannot_be_looked_at_stops_no_other(notebook, driver, at, project, template):
    other = run(project, template, "other", is_preemptible=False)
    look(driver, at, notebook, 0)
    driver.jobs.usage["notebook"] = None

    at(10)
    sample(driver, other)
    idleness.watch_idle()

    assert JobUse.objects.get(job=other).looked_at == NOON + timedelta(minutes=10)
    assert JobUse.objects.get(job=notebook).looked_at == NOON


def test_a_department_rules_for_projects_without_a_limit(project, site_admin):
    own = Queue.objects.get(pk=pool_members.ensure_queue(project_id=project.pk))
    queues.create_department(
        actor=site_admin, pool=own.pool, name="research", interactive_idle_at_most_s=HOUR, training_idle_at_most_s=60
    )
    queues.set_quota(actor=site_admin, queue=own, department="research", training_idle_at_most_s=600)

    limits = queue_selectors.find_idle_limits()

    assert (limits[own.pk, False], limits[own.pk, True]) == (HOUR, 600)


def test_a_person_keeps_a_job_which_may_then_be_idle_for_all_of_its_limit(notebook, driver, at, member):
    look(driver, at, notebook, 0, 45)
    at(59)

    kept = call(member, "POST", "/compute/jobs/notebook/keep", {})

    assert (kept.status, kept.body["idle"]["state"], kept.body["idle"]["stops_at"]) == (200, "in_use", None)
    assert events_of(notebook)[-1] == ("running", "member keeps the job.")
    assert AuditEntry.objects.filter(action="compute.keep_job", actor_name="member").count() == 1
    look(driver, at, notebook, 100)
    assert (now(notebook).state, JobUse.objects.get().warned_at) == ("running", None)
    look(driver, at, notebook, 104, 119)
    assert now(notebook).state == "stopping"


def test_what_has_no_limit_or_does_not_run_cannot_be_kept(notebook, driver, at, member):
    with pytest.raises(NoIdleLimit, match="notebook has no idle limit"):
        keeping.keep_job(actor=member, job=notebook)

    look(driver, at, notebook, 0, 45, 60)
    with pytest.raises(JobNotRunning, match="notebook does not run: it is stopping"):
        keeping.keep_job(actor=member, job=now(notebook))
    assert now(notebook).state == "stopping"


def test_a_viewer_keeps_nothing(notebook, driver, at, viewer):
    look(driver, at, notebook, 0, 45)

    with pytest.raises(PermissionDenied):
        keeping.keep_job(actor=viewer, job=notebook)
    assert JobUse.objects.get().warned_at is not None


def test_a_job_that_is_used_while_it_is_looked_at_is_not_stopped(notebook, driver, at, monkeypatch, member):
    look(driver, at, notebook, 0, 45)
    at(60)
    sample(driver, notebook)
    read_usage = driver.read_usage

    def read_and_keep(name, after):
        keeping.keep_job(actor=member, job=now(notebook))
        return read_usage(name, after)

    monkeypatch.setattr(driver, "read_usage", read_and_keep)
    idleness.watch_idle()

    assert (now(notebook).state, JobUse.objects.get().used_by) == ("running", "person")


def test_a_job_that_is_suspended_while_it_is_looked_at_is_not_stopped_for_good(
    notebook, driver, at, monkeypatch, member
):
    look(driver, at, notebook, 0, 45)
    at(60)
    sample(driver, notebook)
    read_usage = driver.read_usage

    def read_and_suspend(name, after):
        suspensions.suspend_job(actor=member, job=now(notebook))
        return read_usage(name, after)

    monkeypatch.setattr(driver, "read_usage", read_and_suspend)
    idleness.watch_idle()

    assert now(notebook).state == "suspending"


def test_the_page_and_the_list_show_an_idle_job_and_the_button_keeps_it(notebook, driver, at, member, client):
    look(driver, at, notebook, 0, 45)
    client.force_login(User.objects.get(pk=member.user_id))

    assert "/jobs/notebook/keep/" in client.get("/jobs/notebook/").content.decode()
    text = "It has been idle for 45 min and may be for 1 h. Unless it is used, it is stopped in 15 min."
    assert text in client.get("/jobs/").content.decode()
    assert client.post("/jobs/notebook/keep/").status_code == 302

    assert JobUse.objects.get().used_by == "person"
    assert "/jobs/notebook/keep/" not in client.get("/jobs/notebook/").content.decode()


def test_the_task_has_work_only_where_there_is_a_limit(at, project, template):
    pool_members.ensure_queue(project_id=project.pk)
    job = run(project, template, "train")
    assert not any(query.exists() for query in idleness.find_limited())

    Job.objects.filter(pk=job.pk).update(idle_limit_s=600)
    assert any(query.exists() for query in idleness.find_limited())


def test_a_job_that_a_person_cancels_is_cancelled_and_not_idle(notebook, driver, at, member):
    look(driver, at, notebook, 0, 45)

    jobs.cancel_job(actor=member, job=notebook)
    launches.stop_ending_jobs()
    observe.observe_resource(resource_id=notebook.resource_id)

    assert (now(notebook).state, now(notebook).reason_code) == ("cancelled", "cancelled")
