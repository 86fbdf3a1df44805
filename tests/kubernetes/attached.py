"""A namespace of a cluster with a simulated node, attached to the platform of this process."""

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from accounts.models import Project
from accounts.permissions import Actor
from compute.adapters import drivers
from compute.errors import ResourceUnreachable
from compute.models import Job, Resource, Template
from compute.services import resources
from compute.workers import launches, observe
from scheduler.workers import cycle
from tests.factories import compute as make
from tests.kubernetes.api import LIMIT_S
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.kwok import add_node, gpu_node
from tests.kubernetes.rbac import grant, manifests_for

CONFIG = {"agent_image": "agent", "default_image": "user", "platform_url": "http://nearline.test"}


@contextmanager
def attached(
    control_plane: ControlPlane, actor: Actor, *, name: str = "lab-k8s", namespace: str = "", **config: object
) -> Iterator[tuple[Resource, Template]]:
    """Attach a namespace of a cluster with one simulated node, and give it a template."""
    node = f"node-{secrets.token_hex(3)}"
    add_node(control_plane, gpu_node(node))
    namespace = namespace or control_plane.create_namespace(f"jobs-{secrets.token_hex(4)}", enforce="restricted")
    grant(control_plane, manifests_for(namespace))
    resource = resources.attach_resource(
        actor=actor,
        name=name,
        kind="kubernetes",
        config={**CONFIG, "namespace": namespace, **config},
        credentials={"kubeconfig": control_plane.kubeconfig_of("nearline", namespace=namespace)},
    )
    yield resource, make.make_template(resource, cpu_millicores=500)
    control_plane.api.delete(f"/api/v1/nodes/{node}")


def run_to_its_end(project: Project, template: Template, name: str, **spec) -> Job:
    """Run a job whose pod a simulated node lets succeed."""
    [job] = make.submit(project, template, name, **spec)
    cycle.run_once()
    launches.start_placed_jobs()
    deadline = time.monotonic() + LIMIT_S
    while make.state_of(job) != "succeeded":
        assert time.monotonic() < deadline
        with suppress(ResourceUnreachable):  # as a poll does, which starts the job again then
            drivers.driver_of(template.resource).wait_for_news(0.1)
        observe.observe_resource(resource_id=template.resource_id)
    return job
