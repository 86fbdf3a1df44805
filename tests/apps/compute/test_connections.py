"""Connections to jobs: who gets a ticket, what it opens, and when that ends."""

import pytest

from accounts.errors import PermissionDenied
from accounts.models import AuditEntry, Membership, Project, User
from accounts.permissions import Role
from accounts.selectors import find_actor
from compute.adapters import job_tokens
from compute.adapters.job_tokens import Claims
from compute.engine.ports import TerminalRequest
from compute.errors import InvalidTicket, JobNotRunning, PortRefused
from compute.models import Job, Resource
from compute.services import connections, resources, submissions
from compute.workers import observe
from core.errors import InvalidInput
from tests.factories import compute as make

NODE = {"name": "n-1", "cpu_millicores": 8000, "memory_bytes": 2**34, "gpus": 0}


def noted() -> list[tuple[str, str, dict]]:
    entries = AuditEntry.objects.filter(action="compute.open_port")
    return list(entries.values_list("actor_name", "target_name", "facts"))


def test_a_member_gets_a_ticket_and_it_is_noted_once_for_all_its_connections(running, member, client):
    client.force_login(User.objects.get(pk=member.user_id))

    answer = client.post("/api/v1/compute/jobs/train/ports", {"port": 8888}, content_type="application/json")
    claims = [job_tokens.read_ticket(answer.json()["ticket"]) for _ in range(2)]

    assert answer.status_code == 201
    assert (answer.json()["url"], answer.json()["expires_in_s"]) == ("/connections", 600)
    assert claims == [Claims(member.user_id, running.pk, "train", 0, port=8888)] * 2
    assert noted() == [(member.name, "train", {"port": 8888, "replica": 0})]


def test_a_viewer_gets_no_ticket(running, viewer):
    with pytest.raises(PermissionDenied):
        connections.offer_port(actor=viewer, job=running, port=8888)

    assert noted() == []


def test_who_may_not_use_the_secrets_of_a_job_gets_no_ticket(running, project, member):
    Project.objects.filter(pk=project.pk).update(secret_users=Role.ADMIN)
    Job.objects.filter(pk=running.pk).update(spec={**running.spec, "secret_names": ["KEY"]})
    running.refresh_from_db()

    with pytest.raises(PermissionDenied):
        connections.offer_port(actor=member, job=running, port=8888)


def test_a_replica_that_there_is_not_is_refused(running, member):
    with pytest.raises(InvalidInput):
        connections.offer_port(actor=member, job=running, port=8888, replica=1)


def test_a_job_that_has_ended_has_no_port(running, member, driver):
    driver.finish("train")
    observe.observe_resource(resource_id=running.resource_id)
    running.refresh_from_db()

    with pytest.raises(JobNotRunning, match="train does not run: it is succeeded"):
        connections.offer_port(actor=member, job=running, port=8888)


def test_a_resource_whose_jobs_have_no_ports_says_so(db, home, project, member, site_admin):
    node = {**NODE, "gpu_model": "V100", "gpu_memory_bytes": 2**35}
    lab = resources.attach_resource(actor=site_admin, name="lab", kind="simulated", config={"nodes": [node]})
    [job] = make.submit(project, make.make_template(lab), "train", simulated_duration_s=600)
    make.start([job])
    job.refresh_from_db()

    with pytest.raises(PortRefused) as refused:
        connections.offer_port(actor=member, job=job, port=8888)

    assert refused.value.message == (
        "Ports of jobs can be reached on clusters and on the platform's own machine; lab is of kind simulated."
    )
    assert noted() == []


