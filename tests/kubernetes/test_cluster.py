"""Pods on a real node: they run, write, read and are refused as on any cluster."""

import secrets
import socket
from pathlib import Path

import httpx
import pytest

from tests.kubernetes import manifests
from tests.kubernetes.api import LIMIT_S
from tests.kubernetes.conftest import running_cluster
from tests.kubernetes.images import USER_IMAGE
from tests.kubernetes.provisioner import STORAGE_CLASS


def test_a_job_runs_completes_and_its_log_is_read(cluster, namespace):
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    cluster.api.create(jobs, manifests.job(manifests.pod(manifests.container("echo", "2 + 2 = 4"))))

    finished = cluster.api.wait(f"{jobs}/main", manifests.end_of)

    assert manifests.end_of(finished) == "Complete", cluster.describe(namespace)
    assert cluster.kubectl("logs", "job/main", f"--namespace={namespace}") == "2 + 2 = 4\n"


def test_a_program_that_fails_tells_its_exit_code(cluster, namespace):
    pods = f"/api/v1/namespaces/{namespace}/pods"
    cluster.api.create(pods, manifests.pod(manifests.container("sh", "-c", "exit 42")))

    ended = cluster.api.wait(f"{pods}/main", manifests.has_ended)

    assert ended["status"]["phase"] == "Failed"
    assert manifests.terminated(ended)["exitCode"] == 42


def test_a_program_that_takes_more_memory_than_its_limit_is_killed(cluster, namespace):
    pods = f"/api/v1/namespaces/{namespace}/pods"
    limits = {"limits": {"memory": "32Mi"}}
    greedy = manifests.container("sh", "-c", "dd if=/dev/zero of=/dev/null bs=256M count=1", resources=limits)
    cluster.api.create(pods, manifests.pod(greedy))

    ended = cluster.api.wait(f"{pods}/main", manifests.has_ended)

    assert (manifests.terminated(ended)["reason"], manifests.terminated(ended)["exitCode"]) == ("OOMKilled", 137)


def test_a_command_runs_in_a_running_pod(cluster, namespace):
    pods = f"/api/v1/namespaces/{namespace}/pods"
    cluster.api.create(pods, manifests.pod(manifests.container("sleep", "600")))
    cluster.api.wait(f"{pods}/main", lambda pod: pod["status"]["phase"] == "Running")

    assert cluster.kubectl("exec", "main", f"--namespace={namespace}", "--", "id", "-u") == "10001\n"


def test_a_claim_is_bound_written_by_one_pod_and_read_by_another_that_cannot_write(cluster, namespace, trident):
    pods = f"/api/v1/namespaces/{namespace}/pods"
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    cluster.api.create(claims, manifests.claim("data", STORAGE_CLASS))
    bound = cluster.api.wait(f"{claims}/data", manifests.is_bound)
    volume, write = manifests.mount("data", "/data")
    writer = manifests.container("sh", "-c", "echo digits > /data/name", volumeMounts=[write])
    cluster.api.create(pods, manifests.pod(writer, name="writer", volumes=[volume]))
    assert cluster.api.wait(f"{pods}/writer", manifests.has_ended)["status"]["phase"] == "Succeeded"
    volume, read = manifests.mount("data", "/data", read_only=True)
    reader = manifests.container("sh", "-c", "cat /data/name; touch /data/other 2>&1", volumeMounts=[read])

    cluster.api.create(pods, manifests.pod(reader, name="reader", volumes=[volume]))

    assert cluster.api.wait(f"{pods}/reader", manifests.has_ended)["status"]["phase"] == "Failed"
    log = cluster.kubectl("logs", "reader", f"--namespace={namespace}")
    assert log == "digits\ntouch: /data/other: Read-only file system\n"
    folder = trident.folder_of(bound["spec"]["volumeName"])
    assert [path.name for path in folder.iterdir()] == ["name"]


def test_a_pod_reaches_a_program_of_this_machine_at_the_address_of_its_node(cluster, namespace):
    pods = f"/api/v1/namespaces/{namespace}/pods"
    with socket.create_server((cluster.node.address, 0)) as server:
        port = str(server.getsockname()[1])
        asking = manifests.container("sh", "-c", f"echo hello | nc {cluster.node.address} {port}")
        cluster.api.create(pods, manifests.pod(asking))
        server.settimeout(LIMIT_S)
        connection, _ = server.accept()
        with connection:
            assert connection.makefile().readline() == "hello\n"


def test_a_restricted_namespace_refuses_a_pod_that_runs_as_root(cluster):
    name = cluster.create_namespace(f"test-{secrets.token_hex(4)}", enforce="restricted")
    as_root = {"name": "main", "image": USER_IMAGE}

    with pytest.raises(httpx.HTTPStatusError) as refused:
        cluster.api.create(f"/api/v1/namespaces/{name}/pods", manifests.pod(as_root))

    assert refused.value.response.status_code == 403
    assert "runAsNonRoot != true" in refused.value.response.json()["message"]
    assert cluster.api.list(f"/api/v1/namespaces/{name}/pods") == []


def test_a_second_cluster_runs_beside_the_first_and_leaves_nothing(cluster):
    with running_cluster() as second:
        pods = f"/api/v1/namespaces/{second.namespace}/pods"
        second.api.create(pods, manifests.pod(manifests.container("true")))

        assert second.api.wait(f"{pods}/main", manifests.has_ended)["status"]["phase"] == "Succeeded"
        assert second.node.address != cluster.node.address
        assert cluster.api.list(f"/api/v1/namespaces/{cluster.namespace}/pods") == []
        cgroup = f"nearline-{second.folder.name}"
    assert not second.folder.exists()
    assert not list(Path("/sys/fs/cgroup").glob(f"*/{cgroup}"))
