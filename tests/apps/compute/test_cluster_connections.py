"""Other apps reach an attached cluster by the resource's id, with the credentials that the resource has now."""

import json

import pytest

from compute.adapters import drivers
from compute.models import Resource
from core import clock
from core.kubernetes import connections
from core.kubernetes.connections import ClusterNotAttached
from core.kubernetes.errors import ClusterUnreachable
from tests.ports import reserve_port

pytestmark = pytest.mark.django_db
CONFIG = {"agent_image": "registry.test/nearline:1", "platform_url": "https://nearline.test/", "user_id": 1234}


def kubeconfig(server: str) -> dict[str, str]:
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    return {"kubeconfig": json.dumps(document)}


@pytest.fixture
def attached(home) -> Resource:
    credentials = drivers.encrypt(kubeconfig(f"http://127.0.0.1:{reserve_port()}"))
    return Resource.objects.create(name="dgx", kind="kubernetes", config=CONFIG, credentials=credentials)


def test_a_connection_says_where_objects_go_and_what_all_pods_have(attached):
    connection = connections.open_connection(attached.pk)

    assert (connection.namespace, connection.platform_url) == ("team", "https://nearline.test")
    assert (connection.agent_image, connection.user_id) == ("registry.test/nearline:1", 1234)


def test_a_cluster_is_found_by_its_name_too_until_it_is_detached(attached):
    assert connections.open_connection("dgx").resource == attached.pk

    Resource.objects.update(detached_at=clock.now())
    with pytest.raises(ClusterNotAttached, match=r"^No cluster is attached as 'dgx'"):
        connections.open_connection("dgx")


def test_a_connection_follows_the_credentials_of_its_resource(attached):
    old = connections.open_connection(attached.pk)
    server = f"http://127.0.0.1:{reserve_port()}"
    Resource.objects.filter(pk=attached.pk).update(credentials=drivers.encrypt(kubeconfig(server)))

    new = connections.open_connection(attached.pk)

    assert new.gateway is not old.gateway
    with pytest.raises(ClusterUnreachable, match=server):
        new.gateway.get("/version")


def test_what_is_not_attached_any_more_has_no_connection(attached):
    attached.delete()

    with pytest.raises(
        ClusterNotAttached, match=rf"^No cluster is attached as '{attached.pk}'\. Attached clusters: none\.$"
    ):
        connections.open_connection(attached.pk)


def test_a_resource_that_is_no_cluster_has_no_connection(home):
    machine = Resource.objects.create(name="here", kind="simulated")

    with pytest.raises(ClusterNotAttached, match="here is no cluster: its kind is simulated"):
        connections.open_connection(machine.pk)
