"""Experiments that stand alone: a program elsewhere creates one, records into it and finishes it, over HTTP."""

import json

import pytest

from accounts.models import User
from accounts.services import tokens
from experiments.models import Experiment, Fact, MetricPoint
from tests.factories.experiments import make_experiments, make_run


@pytest.fixture
def call(client):
    """Return a function that calls the API as somebody and returns the status and the body."""

    def send(actor, method, path, body=None):
        _, secret = tokens.create_token(actor=actor, name="test", expires_at=None)
        answer = client.generic(
            method,
            f"/api/v1{path}",
            data=b"" if body is None else json.dumps(body).encode(),
            content_type="application/json",
            headers={"Authorization": f"Bearer {secret}"},
        )
        return answer.status_code, answer.json() if answer.content else None

    return send


@pytest.fixture
def alone(call, member, project):
    body = {"project": "team-a", "title": "on my laptop", "parameters": {"lr": 0.1}, "tags": {"split": "patient"}}
    status, created = call(member, "POST", "/experiments", body)
    assert status == 201
    return created


def test_what_a_program_records_is_what_it_reads_back(call, member, alone):
    first = {"metrics": [{"key": "loss", "value": 0.5}, {"key": "loss", "value": "nan"}], "parameters": {"epochs": 3}}
    second = {
        "metrics": [{"key": "loss", "value": 0.25, "step": 10, "at": "2026-11-22T10:00:00Z"}],
        "tags": {"best": ""},
    }
    for body in (first, second):
        assert call(member, "POST", f"/experiments/{alone['id']}/records", body)[0] == 200
    _, finished = call(member, "POST", f"/experiments/{alone['id']}/finish", {"state": "succeeded"})

    _, read = call(member, "GET", f"/experiments/{alone['id']}")
    _, curve = call(member, "GET", f"/experiments/{alone['id']}/metrics?key=loss")
    assert (alone["state"], finished["state"], read["state"]) == ("running", "succeeded", "succeeded")
    assert read["parameters"] == {"lr": 0.1, "epochs": 3}
    assert read["tags"] == {"split": "patient", "best": ""}
    assert read["metrics"] == {"loss": 0.25}
    assert [(point["step"], point["value"]) for point in curve["points"]] == [(0, 0.5), (1, "nan"), (10, 0.25)]
    assert (read["run"], read["run_number"], read["index"], read["attempt"], read["job_name"]) == ("", 0, 0, 0, "")
    assert read["finished_at"] == finished["finished_at"]


def test_it_is_found_by_what_it_recorded_and_shown_beside_those_of_runs(call, member, project, alone):
    (other,) = make_experiments(make_run(project), 1, lambda index: {"parameters": {"lr": 0.1}})

    _, listed = call(member, "GET", "/experiments?filter=params.lr%20%3D%200.1&recorded=true")
    _, compared = call(member, "GET", f"/experiments/compare?ids={alone['id']},{other.pk}")

    assert [item["title"] for item in listed["items"]] == ["train-0", "on my laptop"]
    assert compared["parameters"] == {"lr": [0.1, 0.1]}


def test_pages_show_it_without_a_run(client, member, alone):
    client.force_login(User.objects.get(pk=member.user_id))

    pages = [client.get(path).content.decode() for path in (f"/experiments/{alone['id']}/", "/experiments/?group=run")]

    assert "by member" in pages[0]
    assert "Others of this run" not in pages[0]
    assert "not recorded" in pages[1]


@pytest.mark.parametrize("path", ["records", "finish"])
def test_what_was_finished_is_not_recorded_into(call, member, alone, path):
    call(member, "POST", f"/experiments/{alone['id']}/finish", {"state": "failed", "reason": "No memory."})

    status, problem = call(member, "POST", f"/experiments/{alone['id']}/{path}", {})

    row = Experiment.objects.get()
    assert (status, problem["code"]) == (409, "experiments.has_ended")
    assert (row.state, row.reason, row.tags) == ("failed", "No memory.", {"split": "patient"})


@pytest.mark.parametrize("path", ["records", "finish"])
def test_what_a_job_prints_is_recorded_by_its_log_alone(call, member, project, path):
    (row,) = make_experiments(make_run(project), 1, lambda index: {"state": "running", "took_s": None})

    status, problem = call(member, "POST", f"/experiments/{row.pk}/{path}", {})

    assert (status, problem["code"]) == (409, "experiments.not_standalone")
    assert Experiment.objects.values_list("state", "finished_at").get() == ("running", None)


def test_a_viewer_creates_and_records_nothing(call, viewer, alone):
    answers = [
        call(viewer, "POST", "/experiments", {"project": "team-a", "title": "mine"}),
        call(viewer, "POST", f"/experiments/{alone['id']}/records", {"metrics": [{"key": "loss", "value": 1}]}),
        call(viewer, "POST", f"/experiments/{alone['id']}/finish", {}),
    ]

    assert [status for status, _ in answers] == [403, 403, 403]
    assert (Experiment.objects.get().state, MetricPoint.objects.count()) == ("running", 0)


@pytest.mark.parametrize(
    "body",
    [
        {"metrics": [{"key": "", "value": 1}]},
        {"tags": {"": "x"}},
        {"parameters": {"k" * 201: 1}},
        {"metrics": [{"key": "loss", "value": "high"}]},
        {"parameters": {f"p{number}": number for number in range(1001)}},
        {"metrics": [{"key": "loss", "value": 1, "step": 2**53}]},
        {"metrics": [{"key": f"m{number}", "value": 1} for number in range(1001)]},
        {"parameters": {"prompt": "x" * 5001}},
        {"parameters": {f"p{number}": "x" * 5000 for number in range(210)}},
        {"tags": {f"t{number}": "\N{SNOWMAN}" * 5000 for number in range(35)}},
    ],
)
def test_what_cannot_be_recorded_is_refused_whole(call, member, alone, body):
    facts = Fact.objects.count()

    status, _ = call(member, "POST", f"/experiments/{alone['id']}/records", {"tags": {"new": "1"}, **body})

    assert status in {400, 422}
    assert (Experiment.objects.get().tags, Fact.objects.count()) == ({"split": "patient"}, facts)


def test_an_experiment_that_is_full_takes_new_values_for_what_it_has(call, member, alone):
    path = f"/experiments/{alone['id']}/records"
    full = {f"p{number:03}": "x" * 5000 for number in range(209)}

    answers = [
        call(member, "POST", path, {"parameters": parameters})
        for parameters in (full, {"p000": "y" * 5000}, {"one more": "x" * 5000}, {"p001": "short"})
    ]

    assert [status for status, _ in answers] == [200, 200, 400, 200]
    assert "'one more' does not fit" in answers[2][1]["title"]
    recorded = Experiment.objects.get().logged
    assert recorded == full | {"lr": 0.1, "p000": "y" * 5000, "p001": "short"}
