"""Who may start what uses a project's secrets, what the audit log says of it, and where values are masked."""

import pytest

from accounts.errors import PermissionDenied
from accounts.models import AuditEntry
from accounts.permissions import Role
from accounts.services import secrets
from compute.models import Job
from compute.services import jobs
from experiments.models import Experiment
from flows.models import Run
from flows.services import flows, runs
from tests.factories.browsers import browser_of
from tests.factories.compute import make_request
from tests.factories.flows import World, newest_attempt, state_of

pytestmark = pytest.mark.django_db

FLOW = "flow: digits\nsteps: [{name: train, command: 'true', secrets: [API_KEY], outputs: ['*']}]\n"
PLAIN = "flow: digits\nsteps: [{name: train, command: 'true'}]\n"
VALUE = "hunter22-hunter22"


@pytest.fixture
def admin(make_actor):
    return make_actor(Role.ADMIN)


@pytest.fixture
def world(tmp_path, admin, project) -> World:
    secrets.set_secret(actor=admin, project=project, name="API_KEY", value=VALUE)
    return World(tmp_path)


@pytest.fixture
def _admins_only(admin, project):
    secrets.set_secret_users(actor=admin, project=project, role=Role.ADMIN)


def uses() -> list[tuple[str, str, dict]]:
    entries = AuditEntry.objects.filter(action="accounts.use_secrets").order_by("pk")
    return [(entry.actor_name, entry.target_name, entry.facts) for entry in entries]


def test_each_job_that_gets_secrets_leaves_their_names_and_not_their_values_in_the_audit_log(world, member, project):
    run = world.start(member, project, FLOW)
    world.turn()
    world.turn()

    assert uses() == [("system: starts a job of member", f"digits #{run.number} · train", {"names": ["API_KEY"]})]
    assert AuditEntry.objects.get(action="flows.start_run").facts["secrets"] == "API_KEY"
    assert VALUE not in str(list(AuditEntry.objects.values()))


def test_a_job_without_secrets_leaves_no_such_entry(world, member, project):
    world.start(member, project, PLAIN)
    world.turn()
    world.turn()

    assert uses() == []


@pytest.mark.usefixtures("_admins_only")
def test_a_member_starts_nothing_that_uses_secrets_where_only_admins_may(world, member, admin, project):
    version = flows.save_version(actor=member, project=project, text=FLOW)

    with pytest.raises(PermissionDenied, match="does not allow you to use its secrets"):
        runs.start_run(actor=member, version=version, parameters={})

    assert Run.objects.count() == 0
    assert runs.start_run(actor=admin, version=version, parameters={}).number == 1


@pytest.mark.usefixtures("_admins_only")
def test_a_member_still_starts_what_uses_no_secrets(world, member, project):
    assert world.start(member, project, PLAIN).number == 1


def test_a_member_does_not_retry_what_uses_secrets_once_only_admins_may(world, member, admin, project):
    run = world.start(member, project, FLOW)
    world.turn()
    world.turn()
    world.finish(run, "train", exit_code=1)
    world.turn()
    secrets.set_secret_users(actor=admin, project=project, role=Role.ADMIN)

    with pytest.raises(PermissionDenied):
        runs.retry_run(actor=member, run=Run.objects.get(pk=run.pk))

    assert state_of(run) == "failed"


@pytest.mark.usefixtures("_admins_only")
def test_a_member_submits_no_job_with_secrets_where_only_admins_may(world, member, project):
    template = world.resources["lab"].templates.get(name="small")

    with pytest.raises(PermissionDenied):
        jobs.submit_many(actor=member, requests=[make_request(project, template, "probe", secret_names=("API_KEY",))])

    assert Job.objects.count() == 0


def test_only_who_may_list_the_secrets_is_told_a_name_that_was_probably_meant(world, viewer, member, admin, project):
    text = FLOW.replace("API_KEY", "API_KEYS")

    told = {
        actor.name: flows.validate_spec(actor=actor, project=project, text=text).problems[0].message
        for actor in (viewer, member, admin)
    }

    message = "The project has no secret called 'API_KEYS'."
    assert told == {"viewer": message, "member": message, "admin": f"{message} Did you mean 'API_KEY'?"}


def test_only_an_admin_says_who_may_use_the_secrets(member, project):
    with pytest.raises(PermissionDenied):
        secrets.set_secret_users(actor=member, project=project, role=Role.ADMIN)

    project.refresh_from_db()
    assert project.secret_users == "member"


def test_a_secret_in_a_file_that_a_step_left_is_masked_in_its_preview(world, member, project):
    run = world.start(member, project, FLOW)
    world.turn()
    world.turn()
    name = newest_attempt(run, "train").job_name
    folder = world.driver_of(name).open_output(name).host_folder
    (folder / "config.txt").write_text(f"key = {VALUE}\nend\n")
    (folder / "table.csv").write_text(f"name,value\nkey,{VALUE}\n")
    world.finish(run, "train")
    world.turn()
    experiment = Experiment.objects.get(run_id=run.pk)
    browser = browser_of(member)

    for file in ("config.txt", "table.csv"):
        page = browser.get(f"/experiments/{experiment.pk}/?artifact={file}").content.decode()
        assert "***" in page
        assert VALUE not in page
