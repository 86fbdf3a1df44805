"""What an admin sees of a cluster's storage."""

import pytest

from compute.adapters.kubernetes.storage import read_backends, read_classes
from compute.engine.ports import BackendFacts, StorageFacts

NAS, SAN = BackendFacts("nas", "ontap-nas-flexgroup", "online"), BackendFacts("san", "ontap-san", "online")


def make_class(provisioner, *, annotations=None, **parameters):
    return {"metadata": {"name": "c", "annotations": annotations}, "provisioner": provisioner, "parameters": parameters}


@pytest.mark.parametrize(
    ("item", "backends", "access"),
    [
        (make_class("nfs.csi.k8s.io"), [], "many nodes"),
        (make_class("rook-ceph.cephfs.csi.ceph.com"), [], "many nodes"),
        (make_class("rook-ceph.rbd.csi.ceph.com"), [], "one node"),
        (make_class("rancher.io/local-path"), [], "one node"),
        (make_class("example.com/unheard-of"), [], "unknown"),
        (make_class("csi.trident.netapp.io", backendType="ontap-nas"), [], "many nodes"),
        (make_class("csi.trident.netapp.io", backendType="ontap-san"), [NAS], "one node"),
        (make_class("csi.trident.netapp.io"), [NAS], "many nodes"),
        (make_class("csi.trident.netapp.io"), [NAS, SAN], "unknown"),
        (make_class("csi.trident.netapp.io"), [], "unknown"),
    ],
)
def test_who_can_mount_a_volume_of_a_class(item, backends, access):
    assert read_classes([item], backends)[0].access == access


def test_the_default_class_is_told():
    default = make_class("nfs.csi.k8s.io", annotations={"storageclass.kubernetes.io/is-default-class": "true"})

    assert read_classes([default], []) == (
        StorageFacts("c", "nfs.csi.k8s.io", "many nodes", is_default=True, snapshots="unknown", clones="yes"),
    )


@pytest.mark.parametrize(
    ("snapshot_classes", "told"),
    [(None, "unknown"), ([], "no"), ([{"driver": "x"}], "no"), ([{"driver": "nfs.csi.k8s.io"}], "yes")],
)
def test_whether_there_are_snapshots_of_a_class(snapshot_classes, told):
    assert read_classes([make_class("nfs.csi.k8s.io")], [], snapshot_classes)[0].snapshots == told


@pytest.mark.parametrize(
    ("provisioner", "told"),
    [
        ("csi.trident.netapp.io", "yes"),
        ("rook-ceph.cephfs.csi.ceph.com", "yes"),
        ("efs.csi.aws.com", "no"),
        ("rancher.io/local-path", "no"),
        ("csi.example.com", "unknown"),
    ],
)
def test_whether_claims_of_a_class_can_be_cloned(provisioner, told):
    assert read_classes([make_class(provisioner)], [])[0].clones == told


def test_a_backend_of_trident_is_told_with_its_driver_and_why_it_is_not_well():
    item = {
        "backendName": "svm1",
        "state": "offline",
        "stateReason": "SVM is not reachable",
        "userState": "suspended",
        "config": {"ontap_config": {"storageDriverName": "ontap-nas", "svm": "svm1"}},
    }

    assert read_backends([item]) == (BackendFacts("svm1", "ontap-nas", "offline, suspended", "SVM is not reachable"),)
