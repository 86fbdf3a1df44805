"""Experiments for programs: filter, order, notes, tags and views over HTTP."""

import json

import pytest

from accounts.services import tokens
from tests.factories.experiments import make_experiments, make_run


@pytest.fixture
def call(client, member):
    """Return a function that calls the API as a member and returns the status and the body."""
    _, secret = tokens.create_token(actor=member, name="test", expires_at=None)

    def send(method, path, body=None, **query):
        content = b"" if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {secret}"}
        answer = client.generic(
            method, f"/api/v1{path}", data=content, content_type="application/json", headers=headers, query_params=query
        )
        return answer.status_code, answer.json() if answer.content else None

    return send


@pytest.fixture
def rows(project):
    values = [0.5, 0.9, 0.7, float("nan")]
    return make_experiments(make_run(project), 4, lambda index: {"metrics": {"accuracy": values[index]}})


def test_a_filter_and_an_order_are_those_of_the_page(call, rows):
    _, listed = call("GET", "/experiments", filter="metrics.accuracy >= 0.6", sort="metrics.accuracy")
    _, every = call("GET", "/experiments", sort="-metrics.accuracy", limit="3")
    _, rest = call("GET", "/experiments", sort="-metrics.accuracy", limit="3", cursor=every["next_cursor"])

    assert [item["metrics"]["accuracy"] for item in listed["items"]] == [0.7, 0.9]
    assert [item["metrics"]["accuracy"] for item in every["items"] + rest["items"]] == [0.9, 0.7, 0.5, "nan"]
    assert rest["next_cursor"] is None


@pytest.mark.parametrize(
    ("query", "code"),
    [({"filter": "accuracy > 1"}, "flows.invalid_filter"), ({"sort": "accuracy"}, "flows.invalid_column")],
)
def test_what_cannot_be_read_is_a_400_with_its_place(call, rows, query, code):
    status, problem = call("GET", "/experiments", **query)

    assert (status, problem["code"]) == (400, code)
    assert problem["details"].get("position") == (1 if "filter" in query else None)


def test_a_cursor_of_another_order_is_refused(call, rows):
    _, newest = call("GET", "/experiments", limit="1")

    status, problem = call("GET", "/experiments", sort="title", cursor=newest["next_cursor"])

    assert (status, problem["code"]) == (400, "core.invalid_input")


def test_notes_tags_and_views_are_written_and_read(call, rows):
    path = f"/experiments/{rows[0].pk}"

    _, note = call("PUT", f"{path}/note", {"note": "Look again."})
    conflict, _ = call("PUT", f"{path}/note", {"note": "Late."})
    _, tagged = call("PUT", f"{path}/tags/split/by", {"value": "patient"})
    _, shown = call("GET", path)
    _, bare = call("DELETE", f"{path}/tags/split/by")
    _, view = call("POST", "/experiment-views", {"project": "team-a", "name": "best", "query": "q=tags.best"})
    _, views = call("GET", "/experiment-views", project="team-a")

    assert (note["note"], note["note_by"], conflict) == ("Look again.", "member", 409)
    assert (tagged["tags"], bare["tags"]) == ({"split/by": "patient"}, {})
    assert (shown["note"], shown["tags"]) == ("Look again.", {"split/by": "patient"})
    assert (views["items"], view["owner"], view["project"]) == ([view], "member", "team-a")
    assert call("DELETE", f"/experiment-views/{view['id']}")[0] == 204
    assert call("GET", "/experiment-views")[1]["items"] == []