def test_a_terminal_is_offered_and_its_command_noted(running, member, client):
    client.force_login(User.objects.get(pk=member.user_id))
    body = {"command": ["ls", "-l"], "columns": 100, "rows": 30, "kind": "vt100"}

    answer = client.post("/api/v1/compute/jobs/train/terminals", body, content_type="application/json")

    request = TerminalRequest(("ls", "-l"), columns=100, rows=30, kind="vt100")
    claims = job_tokens.read_ticket(answer.json()["ticket"])
    assert claims == Claims(member.user_id, running.pk, "train", 0, terminal=request)
    entry = AuditEntry.objects.get(action="compute.open_terminal")
    assert (entry.actor_name, entry.facts) == (member.name, {"command": "ls -l", "replica": 0})


def test_a_command_that_no_header_can_hold_is_refused(running, member):
    request = TerminalRequest(("x" * 3001,), columns=80, rows=24)

    with pytest.raises(InvalidInput, match="at most 3,000 bytes"):
        connections.offer_terminal(actor=member, job=running, request=request)


def test_a_viewer_opens_no_terminal(running, viewer):
    with pytest.raises(PermissionDenied):
        connections.offer_terminal(actor=viewer, job=running, request=TerminalRequest(("ls",), columns=80, rows=24))

    assert not AuditEntry.objects.filter(action="compute.open_terminal").exists()


@pytest.mark.parametrize("ticket", ["", "nonsense", "a:b:c"])
def test_a_ticket_that_was_not_issued_is_refused(ticket):
    with pytest.raises(InvalidTicket):
        job_tokens.read_ticket(ticket)


def test_a_ticket_is_worthless_once_its_owner_may_not_run_commands_in_the_job(running, member):
    claims = claims_of(member, running)
    connections.redeem(actor=member, claims=claims)

    Membership.objects.filter(user_id=member.user_id).update(role=Role.VIEWER)

    with pytest.raises(PermissionDenied):
        connections.redeem(actor=find_actor(member.user_id), claims=claims)


def test_a_ticket_is_for_one_run_of_a_job(running, member):
    claims = claims_of(member, running)

    Job.objects.filter(pk=running.pk).update(evictions=1)

    with pytest.raises(JobNotRunning, match="train was stopped, and runs anew"):
        connections.redeem(actor=member, claims=claims)


def claims_of(actor, job) -> Claims:
    return job_tokens.read_ticket(connections.offer_port(actor=actor, job=job, port=8888).text)


@pytest.fixture
def jupyter(project, template, member, driver) -> Job:
    """Return a job that runs a Jupyter on nodes that exist."""
    Resource.objects.update(is_simulated=False, kind="kubernetes")
    template.refresh_from_db()
    wanted = submissions.Submission(template=template.full_name, name="lab", jupyter=True, ports=[9999])
    job = submissions.submit_job(actor=member, project=project, submission=wanted)
    make.start([job])
    job.refresh_from_db()
    return job


def test_the_token_of_a_jupyter_is_in_its_environment_and_known_to_who_may_run_commands(
    jupyter, member, viewer, driver
):
    token = connections.find_jupyter_token(actor=member, job=jupyter)

    assert len(token) == 64
    assert driver.jobs.launches["lab"].secrets == {"JUPYTER_TOKEN": token}
    assert "--port=9999 " in driver.jobs.launches["lab"].spec.command
    assert connections.find_jupyter_token(actor=viewer, job=jupyter) == ""


@pytest.mark.parametrize("role", ["member", "viewer"])
def test_how_to_reach_a_jupyter_is_shown_to_those_who_may(jupyter, request, client, role):
    token = job_tokens.jupyter_token_of(jupyter.pk)
    client.force_login(User.objects.get(pk=request.getfixturevalue(role).user_id))

    page = client.get("/jobs/lab/").content.decode()
    told = client.get("/api/v1/compute/jobs/lab").json()["jupyter_token"]

    may = role == "member"
    assert told == (token if may else "")
    assert (token in page) is may
    assert ("nearline job port-forward lab 9999" in page) is may


def test_a_job_without_a_jupyter_has_no_token(running, member, driver):
    assert connections.find_jupyter_token(actor=member, job=running) == ""
    assert driver.jobs.launches["train"].secrets == {}
