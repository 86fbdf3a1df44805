"""People, projects, members, tokens, secrets and the audit log through the API."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from accounts import permissions
from accounts.models import ApiToken, AuditEntry, Membership, Project, Secret, User
from accounts.permissions import Role
from accounts.services import secrets
from config.env import ProjectCreators
from core import clock
from tests.factories.api import call

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.fixture
def admin(make_actor):
    return make_actor(Role.ADMIN)


def test_me_says_who_asks_and_in_which_projects(member):
    assert call(member, "GET", "/me") == (
        200,
        {"name": "member", "is_site_admin": False, "projects": [{"name": "team-a", "role": "member"}]},
    )


def test_a_project_is_created_with_its_first_admin(make_actor, settings):
    settings.NEARLINE = replace(settings.NEARLINE, project_creators=ProjectCreators.EVERYONE)
    stranger = make_actor(None)

    status, body = call(stranger, "POST", "/projects", {"name": "team-b", "description": "x-rays"})

    assert (status, body["name"], body["description"], body["role"]) == (201, "team-b", "x-rays", "admin")
    membership = Membership.objects.get(project__name="team-b")
    assert (membership.user_id, membership.role) == (stranger.user_id, "admin")


def test_a_taken_name_is_a_conflict_and_nothing_changes(site_admin, project):
    status, body = call(site_admin, "POST", "/projects", {"name": "team-a"})

    assert (status, body["code"]) == (409, "accounts.project_exists")
    assert Project.objects.count() == 1


@pytest.mark.parametrize("name", ["", "Team", "1st", "a" * 64, "a b", "a/b"])
def test_a_name_that_breaks_the_rules_is_refused(site_admin, project, name):
    status, body = call(site_admin, "POST", "/projects", {"name": name})

    assert (status, body["code"]) == (400, "accounts.invalid_name")
    assert Project.objects.count() == 1


def test_only_own_projects_are_listed_and_all_to_a_site_admin(member, make_actor, site_admin):
    other = Project.objects.create(name="team-b")
    stranger = make_actor(None)

    assert [item["name"] for item in call(member, "GET", "/projects").body["items"]] == ["team-a"]
    assert call(stranger, "GET", "/projects").body["items"] == []
    listed = call(site_admin, "GET", "/projects").body["items"]
    assert {(item["name"], item["role"]) for item in listed} == {("team-a", "admin"), (other.name, "admin")}


def test_lists_come_in_pages(site_admin, project):
    for letter in "bcde":
        Project.objects.create(name=f"team-{letter}")

    names, cursor = [], ""
    while cursor is not None:
        body = call(site_admin, "GET", f"/projects?limit=2&cursor={cursor}").body
        names.append([item["name"] for item in body["items"]])
        cursor = body["next_cursor"]

    assert [len(page) for page in names] == [2, 2, 1]
    assert sorted(name for page in names for name in page) == ["team-a", "team-b", "team-c", "team-d", "team-e"]


def test_an_admin_adds_changes_and_removes_a_member(admin, make_actor, project):
    make_actor(None, name="newcomer")
    path = "/projects/team-a/members/newcomer"

    assert call(admin, "PUT", path, {"role": "viewer"}).body["role"] == "viewer"
    assert call(admin, "PUT", path, {"role": "member"}).body["role"] == "member"
    assert call(admin, "GET", path).body["username"] == "newcomer"
    listed = call(admin, "GET", "/projects/team-a/members").body["items"]
    assert {(item["username"], item["role"]) for item in listed} == {("admin", "admin"), ("newcomer", "member")}

    assert call(admin, "DELETE", path) == (204, None)
    assert list(Membership.objects.filter(project=project).values_list("user__username", flat=True)) == ["admin"]


def test_a_member_becomes_visible_to_the_person_at_once(admin, make_actor):
    newcomer = make_actor(None, name="newcomer")

    call(admin, "PUT", "/projects/team-a/members/newcomer", {"role": "viewer"})

    assert call(newcomer, "GET", "/me").body["projects"] == [{"name": "team-a", "role": "viewer"}]


def test_the_last_admin_can_neither_leave_nor_step_down(admin, project):
    path = "/projects/team-a/members/admin"

    for answer in (call(admin, "DELETE", path), call(admin, "PUT", path, {"role": "viewer"})):
        assert (answer.status, answer.body["code"]) == (409, "accounts.last_admin")

    assert Membership.objects.get(project=project).role == "admin"


def test_a_member_may_not_change_roles(admin, member, project):
    status, body = call(member, "PUT", "/projects/team-a/members/member", {"role": "admin"})

    assert (status, body["code"]) == (403, "accounts.permission_denied")
    assert Membership.objects.get(project=project, user_id=member.user_id).role == "member"


def test_an_unknown_role_is_refused(admin):
    assert call(admin, "PUT", "/projects/team-a/members/admin", {"role": "owner"}).status == 400


def test_a_token_is_shown_once_and_kept_as_a_hash(member):
    status, made = call(member, "POST", "/tokens", {"name": "laptop", "expires_at": "2030-01-01T00:00:00Z"})

    assert (status, made["name"], made["expires_at"]) == (201, "laptop", "2030-01-01T00:00:00.000Z")
    assert made["secret"].startswith("nl_")
    kept = ApiToken.objects.get(pk=made["id"])
    assert made["secret"] not in str(ApiToken.objects.filter(pk=kept.pk).values().get())
    listed = call(member, "GET", "/tokens").body["items"]
    assert "laptop" in [item["name"] for item in listed]
    assert all("secret" not in item for item in listed)
    assert call(None, "GET", "/me", Authorization=f"Bearer {made['secret']}").status == 200


def test_only_a_credential_that_holds_tells_who_calls(member, client):
    told = []
    permissions.listen_for_caller(told.append)
    secret = call(member, "POST", "/tokens", {"name": "laptop"}).body["secret"]
    told.clear()

    call(None, "GET", "/me", Authorization="Bearer nl_made_up")
    client.get("/accounts/login/")
    assert told == []
    call(None, "GET", "/me", Authorization=f"Bearer {secret}")
    client.force_login(User.objects.get(pk=member.user_id))
    client.get("/datasets/")
    assert told == [f"token of {member.user_id}", f"session of {member.user_id}"]


def test_a_revoked_token_is_worthless(member):
    made = call(member, "POST", "/tokens", {"name": "laptop"}).body

    assert call(member, "DELETE", f"/tokens/{made['id']}").status == 204

    answer = call(None, "GET", "/me", Authorization=f"Bearer {made['secret']}")
    assert (answer.status, answer.body["code"]) == (401, "accounts.not_signed_in")


def test_an_expired_token_is_worthless(member):
    with clock.frozen_at(NOON) as move:
        body = {"name": "short", "expires_at": (NOON + timedelta(hours=1)).isoformat()}
        secret = call(member, "POST", "/tokens", body).body["secret"]
        assert call(None, "GET", "/me", Authorization=f"Bearer {secret}").status == 200

        move(NOON + timedelta(hours=1))
        assert call(None, "GET", "/me", Authorization=f"Bearer {secret}").status == 401


@pytest.mark.parametrize("asked", [None, timedelta(hours=2), timedelta(minutes=30)])
def test_a_token_that_ends_makes_none_that_ends_later(member, asked):
    end = NOON + timedelta(hours=1)
    with clock.frozen_at(NOON) as move:
        short = call(member, "POST", "/tokens", {"name": "short", "expires_at": end.isoformat()}).body["secret"]
        body = {"name": "long", "expires_at": asked and (NOON + asked).isoformat()}
        made = call(None, "POST", "/tokens", body, Authorization=f"Bearer {short}").body

        assert datetime.fromisoformat(made["expires_at"]) == (NOON + asked if asked and NOON + asked < end else end)
        move(end)
        assert call(None, "GET", "/me", Authorization=f"Bearer {made['secret']}").status == 401


def test_a_time_without_a_zone_is_refused(member):
    assert call(member, "POST", "/tokens", {"name": "x", "expires_at": "2030-01-01T00:00:00"}).status == 400


def test_somebody_elses_token_cannot_be_revoked(member, make_actor):
    made = call(member, "POST", "/tokens", {"name": "laptop"}).body

    status, body = call(make_actor(None), "DELETE", f"/tokens/{made['id']}")

    assert (status, body["code"]) == (404, "accounts.token_not_found")
    assert ApiToken.objects.get(pk=made["id"]).revoked_at is None


def test_a_secret_is_kept_encrypted_and_never_shown(admin, project):
    status, body = call(admin, "PUT", "/projects/team-a/secrets/API_KEY", {"value": "hunter2-hunter2"})

    assert (status, body["name"]) == (200, "API_KEY")
    assert b"hunter2" not in bytes(Secret.objects.get().ciphertext)
    assert secrets.find_values(project_id=project.pk, names=["API_KEY"]) == {"API_KEY": "hunter2-hunter2"}
    for path in ("/projects/team-a/secrets", "/projects/team-a/secrets/API_KEY"):
        assert "hunter2" not in str(call(admin, "GET", path).body)
    assert "hunter2" not in str(list(AuditEntry.objects.values()))


def test_a_secret_is_replaced_and_forgotten(admin, project):
    path = "/projects/team-a/secrets/API_KEY"
    call(admin, "PUT", path, {"value": "old"})
    call(admin, "PUT", path, {"value": "new"})
    assert secrets.find_values(project_id=project.pk, names=["API_KEY"]) == {"API_KEY": "new"}

    assert call(admin, "DELETE", path).status == 204

    assert (call(admin, "GET", path).body["code"], Secret.objects.count()) == ("accounts.secret_not_found", 0)


@pytest.mark.parametrize("name", ["1KEY", "a-b", "a%20b", "a" * 101])
def test_a_secret_must_be_named_like_an_environment_variable(admin, name):
    status, body = call(admin, "PUT", f"/projects/team-a/secrets/{name}", {"value": "x"})

    assert (status, body["code"]) == (400, "accounts.invalid_secret_name")
    assert not Secret.objects.exists()


def test_a_secret_without_a_value_is_refused_in_words(admin):
    status, body = call(admin, "PUT", "/projects/team-a/secrets/API_KEY", {"value": ""})

    assert (status, body["title"]) == (400, "The value is empty.")
    assert not Secret.objects.exists()


def test_the_audit_log_tells_who_did_what(admin, make_actor):
    make_actor(None, name="newcomer")
    call(admin, "PUT", "/projects/team-a/members/newcomer", {"role": "viewer"})
    call(admin, "PUT", "/projects/team-a/secrets/API_KEY", {"value": "x"})

    entries = call(admin, "GET", "/projects/team-a/audit").body["items"]

    facts = {(entry["actor_name"], entry["action"]): entry["facts"] for entry in entries}
    assert facts == {
        ("admin", "accounts.set_secret"): {},
        ("admin", "accounts.set_role"): {"username": "newcomer", "role": "viewer"},
    }


def test_a_site_admin_adds_a_person_who_can_sign_in(site_admin, client):
    status, body = call(site_admin, "POST", "/users", {"username": "ada", "password": "a long enough password"})

    assert (status, body) == (201, {"username": "ada", "is_site_admin": False, "is_disabled": False})
    assert User.objects.get(username="ada").check_password("a long enough password")


@pytest.mark.parametrize("password", ["short", "password1234", ""])
def test_a_password_that_is_easy_to_guess_is_refused(site_admin, password):
    status, body = call(site_admin, "POST", "/users", {"username": "ada", "password": password})

    assert (status, body["code"]) == (400, "accounts.weak_password")
    assert not User.objects.filter(username="ada").exists()


def test_nobody_else_adds_people(member):
    assert call(member, "POST", "/users", {"username": "ada", "password": "a long enough password"}).status == 403
    assert not User.objects.filter(username="ada").exists()


def test_a_malformed_body_names_its_faults(member):
    status, body = call(member, "POST", "/tokens", {})

    assert (status, body["code"]) == (400, "core.malformed_request")
    assert [fault["where"] for fault in body["details"]["faults"]] == ["name"]
    assert body["title"] == "The request is malformed: name is missing."
