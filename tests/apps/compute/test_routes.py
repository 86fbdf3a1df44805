import json

import pytest

from accounts.permissions import Role
from accounts.services import tokens
from compute.models import Resource, Template
from compute.workers import observe
from tests.factories import compute as make

NODE = {
    "name": "n-1",
    "cpu_millicores": 8000,
    "memory_bytes": 2**34,
    "gpus": 2,
    "gpu_model": "A100",
    "gpu_memory_bytes": 2**36,
}


@pytest.fixture
def call(client):
    """Return a function that calls the API as an actor and returns the status and the body."""

    def send(actor, method, path, body=None):
        _, secret = tokens.create_token(actor=actor, name="test", expires_at=None)
        headers = {"Authorization": f"Bearer {secret}"}
        answer = client.generic(
            method,
            f"/api/v1{path}",
            data=b"" if body is None else json.dumps(body).encode(),
            content_type="application/json",
            headers=headers,
        )
        return answer.status_code, answer.json() if answer.content else None

    return send


@pytest.fixture
def job(project, template):
    [job] = make.submit(project, template, "train", command="python train.py")
    return job


def test_resources_are_listed_with_their_templates(call, viewer, template):
    status, body = call(viewer, "GET", "/compute/resources")

    assert (status, body["next_cursor"]) == (200, None)
    [resource] = body["items"]
    assert (resource["name"], resource["state"], resource["is_simulated"]) == ("scripted", "ready", True)
    assert [found["full_name"] for found in resource["templates"]] == ["scripted.small"]


def test_templates_are_listed_with_their_resource(call, viewer, template):
    status, body = call(viewer, "GET", "/compute/templates?project=team-a")

    assert status == 200
    assert [(t["full_name"], t["resource"], t["is_simulated"], t["gpu_milli"]) for t in body["items"]] == [
        ("scripted.small", "scripted", True, 0)
    ]


def test_a_site_admin_attaches_and_detaches_simulated_nodes(call, site_admin, home):
    attached = call(site_admin, "POST", "/compute/resources", {"name": "dgx", "kind": "simulated", "nodes": [NODE]})
    detached = call(site_admin, "DELETE", "/compute/resources/dgx")
    again = call(site_admin, "DELETE", "/compute/resources/dgx")

    assert (attached[0], attached[1]["name"], attached[1]["state"]) == (201, "dgx", "ready")
    assert detached == (204, None)
    assert (again[0], again[1]["code"]) == (404, "compute.resource_not_found")


def test_a_site_admin_adds_a_template(call, site_admin, resource):
    body = {"resource": "scripted", "name": "half", "cpu_millicores": 500, "memory_bytes": 2**20, "gpu_milli": 500}

    status, created = call(site_admin, "POST", "/compute/templates", body)

    assert (status, created["full_name"], created["gpu_milli"]) == (201, "scripted.half", 500)


def test_a_site_admin_drains_a_resource_and_opens_it_again(call, site_admin, home):
    call(site_admin, "POST", "/compute/resources", {"name": "dgx", "kind": "simulated", "nodes": [NODE]})

    states = []
    for is_drained in (True, False):
        status, _ = call(site_admin, "PATCH", "/compute/resources/dgx", {"is_drained": is_drained})
        [node] = call(site_admin, "GET", "/scheduler/nodes?resource=dgx")[1]["items"]
        states.append((status, node["is_drained"]))

    assert states == [(200, True), (200, False)]


@pytest.mark.usefixtures("resource")
@pytest.mark.parametrize(
    ("request_line", "body"),
    [
        ("POST /compute/resources", {"name": "dgx", "kind": "simulated", "nodes": [NODE]}),
        ("DELETE /compute/resources/scripted", None),
        ("PATCH /compute/resources/scripted", {"is_drained": True}),
        ("PATCH /compute/resources/scripted", {"credentials": {}}),
        ("POST /compute/templates", {"resource": "scripted", "name": "x", "cpu_millicores": 1, "memory_bytes": 1}),
    ],
)
def test_a_project_admin_may_not_change_resources(call, make_actor, request_line, body):
    actor = make_actor(Role.ADMIN)

    status, problem = call(actor, *request_line.split(), body)

    assert (status, problem["code"]) == (403, "accounts.permission_denied")
    assert (Resource.objects.filter(detached_at=None).count(), Template.objects.count()) == (1, 0)


def test_jobs_are_listed_newest_first_in_pages(call, viewer, project, template):
    make.submit(project, template, "a", "b", "c")

    _, first = call(viewer, "GET", "/compute/jobs?limit=2")
    _, second = call(viewer, "GET", f"/compute/jobs?limit=2&cursor={first['next_cursor']}")

    names = [job["name"] for job in first["items"] + second["items"]]
    assert sorted(names) == ["a", "b", "c"]
    assert second["next_cursor"] is None


def test_a_job_is_shown_with_its_history(call, viewer, job):
    status, body = call(viewer, "GET", "/compute/jobs/train")

    assert (status, body["state"], body["template"]) == (200, "pending", "scripted.small")
    assert (body["command"], body["is_simulated"], body["project"]) == ("python train.py", True, "team-a")
    assert [(event["seq"], event["state"]) for event in body["events"]] == [(1, "pending")]


def test_a_log_is_read_as_text_by_byte_offset(call, viewer, job, driver):
    make.start([job])
    driver.print("train", "größer\n")
    driver.finish("train")
    observe.observe_resource(resource_id=job.resource_id)

    first = call(viewer, "GET", "/compute/jobs/train/log?limit=3")[1]
    second = call(viewer, "GET", f"/compute/jobs/train/log?offset={first['next_offset']}")[1]

    assert first == {"text": "gr", "next_offset": 2, "is_complete": False, "is_stored": False}
    assert second == {"text": "ößer\n", "next_offset": 9, "is_complete": True, "is_stored": False}


def test_usage_of_a_job_that_used_nothing_is_an_empty_list(call, viewer, job):
    assert call(viewer, "GET", "/compute/jobs/train/usage") == (200, {"items": [], "next_cursor": None})


def test_a_member_cancels_a_job_and_a_viewer_does_not(call, viewer, member, job):
    refused = call(viewer, "POST", "/compute/jobs/train/cancel")
    state = make.state_of(job)
    allowed = call(member, "POST", "/compute/jobs/train/cancel", {"reason": "Wrong data."})

    assert (refused[0], state) == (403, "pending")
    assert (allowed[0], allowed[1]["state"], allowed[1]["reason"]) == (
        200,
        "cancelled",
        "member cancelled the job: Wrong data.",
    )


@pytest.mark.parametrize("path", ["", "/log", "/usage"])
def test_a_stranger_does_not_learn_that_a_job_exists(call, make_actor, job, path):
    status, problem = call(make_actor(None), "GET", f"/compute/jobs/train{path}")

    assert (status, problem["code"]) == (404, "compute.job_not_found")
