"""The pages of a person's own settings, of people and of the audit log."""

import html
import re
from dataclasses import replace

import pytest
from django.test import Client

from accounts.models import ApiToken, AuditEntry, Membership, Secret, User
from accounts.services import projects, secrets
from config.env import ProjectCreators
from core import clock
from tests.factories.browsers import browser_of
from tests.markup import read_form

pytestmark = pytest.mark.django_db

NEW = "a new and long password"


def test_the_address_above_the_settings_leads_to_the_first_of_them(member):
    assert browser_of(member).get("/settings/", follow=True).redirect_chain == [("/settings/profile/", 302)]


def test_a_person_changes_what_they_are_called(member):
    browser = browser_of(member)

    answer = browser.post("/settings/profile/", {"first_name": "Ada", "last_name": "Lovelace"}, follow=True)

    assert "Your name is changed." in answer.content.decode()
    assert User.objects.get(pk=member.user_id).get_full_name() == "Ada Lovelace"


def test_who_came_by_a_link_chooses_a_password_and_stays_signed_in(member):
    browser = browser_of(member)

    answer = browser.post("/accounts/password/set/", {"password1": NEW, "password2": NEW}, follow=True)

    assert answer.redirect_chain == [("/settings/profile/", 302)]
    assert User.objects.get(pk=member.user_id).check_password(NEW)
    assert AuditEntry.objects.filter(action="accounts.set_password", actor_name="member").count() == 1


def test_the_page_of_the_password_belongs_to_the_profile(member):
    page = browser_of(member).get("/accounts/password/set/").content.decode()

    assert '<a href="/settings/profile/" aria-current="page">Profile</a>' in page


def test_a_wrong_old_password_changes_nothing(member):
    user = User.objects.get(pk=member.user_id)
    user.set_password("the old password")
    user.save()
    browser = browser_of(member)

    answer = browser.post("/accounts/password/change/", {"oldpassword": "wrong", "password1": NEW, "password2": NEW})

    assert answer.status_code == 200
    assert 'class="error"' in answer.content.decode()
    assert User.objects.get(pk=member.user_id).check_password("the old password")


def test_an_added_person_gets_in_by_a_link_that_is_shown_once(site_admin):
    browser = browser_of(site_admin)
    browser.post("/settings/people/new/", {"username": "ada"})

    shown = browser.post("/settings/people/ada/link/").content.decode()
    link = re.search(r"/sign-in/[\w-]+/", shown)
    assert link is not None
    guest = Client()
    guest.post(link[0])

    assert guest.get("/settings/profile/").status_code == 200
    assert link[0] not in browser.get("/settings/people/").content.decode()


def test_a_name_that_is_taken_is_said_beside_the_field(site_admin, member):
    answer = browser_of(site_admin).post("/settings/people/new/", {"username": "member"})

    assert "There is a person called &#x27;member&#x27; already." in answer.content.decode()


def test_a_secret_is_set_replaced_and_deleted_and_its_value_never_shown(make_actor, project):
    admin = make_actor("admin")
    browser = browser_of(admin)

    for value in ("hush-1", "  hush-2\t "):
        browser.post("/settings/projects/team-a/secrets/set/", {"name": "HF_TOKEN", "value": value})
    page = browser.get("/settings/members/?project=team-a").content.decode()
    stored = secrets.find_values(project_id=project.pk, names=["HF_TOKEN"])
    browser.post("/settings/projects/team-a/secrets/HF_TOKEN/delete/")

    assert ">HF_TOKEN</td>" in page
    assert "hush" not in page
    assert stored == {"HF_TOKEN": "  hush-2\t "}
    assert not Secret.objects.exists()


def test_only_admins_of_the_project_see_its_secrets(member, project):
    page = browser_of(member).get("/settings/members/?project=team-a").content.decode()

    assert "ecret" not in page.partition("<main")[2]


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("HF_TOKEN", "", "This field is required."),
        ("HF_TOKEN", "hush" * 20_000, "Ensure this value has at most 65536 characters (it has 80000)."),
        ("PATH", "hush", "&#x27;PATH&#x27; is a variable that jobs have already. Use up to 100 letters"),
        ("no name", "hush", "&#x27;no name&#x27; cannot be the name of an environment variable. Use up to 100"),
    ],
    ids=["empty", "long", "taken", "no-name"],
)
def test_a_refused_secret_says_why_beside_its_field_and_keeps_the_name_alone(
    make_actor, project, name, value, sentence
):
    browser = browser_of(make_actor("admin"))

    answer = browser.post("/settings/projects/team-a/secrets/set/", {"name": name, "value": value})
    page = answer.content.decode()

    assert answer.status_code == 422
    assert f'_error">{sentence}' in page
    assert f'name="name" value="{name}"' in page
    assert "hush" not in page
    assert not Secret.objects.exists()


