"""Resources whose driver does what the test says, and jobs on them."""

from collections.abc import Sequence
from pathlib import Path

from accounts.models import Project
from accounts.permissions import Actor
from compute.adapters import drivers
from compute.adapters.scripted import ScriptedDriver
from compute.engine.ports import NodeFacts
from compute.models import Job, Resource, Template
from compute.services import jobs
from compute.services.jobs import JobRequest, JobSpec
from compute.workers import launches, observe, probes
from core import clock
from scheduler.models import Node, Placement, Workload

NODES = (NodeFacts("node-1", 8000, 2**34),)


def make_resource(name: str = "scripted", root: Path = Path("/nonexistent")) -> tuple[Resource, ScriptedDriver]:
    """Attach a resource that a script drives."""
    resource = Resource.objects.create(name=name, kind="simulated", is_simulated=True)
    driver = ScriptedDriver(root, NODES)
    drivers.install(resource, driver)
    probes.probe_resource(resource=resource)
    return resource, driver


def make_template(resource: Resource, name: str = "small", **shape) -> Template:
    """Add a template: one CPU and one GiB, unless told otherwise."""
    return Template.objects.create(
        resource=resource, name=name, **{"cpu_millicores": 1000, "memory_bytes": 2**30, **shape}
    )


def make_request(project: Project, template: Template, name: str, command: str = "true", **spec) -> JobRequest:
    """Return a request for one job."""
    return JobRequest(
        project_id=project.pk,
        name=name,
        kind="job",
        template_id=template.pk,
        spec=JobSpec(name=name, command=command, **spec),
    )


def submit(project: Project, template: Template, *names: str, **spec) -> list[Job]:
    """Submit jobs by the platform itself."""
    requests = [make_request(project, template, name, **spec) for name in names]
    return jobs.submit_many(actor=Actor.system("tests"), requests=requests)


def place(submitted: Sequence[Job], *, gpus: Sequence[Sequence[int]] = ()) -> None:
    """Place jobs on the first node of their resource, as a cycle of the scheduler does."""
    nodes = {node.resource_id: node for node in Node.objects.order_by("-name")}
    ids = [job.workload_id for job in submitted]
    for start in range(0, len(ids), 500):
        Workload.objects.filter(pk__in=ids[start : start + 500]).update(state="placed", placed_at=clock.now())
    Placement.objects.bulk_create(
        Placement(
            workload_id=job.workload_id,
            node=nodes[job.resource_id],
            cpu_millicores=job.cpu_millicores,
            memory_bytes=job.memory_bytes,
            gpus=list(gpus),
        )
        for job in submitted
    )


def start(submitted: Sequence[Job], **placement) -> None:
    """Place jobs, start them, and observe them."""
    place(submitted, **placement)
    launches.start_placed_jobs()
    for resource_id in sorted({job.resource_id for job in submitted}):
        observe.observe_resource(resource_id=resource_id)


def state_of(job: Job) -> str:
    """Return the state that the database hold now."""
    return Job.objects.values_list("state", flat=True).get(pk=job.pk)
