"""What an admin sets for all pods of a cluster, and for those of a template, holds on a real API server."""

from dataclasses import replace

import pytest

from compute.models import Template
from compute.services import resources, templates
from compute.services.templates import Shape
from compute.workers import probes
from scheduler.models import Node, Workload
from scheduler.workers import cycle
from tests.factories import compute as make
from tests.kubernetes.attached import attached, run_to_its_end
from tests.kubernetes.kwok import add_node, gpu_node

pytestmark = pytest.mark.django_db(transaction=True)

TAINT = {"key": "gpu", "value": "only", "effect": "NoSchedule"}
SPOT = {"key": "spot", "effect": "NoSchedule"}
SETTINGS = {
    "priority_class": "batch",
    "node_selector": {"pool": "train"},
    "tolerations": [TAINT],
    "image_pull_secrets": ["registry"],
}
POD = {"node_selector": {"zone": "a"}, "tolerations": ["spot"], "priority_class": "urgent"}


@pytest.fixture
def home(settings, tmp_path):
    settings.NEARLINE = replace(settings.NEARLINE, home=tmp_path)


def pod_of(api, resource, job):
    pods = f"/api/v1/namespaces/{resource.config['namespace']}/pods"
    (pod,) = api.list(pods, labelSelector=f"nearline.dev/job={job.pk}")
    return pod


@pytest.mark.usefixtures("home")
def test_pods_have_a_priority_and_come_to_tainted_nodes_that_are_selected(control_plane, project, site_admin):
    api = control_plane.api
    for name, value in (("batch", 1000), ("urgent", 2000)):
        api.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value})
    with attached(control_plane, site_admin, **SETTINGS) as (resource, template):
        first = Node.objects.filter(resource_id=resource.pk).order_by("name")[0].name
        api.patch(f"/api/v1/nodes/{first}", {"metadata": {"labels": {"pool": "train"}}, "spec": {"taints": [TAINT]}})
        second = f"{first}-spot"
        add_node(control_plane, gpu_node(second, pool="train", zone="a"))
        api.patch(f"/api/v1/nodes/{second}", {"spec": {"taints": [SPOT]}})
        shape = Shape(500, 2**30, pod=POD)
        special = templates.create_template(actor=site_admin, resource=resource, name="spot", shape=shape)
        probes.probe_resource(resource=resource)

        plain, chosen = run_to_its_end(project, template, "plain"), run_to_its_end(project, special, "chosen")

        pod = pod_of(api, resource, plain)
        assert (pod["spec"]["nodeName"], pod["spec"]["priority"]) == (first, 1000)
        assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]
        pod = pod_of(api, resource, chosen)
        assert (pod["spec"]["nodeName"], pod["spec"]["priority"]) == (second, 2000)
        assert pod["spec"]["nodeSelector"] == {"pool": "train", "zone": "a"}
        assert (pod["spec"]["tolerations"][0]["key"], pod["spec"]["tolerations"][1]["key"]) == ("gpu", "spot")

        changed = {"agent_image": "nearline:2", "priority_class": "urgent", "image_pull_secrets": "mirror, registry"}
        resources.change_settings(actor=site_admin, resource=resource, fields=changed)
        later = run_to_its_end(project, Template.objects.get(pk=template.pk), "later")
        pod = pod_of(api, resource, later)
        assert [each["image"] for each in pod["spec"]["initContainers"]] == ["nearline:2"]
        assert pod["spec"]["imagePullSecrets"] == [{"name": "mirror"}, {"name": "registry"}]
        assert pod["spec"]["priority"] == 2000

        api.patch(f"/api/v1/nodes/{second}", {"metadata": {"labels": {"zone": None}}})
        probes.probe_resource(resource=resource)
        [waiting] = make.submit(project, special, "waiting")
        cycle.run_once()
        api.delete(f"/api/v1/nodes/{second}")

    assert Workload.objects.get(job=waiting.pk).why == (
        "may run on none of the 2 nodes of lab-k8s; its template asks for nodes with zone=a"
    )
