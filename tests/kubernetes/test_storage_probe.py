"""A storage class is tried before commits are cached on it: what does not work is said, and nothing is left."""

import secrets
from dataclasses import replace

import pytest

from core.kubernetes.connections import ClusterConnection
from core.kubernetes.gateway import Gateway
from core.kubernetes.kubeconfig import read_kubeconfig
from datasets.adapters.sites.volume.probe import StorageProbe
from datasets.errors import StorageUnfit
from tests.kubernetes.agent_image import AGENT_IMAGE
from tests.kubernetes.api import ANSWER_S, LIMIT_S
from tests.kubernetes.provisioner import STORAGE_CLASS
from tests.kubernetes.rbac import grant, manifests_for

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"


@pytest.fixture
def connection(cluster, agents, trident) -> ClusterConnection:
    """A namespace of the cluster, with the account of deploy/rbac."""
    namespace = cluster.create_namespace(f"jobs-{secrets.token_hex(4)}", enforce="restricted")
    grant(cluster, manifests_for(namespace))
    config = read_kubeconfig(cluster.kubeconfig_of("nearline", namespace=namespace))
    gateway = Gateway(config, answer_s=ANSWER_S)
    return ClusterConnection(gateway, namespace, "http://nearline.test", AGENT_IMAGE, pull_policy="Never")


def class_of(connection, name=STORAGE_CLASS):
    return connection.gateway.get(f"{CLASSES}/{name}")


def left(cluster, connection):
    """The paths of what there is of a probe: Jobs, claims and volumes."""
    jobs = f"/apis/batch/v1/namespaces/{connection.namespace}/jobs"
    claims = f"/api/v1/namespaces/{connection.namespace}/persistentvolumeclaims"
    volumes = "/api/v1/persistentvolumes"
    return [
        f"{path}/{item['metadata']['name']}"
        for path in (jobs, claims, volumes)
        for item in cluster.api.list(path)
        if path != volumes or item["spec"]["claimRef"]["namespace"] == connection.namespace
    ]


def wait_until_nothing_is_left(cluster, connection):
    while paths := left(cluster, connection):
        for path in paths:
            cluster.api.wait_until_gone(path)


def test_a_class_that_works_is_bound_written_cloned_read_and_deleted(cluster, connection):
    steps = StorageProbe(connection, class_of(connection), limit_s=LIMIT_S).run()

    assert [step.name for step in steps] == ["bound", "written", "cloned", "read", "deleted"]
    assert left(cluster, connection) == []


class CloneRefused(StorageProbe):
    """A trial in which the backend takes no clone."""

    def refuse_with(self, trident):
        self._trident = trident
        return self

    def _create_claim(self, name, owner, source=""):
        if source:
            self._trident.break_backend("clones are not licensed")
        super()._create_claim(name, owner, source)


def test_a_class_whose_claims_cannot_be_cloned_is_fit_and_says_why(cluster, connection, trident):
    try:
        steps = CloneRefused(connection, class_of(connection), limit_s=LIMIT_S).refuse_with(trident).run()
        wait_until_nothing_is_left(cluster, connection)
    finally:
        trident.break_backend("")

    assert [step.name for step in steps] == ["bound", "written", "cloned", "read", "deleted"]
    assert [bool(step.refusal) for step in steps] == [False, False, True, False, False]
    assert "clones are not licensed" in steps[2].refusal


def test_a_class_that_is_known_to_clone_nothing_is_not_asked_for_it(connection):
    storage_class = class_of(connection) | {"provisioner": "rancher.io/local-path"}

    steps = StorageProbe(connection, storage_class, limit_s=LIMIT_S).run()

    assert [step.name for step in steps] == ["bound", "written", "read", "deleted"]


def test_a_backend_that_makes_no_volumes_is_told_in_its_own_words(cluster, connection, trident):
    trident.break_backend("aggregate is offline")
    try:
        with pytest.raises(
            StorageUnfit, match=r"trident-nas made no volume for a claim of 1 GiB: .*aggregate is offline"
        ):
            StorageProbe(connection, class_of(connection), limit_s=LIMIT_S).run()
        # While the backend makes none: else a volume may come for the claim after that is gone.
        wait_until_nothing_is_left(cluster, connection)
        assert left(cluster, connection) == []
    finally:
        trident.break_backend("")


def test_an_image_that_cannot_come_ends_the_probe_at_once(cluster, connection):
    probe = StorageProbe(replace(connection, agent_image="registry.test/none:1"), class_of(connection), limit_s=LIMIT_S)

    with pytest.raises(StorageUnfit, match=r"was not written to. Its pod waits for the image of Nearline"):
        probe.run()


def test_the_cluster_deletes_what_a_killed_probe_has_left(cluster, connection):
    probe = StorageProbe(connection, class_of(connection), limit_s=5)

    probe.begin()

    assert len(left(cluster, connection)) >= 2
    wait_until_nothing_is_left(cluster, connection)
    assert left(cluster, connection) == []
