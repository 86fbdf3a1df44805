"""What an admin sets for all pods of a cluster holds on a real API server."""

from dataclasses import replace

import pytest

from scheduler.models import Node
from tests.kubernetes.attached import attached, run_to_its_end

pytestmark = pytest.mark.django_db(transaction=True)

TAINT = {"key": "gpu", "value": "only", "effect": "NoSchedule"}
SETTINGS = {
    "priority_class": "batch",
    "node_selector": {"pool": "train"},
    "tolerations": [TAINT],
    "image_pull_secrets": ["registry"],
}


@pytest.fixture
def home(settings, tmp_path):
    settings.NEARLINE = replace(settings.NEARLINE, home=tmp_path)


@pytest.mark.usefixtures("home")
def test_pods_have_a_priority_and_come_to_tainted_nodes_that_are_selected(control_plane, project, site_admin):
    api = control_plane.api
    api.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "batch"}, "value": 1000})
    with attached(control_plane, site_admin, **SETTINGS) as (resource, template):
        node = Node.objects.filter(resource_id=resource.pk).order_by("name")[0].name
        changes = {"metadata": {"labels": {"pool": "train"}}, "spec": {"taints": [TAINT]}}
        api.patch(f"/api/v1/nodes/{node}", changes)

        job = run_to_its_end(project, template, "tolerates")

        pods = f"/api/v1/namespaces/{resource.config['namespace']}/pods"
        (pod,) = api.list(pods, labelSelector=f"nearline.dev/job={job.pk}")
        assert (pod["spec"]["nodeName"], pod["spec"]["priority"]) == (node, 1000)
        assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]
