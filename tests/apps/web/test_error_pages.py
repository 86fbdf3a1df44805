"""What people see when something goes wrong, and who gets to see a page at all."""

import pytest
from django.db import OperationalError, connection
from django.test import Client, RequestFactory

from accounts.models import Project, User
from core.outages import DatabaseUnavailable
from datasets.models import Dataset
from tests.factories.browsers import browser_of
from tests.factories.datasets import make_dataset, make_store
from tests.markup import flat, read_form
from web import error_pages

pytestmark = pytest.mark.django_db


@pytest.fixture
def browser(member) -> Client:
    return browser_of(member)


def test_who_is_not_signed_in_is_sent_to_the_sign_in_and_back():
    answer = Client().get("/cache/?need=1GB")

    assert answer.status_code == 302
    assert answer["Location"] == "/accounts/login/?next=/cache/%3Fneed%3D1GB"


def test_a_part_of_a_page_sends_the_whole_page_to_the_sign_in():
    page = "http://testserver/cache/?need=1GB"
    answer = Client().get("/cache/", headers={"HX-Request": "true", "Referer": page})

    assert answer["HX-Redirect"] == "/accounts/login/?next=/cache/%3Fneed%3D1GB"


@pytest.mark.parametrize(
    ("page", "following"),
    [
        ("http://testserver/jobs/new/?project=demo", "/jobs/new/%3Fproject%3Ddemo"),
        ("https://elsewhere.example/jobs/new/", "/"),
        ("http://[testserver/jobs/new/", "/"),
        ("", "/"),
    ],
)
def test_a_form_that_is_sent_when_the_session_has_ended_leads_back_to_its_page(page, following):
    answer = Client().post("/jobs/new/", {"name": "a"}, headers={"Referer": page})

    assert answer["Location"] == f"/accounts/login/?next={following}"


def test_an_anticipated_error_is_a_page_with_what_why_what_to_do_and_code(browser):
    answer = browser.get("/jobs/nothing/")

    assert answer.status_code == 404
    shown = answer.content.decode()
    for part in ("Not found", "There is no job called &#x27;nothing&#x27;", "What to do:", "compute.job_not_found"):
        assert part in shown


def test_for_a_part_of_a_page_it_is_a_note_in_the_corner(browser):
    answer = browser.get("/jobs/nothing/", headers={"HX-Request": "true"})

    assert (answer.status_code, answer["HX-Retarget"]) == (404, "#toasts")
    assert "compute.job_not_found" in answer.content.decode()


BOOSTED = {"HX-Request": "true", "HX-Boosted": "true"}


def test_a_form_that_htmx_sent_gets_the_reason_of_a_refusal_and_the_field_that_it_is_about(
    browser, member, project, tmp_path
):
    make_store(tmp_path)
    make_dataset(member, project, "xrays")
    wrong = {"name": "xrays", "idle_days": "many"}

    answer = browser.post("/datasets/team-a/xrays/settings/", wrong, headers=BOOSTED)

    assert (answer.status_code, answer["HX-Retarget"], answer["HX-Reswap"]) == (400, "this", "afterbegin show:none")
    assert 'data-field="idle_days"' in answer.content.decode()
    assert "&#x27;many&#x27; is not a number of days." in answer.content.decode()


def test_a_form_that_htmx_sent_leads_the_browser_on(browser, member, project, tmp_path):
    make_store(tmp_path)
    make_dataset(member, project, "xrays")

    answer = browser.post("/datasets/team-a/xrays/settings/", {"name": "xrays", "kind": "images"}, headers=BOOSTED)

    assert (answer.status_code, answer["HX-Redirect"]) == (200, "/datasets/team-a/xrays/settings/")
    assert Dataset.objects.get().kind == "images"


def test_an_address_without_a_page_is_answered_in_the_shell(browser):
    answer = browser.get("/no/such/page/")

    assert answer.status_code == 404
    assert "web.page_not_found" in answer.content.decode()
    assert 'class="rail"' in answer.content.decode()


def test_only_a_form_that_is_refused_offers_the_way_back_to_it(browser):
    form = browser.post("/datasets/new/", {"project": "team-z", "name": "xrays"})
    page = browser.get("/jobs/nothing/")

    assert (form.status_code, page.status_code) == (404, 404)
    assert "data-goes-back" in form.content.decode()
    assert "data-goes-back" not in page.content.decode()


def lose_connection():
    refusal = ConnectionError("Connection refused")
    refusal.sqlstate = None
    raise OperationalError("connection failed") from refusal


