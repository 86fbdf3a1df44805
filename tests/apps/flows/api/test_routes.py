import io
import json
import tarfile

import pytest

from accounts.services import tokens
from experiments.models import Experiment
from flows.engine.spec import StepSpec
from flows.models import Run
from tests.factories.flows import World, newest_attempt

FLOW = """\
flow: digits
title: Handwritten digits
parameters: {epochs: {type: int, default: 3}}
steps:
  - {name: train, command: train, grid: {C: [1, 10]}}
  - {name: evaluate, command: evaluate, after: [train]}
"""


@pytest.fixture
def call(client):
    """Return a function that calls the API as an actor and returns the status and the body."""

    def send(actor, method, path, body=None, *, raw: bytes | None = None):
        _, secret = tokens.create_token(actor=actor, name="test", expires_at=None)
        answer = client.generic(
            method,
            f"/api/v1{path}",
            data=raw if raw is not None else b"" if body is None else json.dumps(body).encode(),
            content_type="application/json" if raw is None else "application/gzip",
            headers={"Authorization": f"Bearer {secret}"},
        )
        if answer.streaming:
            return answer.status_code, b"".join(answer.streaming_content)
        return answer.status_code, answer.json() if answer.content else None

    return send


@pytest.fixture
def pushed(world: World, call, member):
    status, version = call(member, "POST", "/flows", {"project": "team-a", "text": FLOW})
    assert status == 201
    return version


@pytest.fixture
def run(call, member, pushed) -> dict:
    status, body = call(member, "POST", "/flows/team-a/digits/runs", {"parameters": {"epochs": 5}})
    assert status == 201
    return body


@pytest.mark.parametrize("value", ["null", "true", "-1", "1.5", ".nan", "[1]", "{a: 1}", '""', '"a\\0b"', "y" * 9000])
def test_wrong_values_at_all_keys_of_a_step_are_told_with_their_lines(call, member, value):
    keys = sorted(set(StepSpec.model_fields) - {"name", "command"})
    text = "flow: f\nsteps:\n- name: s\n  command: c\n" + "".join(f"  {key}: {value}\n" for key in keys)

    status, body = call(member, "POST", "/flows/validate", {"project": "team-a", "text": text})

    assert (status, body["is_valid"]) == (200, False)
    told = {
        problem["path"].removeprefix("steps[0].").split(".")[0].split("[")[0]: problem for problem in body["problems"]
    }
    lines = {key: line for line, key in enumerate(keys, start=5)}
    assert {key: problem["line"] for key, problem in told.items()} == {key: lines[key] for key in told}
    assert all(problem["code"] and problem["message"] for problem in body["problems"])


def test_runs_are_found_by_flow_and_number(call, viewer, member, run):
    _, second = call(member, "POST", "/flows/team-a/digits/runs", {})

    def listed(query):
        return [item["id"] for item in call(viewer, "GET", f"/runs?{query}")[1]["items"]]

    assert listed("flow=digits&number=1") == [run["id"]]
    assert listed("number=2") == [second["id"]]
    assert listed("flow=digits&number=3") == []


def test_a_flow_is_pushed_listed_and_shown(call, viewer, pushed):
    assert (pushed["flow"], pushed["number"], len(pushed["hash"])) == ("digits", 1, 64)

    _, listed = call(viewer, "GET", "/flows?project=team-a")
    assert [(item["name"], item["title"], item["newest_version"]["hash"]) for item in listed["items"]] == [
        ("digits", "Handwritten digits", pushed["hash"])
    ]
    _, shown = call(viewer, "GET", "/flows/team-a/digits")
    assert shown["version"]["text"] == FLOW
    assert [step["name"] for step in shown["version"]["spec"]["steps"]] == ["train", "evaluate"]
    _, versions = call(viewer, "GET", "/flows/team-a/digits/versions")
    assert [item["number"] for item in versions["items"]] == [1]


def test_problems_come_back_with_lines(call, viewer, world: World):
    text = "flow: x\nsteps:\n  - {name: a, comand: c}\n"

    status, body = call(viewer, "POST", "/flows/validate", {"project": "team-a", "text": text})
    assert (status, body["is_valid"], body["spec"]) == (200, False, None)
    assert [(item["line"], item["code"]) for item in body["problems"]] == [(3, "missing_key"), (3, "unknown_key")]


def test_pushing_an_invalid_flow_is_a_400_with_all_problems(call, member, world: World):
    status, body = call(member, "POST", "/flows", {"project": "team-a", "text": "flow: x\nsteps: []\n"})

    assert (status, body["code"]) == (400, "flows.invalid_flow")
    assert body["details"]["problems"][0]["message"] == "'steps' must not be empty."


def test_a_run_tells_its_steps_and_why_they_wait(world: World, call, viewer, run):
    world.turn()

    _, body = call(viewer, "GET", f"/runs/{run['id']}")

    assert (body["state"], body["number"], body["parameters"]) == ("running", 1, {"epochs": 5})
    assert body["url"].endswith(f"/runs/{run['id']}/")
    assert [(step["label"], step["index"], step["state"], step["depends_on"]) for step in body["steps"]] == [
        ("train C=1", 0, "queued", []),
        ("train C=10", 1, "queued", []),
        ("evaluate", None, "pending", ["train"]),
    ]
    train = body["steps"][0]
    assert train["decision"] == {"tried": [], "chosen": "this-machine.small", "why": "It is the first choice."}
    assert train["attempts"][0]["experiment_id"] == train["experiment_id"]