def test_members_and_secrets_are_paged_each_by_its_own_link_and_members_found_by_name(make_actor, project):
    admin = make_actor("admin", name="boss")
    people = User.objects.bulk_create([User(username=f"person-{number:03}") for number in range(120)])
    Membership.objects.bulk_create([Membership(project=project, user=person, role="member") for person in people])
    names = [f"TOKEN_{number:02}" for number in range(60)]
    Secret.objects.bulk_create([Secret(project=project, name=name, updated_at=clock.now()) for name in names])
    browser = browser_of(admin)

    def follow(path, label):
        page = browser.get(path).content.decode()
        link = re.search(rf'href="([^"]+)">{label}</a>', page)
        names = re.findall(r'<b class="strong">([\w-]+)</b>', page)
        tokens = re.findall(r">(TOKEN_\d+)</td>", page)
        return names, tokens, link and f"/settings/members/{html.unescape(link[1])}"

    names, tokens, path = follow("/settings/members/?project=team-a", "More members")
    more_names, same_tokens, path = follow(path, "More secrets")
    same_names, more_tokens, no_path = follow(path, "More secrets")

    assert names == ["boss", *(f"person-{number:03}" for number in range(49))]
    assert more_names == same_names == [f"person-{number:03}" for number in range(49, 99)]
    assert tokens == same_tokens == [f"TOKEN_{number:02}" for number in range(50)]
    assert more_tokens == [f"TOKEN_{number:02}" for number in range(50, 60)]
    assert no_path is None
    assert follow("/settings/members/?project=team-a&person=ON-11", "")[0] == [
        f"person-11{digit}" for digit in range(10)
    ]


def test_a_change_of_a_member_leads_back_to_the_rows_where_it_was_made(make_actor, project):
    person = User.objects.create(username="ada")
    Membership.objects.create(project=project, user=person, role="member")
    browser = browser_of(make_actor("admin", name="boss"))
    here = "/settings/members/?project=team-a&person=ada"
    page = browser.get(here).content.decode()
    action = re.findall(r'action="([^"]+/roles/[^"]*)"', page)[0]

    answer = browser.post(html.unescape(action), {"username": "ada", "role": "viewer"})

    assert answer["Location"] == here
    assert Membership.objects.get(user=person).role == "viewer"


def test_people_are_paged_and_found_by_name(site_admin):
    User.objects.bulk_create([User(username=f"person-{number:03}") for number in range(60)])
    browser = browser_of(site_admin)

    first = browser.get("/settings/people/").content.decode()
    link = re.search(r'href="([^"]+)">Next page</a>', first)
    assert link is not None
    second = browser.get(f"/settings/people/{html.unescape(link[1])}").content.decode()
    one = browser.get("/settings/people/?person=007").content.decode()

    assert "person-000" in first
    assert "person-059" not in first
    assert "person-059" in second
    assert set(re.findall(r"person-\d+", one)) == {"person-007"}


def test_who_is_not_there_and_a_name_that_is_taken_are_said_beside_their_fields(make_actor, site_admin, project):
    admin = browser_of(make_actor("admin", name="boss"))

    added = admin.post(f"/settings/projects/{project.name}/roles/", {"username": "adda", "role": "member"})
    created = browser_of(site_admin).post("/settings/projects/", {"name": project.name, "description": "About X-rays"})

    assert (added.status_code, created.status_code) == (422, 422)
    page, other = (html.unescape(answer.content.decode()) for answer in (added, created))
    assert "There is nobody called 'adda'." in page
    assert 'value="adda"' in page
    assert f"called '{project.name}' already." in other
    assert 'value="About X-rays"' in other
    current = '<a href="/settings/members/" aria-current="page">Projects and members</a>'
    assert (current in page, current in other) == (True, True)


def test_a_role_that_is_none_is_told_beside_its_field_and_the_name_stays(make_actor, project):
    address = "/settings/projects/team-a/roles/"

    answer = browser_of(make_actor("admin")).post(address, {"username": "ada", "role": "owner"})

    assert answer.status_code == 422
    typed, errors = read_form(answer.content.decode().partition("<aside")[2], f"{address}?")
    assert typed == {"username": "ada"}
    assert errors == {"role": "Select a valid choice. owner is not one of the available choices."}


def test_the_last_admin_cannot_be_removed_nor_demoted(make_actor, project):
    admin = make_actor("admin", name="boss")
    browser = browser_of(admin)

    shown = browser.get("/settings/members/?project=team-a").content.decode()
    refused = browser.post("/settings/projects/team-a/remove/", {"username": "boss"})

    assert "the last admin cannot leave" in shown
    assert refused.status_code == 409
    assert Membership.objects.get(project=project).role == "admin"


def test_the_audit_log_shows_admins_their_projects_and_site_admins_everything(make_actor, site_admin, member, settings):
    settings.NEARLINE = replace(settings.NEARLINE, project_creators=ProjectCreators.EVERYONE)
    boss = make_actor(None, name="boss")
    projects.create_project(actor=boss, name="mine")
    projects.create_project(actor=site_admin, name="theirs")

    def seen_by(actor, query=""):
        page = browser_of(actor).get(f"/settings/audit/{query}").content.decode()
        return {name for name in ("mine", "theirs") if f"<span>{name}</span> <" in page}

    assert seen_by(boss) == {"mine"}
    assert seen_by(member) == set()
    assert seen_by(site_admin) == {"mine", "theirs"}
    assert seen_by(site_admin, "?person=boss") == {"mine"}
    assert seen_by(site_admin, "?area=flows") == set()


def test_the_name_of_a_token_is_of_one_line(member):
    page = browser_of(member).post("/settings/tokens/", {"name": "ci\nrunner", "days": "30"}).content.decode()

    assert '_error">It holds a line break or another control character.</span>' in page
    assert not ApiToken.objects.exists()


def test_who_has_no_token_is_told_how_to_sign_in_to_this_server(member):
    assert "nearline login http://testserver<" in browser_of(member).get("/settings/tokens/").content.decode()
