"""Commands that people run in a job that runs: who may, in which jobs, and what comes back."""

import base64
import json

import pytest

from accounts.errors import NotSignedIn, PermissionDenied, ProjectNotFound
from accounts.models import AuditEntry, Membership, Project, User
from accounts.permissions import Role
from accounts.services import access
from compute.errors import CommandRefused, JobNotRunning
from compute.models import Job
from compute.services import commands, resources
from compute.workers import observe
from core.errors import InvalidInput
from tests.factories import compute as make

NODE = {"name": "n-1", "cpu_millicores": 8000, "memory_bytes": 2**34, "gpus": 0}


def noted() -> list[tuple[str, str, dict]]:
    entries = AuditEntry.objects.filter(action="compute.run_command")
    return list(entries.values_list("actor_name", "target_name", "facts"))


def test_a_member_runs_a_command_in_a_job_and_it_is_noted(running, member, client):
    client.force_login(User.objects.get(pk=member.user_id))
    body = {"command": ["ls", "-l"], "stdin": base64.b64encode(b"given").decode()}

    answer = client.post("/api/v1/compute/jobs/train/exec", body, content_type="application/json")

    lines = [json.loads(line) for line in b"".join(answer.streaming_content).splitlines() if line]
    said = [
        {key: base64.b64decode(value) if key != "exit_code" else value} for line in lines for key, value in line.items()
    ]
    assert said == [{"stdout": b"train 0: ls -l\n"}, {"stderr": b"given"}, {"exit_code": 3}]
    assert noted() == [(member.name, "train", {"command": "ls -l", "replica": 0})]


@pytest.mark.parametrize("end", ["removed", "disabled"])
def test_a_command_is_heard_no_more_by_who_may_not_run_it_any_more(running, member, site_admin, end, monkeypatch):
    monkeypatch.setattr(commands, "LOOK_EVERY_S", 0)
    output = commands.run_command(actor=member, job=running, command=["ls"])
    assert next(output).data

    if end == "removed":
        Membership.objects.filter(user=member.user_id).delete()
    else:
        access.disable_person(actor=site_admin, username=member.name)

    with pytest.raises((ProjectNotFound, NotSignedIn)):
        next(output)


def test_a_viewer_runs_no_command(running, viewer):
    with pytest.raises(PermissionDenied):
        commands.run_command(actor=viewer, job=running, command=["ls"])

    assert noted() == []


def test_who_may_not_use_the_secrets_of_a_job_runs_no_command_in_it(running, project, member, make_actor):
    Project.objects.filter(pk=project.pk).update(secret_users=Role.ADMIN)
    Job.objects.filter(pk=running.pk).update(spec={**running.spec, "secret_names": ["KEY"]})
    running.refresh_from_db()

    with pytest.raises(PermissionDenied):
        commands.run_command(actor=member, job=running, command=["env"])

    assert noted() == []


def test_a_replica_that_there_is_not_is_refused(running, member):
    with pytest.raises(InvalidInput):
        commands.run_command(actor=member, job=running, command=["ls"], replica=1)

    assert noted() == []


def test_a_job_that_has_ended_takes_no_command(running, member, driver):
    driver.finish("train")
    observe.observe_resource(resource_id=running.resource_id)
    running.refresh_from_db()

    with pytest.raises(JobNotRunning, match="train does not run: it is succeeded"):
        commands.run_command(actor=member, job=running, command=["ls"])

    assert noted() == []


def test_a_resource_whose_jobs_take_no_commands_says_so(db, home, project, member, site_admin):
    node = {**NODE, "gpu_model": "V100", "gpu_memory_bytes": 2**35}
    lab = resources.attach_resource(actor=site_admin, name="lab", kind="simulated", config={"nodes": [node]})
    [job] = make.submit(project, make.make_template(lab), "train", simulated_duration_s=600)
    make.start([job])
    job.refresh_from_db()

    with pytest.raises(CommandRefused) as refused:
        commands.run_command(actor=member, job=job, command=["ls"])

    assert refused.value.message == (
        "Without a terminal, commands can be run in jobs of clusters and Docker hosts only; lab is of kind simulated."
    )
    assert noted() == []