@pytest.mark.parametrize("is_part", [False, True])
def test_while_the_database_is_away_a_page_says_so_and_asks_it_nothing(is_part, django_assert_num_queries):
    request = RequestFactory().get("/jobs/")
    request.htmx = is_part

    with django_assert_num_queries(0):
        try:
            lose_connection()
        except OperationalError:
            answer = error_pages.server_error(request)

    assert answer.status_code == 503
    for part in ("The server&#x27;s database does not answer.", "Try again in a minute.", "core.database_unavailable"):
        assert part in answer.content.decode()


@pytest.mark.parametrize(("method", "asks_again"), [("get", True), ("post", False)])
def test_a_page_that_cannot_be_read_now_is_tried_again_and_a_form_leads_back(method, asks_again):
    request = getattr(RequestFactory(), method)("/jobs/?state=failed")

    shown = error_pages.show(request, DatabaseUnavailable("The server's database does not answer.")).content.decode()

    assert ('<a class="btn btn-primary" href="/jobs/?state=failed">Try again</a>' in shown) is asks_again
    assert ("data-retries" in shown) is asks_again
    assert ("data-goes-back" in shown) is not asks_again


def test_a_damaged_page_link_is_the_callers_fault(browser):
    assert browser.get("/jobs/?cursor=%25%25").status_code == 400


def test_a_form_without_its_token_is_refused_calmly(member):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(User.objects.get(pk=member.user_id))

    answer = strict.post("/settings/projects/", {"name": "stolen"})

    assert answer.status_code == 403
    assert "web.request_refused" in answer.content.decode()


def test_pages_forbid_scripts_of_others_frames_and_guessing_of_types(browser):
    answer = browser.get("/")

    assert "default-src 'self'" in answer["Content-Security-Policy"]
    assert answer["X-Frame-Options"] == "DENY"
    assert answer["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("address", ["/jobs/a%00b/", "/no%00page", "/api/v1/projects?cursor=%00"])
def test_an_address_with_a_nul_is_refused_calmly(browser, address):
    answer = browser.get(address)

    assert answer.status_code == 400
    assert "core.out_of_bounds" in answer.content.decode()


def test_a_cookie_with_a_nul_is_refused_calmly(client):
    client.cookies.load('sessionid="abcdefghijkl\\000"')

    assert client.get("/").status_code == 400


@pytest.mark.parametrize(
    "address", ["/jobs/?q=%00", "/datasets/?q=%00", "/experiments/?q=title+contains+%22%00%22", "/search/?q=%00"]
)
def test_a_search_for_a_nul_is_one_without_a_result(browser, address):
    assert browser.get(address).status_code == 200


def test_nobody_is_found_by_a_nul(browser, project):
    page = browser.get("/settings/members/?person=%00").content.decode()

    assert "No member's name has “\N{REPLACEMENT CHARACTER}” in it." in flat(page)


def test_a_nul_in_a_form_is_told_at_its_field_and_nothing_is_made(site_admin):
    answer = browser_of(site_admin).post("/settings/projects/", {"name": "team-b", "description": "a\0b"})

    typed, errors = read_form(answer.content.decode(), "/settings/projects/")
    assert (answer.status_code, typed["name"]) == (422, "team-b")
    assert errors == {"description": "Null characters are not allowed."}
    assert not Project.objects.filter(name="team-b").exists()


def test_a_form_without_fields_of_its_own_is_refused_for_a_nul_with_the_way_back(browser, member, project, tmp_path):
    make_store(tmp_path)
    dataset = make_dataset(member, project, "xrays")

    stored = browser.post("/datasets/team-a/xrays/settings/", {"description": "a\0b"})
    found = browser.post("/datasets/new/", {"project": "a\0", "name": "maps"})

    assert (stored.status_code, found.status_code) == (400, 400 if connection.vendor == "postgresql" else 404)
    assert "data-goes-back" in stored.content.decode()
    assert "data-goes-back" in found.content.decode()
    assert list(Dataset.objects.values_list("pk", "description")) == [(dataset.pk, "")]


def test_a_form_that_is_too_large_is_refused_calmly(browser, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000

    answer = browser.post("/settings/projects/", {"name": "team-b", "description": "a" * 2000})

    assert answer.status_code == 413
    assert "web.unreadable_request" in answer.content.decode()


def test_an_address_of_a_form_is_no_page_and_says_so(browser):
    answer = browser.get("/quotas/edit/")

    assert (answer.status_code, answer["Allow"]) == (405, "POST")
    page = answer.content.decode()
    assert "This address takes what a form or a button sends. It is no page." in page
    assert 'href="/"' in page
