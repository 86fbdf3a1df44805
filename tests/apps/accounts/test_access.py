"""People are signed out everywhere, disabled and enabled."""

import re

import pytest
from django.test import Client

from accounts.errors import LastAdmin, PermissionDenied, PersonDisabled, UserNotFound
from accounts.models import AuditEntry, User
from accounts.permissions import Role
from accounts.selectors import actor_of
from accounts.services import access, projects
from compute.models import Job
from compute.services import submissions
from flows.models import Run
from tests.factories.api import bearer, call
from tests.factories.browsers import browser_of
from tests.factories.compute import make_resource, make_template
from tests.factories.flows import World

pytestmark = pytest.mark.django_db

FLOW = "flow: digits\nsteps: [{name: train, command: 'true'}]\n"
PASSWORD = "a long enough password"


def is_signed_in(client: Client) -> bool:
    return client.get("/settings/profile/").status_code == 200


def audited(action: str) -> int:
    return AuditEntry.objects.filter(action=action).count()


def test_who_is_disabled_is_signed_out_of_every_browser_and_their_tokens_end_at_once(member, site_admin):
    browsers = [browser_of(member), browser_of(member)]
    token = bearer(member)

    answer = call(site_admin, "POST", "/users/member/disable", {})

    assert answer == (200, {"username": "member", "is_site_admin": False, "is_disabled": True, "work": []})
    assert [is_signed_in(browser) for browser in browsers] == [False, False]
    assert call(None, "GET", "/me", **token).status == 401
    assert audited("accounts.disable_person") == 1


def test_who_is_disabled_gets_in_by_no_password_and_no_link(client, member, site_admin):
    user = User.objects.get(username="member")
    user.set_password(PASSWORD)
    user.save()
    link = access.make_sign_in_link(actor=site_admin, username="member")

    access.disable_person(actor=site_admin, username="member")

    refused = client.post("/accounts/login/", {"login": "member", "password": PASSWORD})
    assert refused.status_code == 403
    assert "The account member is disabled." in refused.content.decode()
    assert client.post(f"/sign-in/{link}/").status_code == 401
    assert not is_signed_in(client)
    with pytest.raises(PersonDisabled):
        access.make_sign_in_link(actor=site_admin, username="member")


def test_who_is_enabled_again_signs_in_anew_and_their_old_sessions_and_tokens_stay_worthless(member, site_admin):
    browser, token = browser_of(member), bearer(member)
    access.disable_person(actor=site_admin, username="member")

    assert call(site_admin, "POST", "/users/member/enable").body["is_disabled"] is False

    assert not is_signed_in(browser)
    assert call(None, "GET", "/me", **token).status == 401
    assert is_signed_in(browser_of(member))


def test_the_last_site_admin_cannot_be_disabled(site_admin, make_actor):
    with pytest.raises(LastAdmin):
        access.disable_person(actor=site_admin, username="root")
    assert User.objects.get(username="root").is_active

    second = make_actor(None, name="second", is_site_admin=True)
    access.disable_person(actor=second, username="root")
    with pytest.raises(LastAdmin):
        access.disable_person(actor=second, username="second")


def test_a_disabled_admin_of_a_project_does_not_count_as_its_last(project, make_actor, site_admin):
    make_actor(Role.ADMIN, name="away")
    boss = make_actor(Role.ADMIN, name="boss")
    access.disable_person(actor=site_admin, username="away")

    with pytest.raises(LastAdmin):
        projects.remove_member(actor=boss, project=project, username="boss")


def test_a_member_disables_nobody(member, viewer):
    with pytest.raises(PermissionDenied):
        access.disable_person(actor=member, username="viewer")
    with pytest.raises(PermissionDenied):
        access.enable_person(actor=member, username="viewer")
    with pytest.raises(UserNotFound):
        access.sign_out_everywhere(actor=member, username="viewer")

    assert User.objects.get(username="viewer").sign_out_count == 0
    assert User.objects.get(username="viewer").is_active


def test_a_person_signs_out_everywhere_and_keeps_their_tokens_unless_told_otherwise(member):
    browsers = [browser_of(member), browser_of(member)]
    token = bearer(member)

    answer = browsers[0].post("/settings/people/member/sign-out/")

    assert (answer.status_code, answer.headers["Location"]) == (302, "/")
    assert [is_signed_in(browser) for browser in browsers] == [False, False]
    assert call(None, "GET", "/me", **token).status == 200

    browser_of(actor_of(User.objects.get(username="member"))).post(
        "/settings/people/member/sign-out/", {"revoke_tokens": "on"}
    )
    assert call(None, "GET", "/me", **token).status == 401


def test_an_admin_signs_a_person_out_and_stays_signed_in(member, site_admin):
    browser, own = browser_of(member), browser_of(site_admin)

    told = own.post("/settings/people/member/sign-out/", follow=True).content.decode()

    assert "member is signed out everywhere." in told
    assert not is_signed_in(browser)


@pytest.fixture
def work(tmp_path, member, project):
    """A run and a job that the member started."""
    machines = World(tmp_path)
    run = machines.start(member, project, FLOW)
    machines.turn()
    resource, _ = make_resource("by-hand", tmp_path / "by-hand")
    make_template(resource)
    wanted = submissions.Submission(template="by-hand.small", command="true", name="probe")
    job = submissions.submit_job(actor=member, project=project, submission=wanted)
    return run, job


def test_what_runs_for_a_disabled_person_is_told_and_goes_on(work, site_admin):
    run, job = work

    told = call(site_admin, "POST", "/users/member/disable", {}).body["work"]

    assert told == [
        {"kind": "job", "name": "probe", "project": "team-a", "url": "/jobs/probe/"},
        {"kind": "run", "name": "digits #1", "project": "team-a", "url": f"/runs/{run.pk}/"},
    ]
    assert Run.objects.get(pk=run.pk).cancel_requested_at is None
    assert Job.objects.get(pk=job.pk).state == "pending"


def test_an_admin_decides_to_stop_what_runs_for_a_disabled_person(work, site_admin):
    run, job = work
    own = browser_of(site_admin)
    dialog = own.get("/settings/people/").content.decode()
    assert re.search(r'job <a href="/jobs/probe/">probe</a>.*run <a href="/runs/\w+/">digits #1</a>', dialog, re.DOTALL)

    told = own.post("/settings/people/member/disable/", {"stop_work": "on"}, follow=True).content.decode()

    assert "member is disabled and signed out everywhere. Stopped: probe, digits #1." in told
    assert Run.objects.get(pk=run.pk).cancel_requested_at is not None
    assert Job.objects.get(pk=job.pk).state == "cancelled"


def test_who_removes_a_member_is_told_what_keeps_running_in_the_project(work, make_actor, member):
    boss = browser_of(make_actor(Role.ADMIN, name="boss"))

    told = boss.get("/settings/members/?project=team-a").content.decode()
    told_members = browser_of(member).get("/settings/members/?project=team-a").content.decode()

    assert "and these keep running:" in told
    assert re.search(r'job <a href="/jobs/probe/">probe</a>.*run <a href="/runs/\w+/">digits #1</a>', told, re.DOTALL)
    assert "/jobs/probe/" not in told_members
