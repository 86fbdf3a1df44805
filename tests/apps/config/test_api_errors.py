"""Whatever fails under /api/, the answer is a problem document (RFC 9457) of one shape."""

import json

import pytest
from cryptography.fernet import Fernet
from django.test import Client, RequestFactory

from accounts.models import Project, User
from datasets.models import Store
from tests.factories.api import bearer, call
from tests.factories.datasets import commit_files, make_dataset, make_store
from web import error_pages

PROBLEM = {"status", "code", "title", "hint", "details"}


def assert_problem(answer, status: int, code: str) -> None:
    assert answer.headers["Content-Type"] == "application/problem+json"
    body = json.loads(answer.content)
    assert (answer.status_code, body["status"], body["code"]) == (status, status, code)
    assert set(body) == PROBLEM
    assert body["title"]


def test_an_unknown_address(db):
    assert_problem(Client().get("/api/v1/nothing"), 404, "web.route_not_found")


def test_an_address_beside_the_api(db):
    assert_problem(Client().get("/api/nothing/"), 404, "web.route_not_found")


def test_a_method_that_the_address_does_not_take(db):
    answer = Client().put("/api/v1/projects")

    assert_problem(answer, 405, "core.method_not_allowed")
    assert set(answer.headers["Allow"].split(", ")) == {"GET", "POST"}


def test_nobody_is_signed_in(db):
    answer = Client().get("/api/v1/projects")

    assert_problem(answer, 401, "accounts.not_signed_in")
    assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_a_token_that_is_unknown(db):
    assert_problem(Client().get("/api/v1/me", headers={"Authorization": "Bearer no"}), 401, "accounts.not_signed_in")


def test_a_write_from_another_site_in_the_name_of_a_session(member):
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(User.objects.get(pk=member.user_id))

    answer = browser.post("/api/v1/projects", {"name": "team-b"}, content_type="application/json")

    assert_problem(answer, 403, "accounts.permission_denied")
    assert not Project.objects.filter(name="team-b").exists()


@pytest.mark.parametrize("body", [b"{", b"", b"[]", b'"text"', b"null", b'{"name": 1}', b"\xff"])
def test_a_body_that_is_not_as_documented(member, body):
    answer = Client().post("/api/v1/projects", body, content_type="application/json", headers=bearer(member))

    assert answer.status_code == 400
    assert_problem(answer, 400, answer.json()["code"])


def test_a_body_that_is_too_large(member, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    body = b'{"name": "team-b", "description": "' + b"a" * 1000 + b'"}'

    answer = Client().post("/api/v1/projects", body, content_type="application/json", headers=bearer(member))

    assert_problem(answer, 413, "core.body_too_large")
    assert not Project.objects.filter(name="team-b").exists()


def test_a_parameter_of_the_wrong_type(member):
    answer = Client().get("/api/v1/projects?limit=many", headers=bearer(member))

    assert_problem(answer, 400, "core.malformed_request")
    assert answer.json()["details"]["faults"][0]["where"] == "query.limit"


def test_a_body_that_is_no_object_is_named_as_the_body(member):
    answer = Client().post("/api/v1/projects", "[]", content_type="application/json", headers=bearer(member))

    assert answer.json()["details"]["faults"][0]["where"] == "body"


@pytest.mark.parametrize(
    ("address", "body", "words"),
    [
        ("projects", {"name": "a", "colour": "red"}, "colour is not known"),
        ("projects", {"name": "a" * 301}, "name has more than 300 characters"),
        (
            "tokens",
            {"name": "a", "expires_at": "1960-01-01T00:00:00Z"},
            "expires_at is refused: Its year is not between 1970 and 9999",
        ),
        ("projects", [], "body has to be an object"),
        ("tokens", {"name": "a", "expires_at": "soon"}, "expires_at has to be a moment like 2026-01-31T12:00:00Z"),
        ("compute/jobs", {"project": "a", "replicas": 0}, "replicas has to be at least 1"),
        ("compute/jobs", {"project": "a", "replicas": "two"}, "replicas has to be a whole number"),
        ("tokens", {"name": 1}, "name has to be a text"),
        ("tokens", {"name": ""}, "name is empty"),
        ("flows/validate", {"project": "a", "text": "", "format": "xml"}, "format has to be 'yaml' or 'json'"),
        (
            "compute/jobs",
            {"project": "a", "ports": 1, "is_preemptible": 7},
            "ports has to be a list; is_preemptible has to be true or false",
        ),
    ],
)
def test_what_is_wrong_with_a_body_is_told_in_words(member, address, body, words):
    answer = Client().post(f"/api/v1/{address}", body, content_type="application/json", headers=bearer(member))

    assert_problem(answer, 400, "core.malformed_request")
    assert answer.json()["title"] == f"The request is malformed: {words}."


def test_more_parameters_than_a_request_may_have(member):
    assert_problem(Client().get("/api/v1/me?" + "a&" * 1001, headers=bearer(member)), 400, "core.malformed_request")


@pytest.mark.parametrize("address", ["/api/v1/projects?cursor=%00", "/api/v1/compute/jobs/%00", "/store/%00"])
def test_a_nul_in_the_address(member, address):
    assert_problem(Client().get(address, headers=bearer(member)), 400, "core.out_of_bounds")


def test_what_nobody_anticipated():
    assert_problem(error_pages.server_error(RequestFactory().get("/api/v1/me")), 500, "core.internal")


def test_what_another_key_encrypted_is_told_at_once_as_waiting_does_not_help(member, project, tmp_path):
    store = make_store(tmp_path / "store")
    commit_files(member, make_dataset(member, project, "xrays"), {"a": b"1"})
    stranger = Fernet(Fernet.generate_key()).encrypt(b"{}")
    Store.objects.filter(pk=store.pk).update(kind="s3", location="s3://bucket", credentials=stranger)

    answer = call(member, "GET", "/datasets/team-a/xrays/content?path=a")

    assert (answer.status, answer.body["code"]) == (409, "core.credentials_unreadable")
    assert "`manage.py setup`" in answer.body["hint"]


def test_of_very_many_faults_only_the_number_is_told(member):
    body = json.dumps({"name": "x"} | {f"key-{number}": 1 for number in range(100_000)})

    answer = Client().post("/api/v1/tokens", body, content_type="application/json", headers=bearer(member))

    assert_problem(answer, 400, "core.malformed_request")
    assert answer.json()["title"] == "The request is malformed: body is refused: It has 100,000 faults."