def test_events_are_read_from_where_one_was(world: World, call, viewer, run):
    world.finish_all(Run.objects.get(pk=run["id"]))

    _, first = call(viewer, "GET", f"/runs/{run['id']}/events")
    _, rest = call(viewer, "GET", f"/runs/{run['id']}/events?after={first['last_seq'] - 1}")

    assert first["is_complete"] is True
    assert [event["kind"] for event in rest["items"]] == ["run.succeeded"]


def test_logs_are_read_by_offset_without_cutting_characters(world: World, call, viewer, run):
    world.turn()
    world.turn()
    name = newest_attempt(Run.objects.get(pk=run["id"]), "train", 1).job_name
    world.driver_of(name).print(name, "größe\n")

    path = f"/runs/{run['id']}/steps/train/log?index=1"
    _, first = call(viewer, "GET", f"{path}&limit=3")
    _, rest = call(viewer, "GET", f"{path}&offset={first['next_offset']}")

    assert (first["data"], first["next_offset"], first["is_complete"]) == ("gr", 2, False)
    assert rest["data"] == "öße\n"
    assert call(viewer, "GET", f"/runs/{run['id']}/steps/nothing/log")[0] == 404


def test_experiments_are_listed_compared_and_downloaded(world: World, call, viewer, run):
    row = Run.objects.get(pk=run["id"])
    world.turn()
    world.turn()
    for index, accuracy in enumerate((0.9, 0.95)):
        name = newest_attempt(row, "train", index).job_name
        (world.driver_of(name).open_output(name).host_folder / "model.bin").write_bytes(b"model")
        line = f'::nearline {{"kind": "metric", "key": "accuracy", "value": {accuracy}}}\n'
        world.finish(row, "train", index, prints=line)
    world.turn()

    _, listed = call(viewer, "GET", f"/experiments?project=team-a&run={run['id']}")
    by_label = {item["label"]: item for item in listed["items"]}
    assert by_label["digits #1 · train C=10"]["metrics"] == {"accuracy": 0.95}
    ids = [by_label[f"digits #1 · train C={value}"]["id"] for value in (1, 10)]

    _, compared = call(viewer, "GET", f"/experiments/compare?ids={','.join(ids)}")
    assert compared["parameters"] == {"C": [1, 10], "epochs": [5, 5]}
    assert compared["metrics"] == {"accuracy": [0.9, 0.95]}

    _, shown = call(viewer, "GET", f"/experiments/{ids[0]}")
    assert [artifact["path"] for artifact in shown["artifacts"]] == ["model.bin"]
    assert call(viewer, "GET", f"/experiments/{ids[0]}/artifacts/model.bin") == (200, b"model")
    assert call(viewer, "GET", f"/experiments/{ids[0]}/artifacts/other")[0] == 404
    _, curve = call(viewer, "GET", f"/experiments/{ids[0]}/metrics?key=accuracy")
    assert [(point["step"], point["value"]) for point in curve["points"]] == [(0, 0.9)]


def test_a_run_is_cancelled_and_retried(world: World, call, member, run):
    world.turn()

    _, cancelling = call(member, "POST", f"/runs/{run['id']}/cancel")
    assert cancelling["is_cancelling"] is True
    for _ in range(3):
        world.turn()
    _, body = call(member, "GET", f"/runs/{run['id']}")
    assert (body["state"], body["is_cancelling"]) == ("cancelled", False)
    assert call(member, "POST", f"/runs/{run['id']}/cancel")[1]["code"] == "flows.run_has_ended"

    assert call(member, "POST", f"/runs/{run['id']}/retry")[1]["state"] == "running"
    world.finish_all(Run.objects.get(pk=run["id"]))
    assert call(member, "GET", f"/runs/{run['id']}")[1]["state"] == "succeeded"


def test_a_run_of_an_older_version_is_started_by_its_hash(call, member, pushed):
    call(member, "POST", "/flows", {"project": "team-a", "text": FLOW.replace("default: 3", "default: 4")})

    _, newest = call(member, "POST", "/flows/team-a/digits/runs", {})
    _, older = call(member, "POST", "/flows/team-a/digits/runs", {"version": pushed["hash"][:12]})

    assert newest["parameters"] == {"epochs": 4}
    assert (older["parameters"], older["version"]) == ({"epochs": 3}, pushed["hash"])
    assert call(member, "POST", "/flows/team-a/digits/runs", {"version": "abcdef"})[0] == 404


def test_code_is_sent_and_named_by_its_hash(call, member, viewer, world: World):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("train.py"))

    status, bundle = call(member, "POST", "/flows/bundles?project=team-a", raw=buffer.getvalue())
    assert (status, bundle["files"]) == (201, 1)
    status, version = call(member, "POST", "/flows", {"project": "team-a", "text": FLOW, "bundle": bundle["bundle"]})
    assert (status, version["bundle"]) == (201, bundle["bundle"])
    assert call(viewer, "POST", "/flows/bundles?project=team-a", raw=buffer.getvalue())[0] == 403


def test_a_stranger_sees_nothing(call, make_actor, run):
    stranger = make_actor(None)
    experiment = Experiment.objects.first()

    assert call(stranger, "GET", "/flows")[1]["items"] == []
    assert call(stranger, "GET", "/runs")[1]["items"] == []
    assert call(stranger, "GET", f"/runs/{run['id']}")[0] == 404
    assert call(stranger, "GET", "/flows/team-a/digits")[0] == 404
    assert experiment is None


def test_the_schema_is_published(call, viewer, db):
    _, schema = call(viewer, "GET", "/flows/schema.json")

    assert schema["title"] == "Nearline flow"
    assert "steps" in schema["properties"]
