"""Sites in exports of NFS servers: what is asked of an admin, and what pods are told to mount.

No kernel here mounts NFS. All but the manifests is the code of sites on a shared claim, which tests/kubernetes runs
with real pods (`TestPoolSite`).
"""

import pytest

from accounts.permissions import Actor
from core.kubernetes import connections
from core.kubernetes.connections import ClusterConnection, ClusterNotAttached
from datasets.adapters.sites import registry
from datasets.adapters.sites.volume import manifests
from datasets.adapters.sites.volume.manifests import Storage, claim_storage, export_storage
from datasets.engine.cache_ports import Sharing
from datasets.errors import InvalidCacheSite
from datasets.models import CachedCommit, CacheSite
from datasets.services import cache_sites
from tests.contracts.cache_site import FIRST, new_row
from tests.factories.datasets import commit_files, make_dataset, make_store

CONFIG = {"resource": "lab", "server": "filer.test", "path": "/exports/cache", "size_bytes": 10**12}
CONNECTION = ClusterConnection(None, "jobs", "https://nearline.test", "nearline/agent:1", "res_lab")  # type: ignore[arg-type]
EXPORT = export_storage("filer.test", "/exports/cache", "cc_1")


@pytest.fixture(autouse=True)
def cluster():
    def open_lab(resource: str) -> ClusterConnection:
        if resource not in {"lab", "res_lab"}:
            raise ClusterNotAttached(f"No cluster is attached as {resource}.")
        return CONNECTION

    before = connections.install(open_lab)
    yield
    connections.install(before)


def make_site(**config) -> CacheSite:
    return cache_sites.create_site(actor=Actor.system("test"), name="exported", kind="nfs", config=CONFIG | config)


def test_an_export_needs_no_provisioner_and_is_as_large_as_was_said(db):
    site = make_site()

    assert (site.root, site.capacity_bytes, site.cluster) == ("nfs://filer.test/exports/cache", 10**12, "res_lab")
    assert registry.open_site(site).sharing is Sharing.HARD_LINK
    assert registry.open_site(CacheSite(kind="nfs", config=CONFIG | {"hard_links": False})).sharing is Sharing.NONE


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"resource": "other"}, "No cluster is attached as other."),
        ({"server": ""}, "A site of kind nfs needs 'server': the name of an NFS server."),
        ({"server": "a b"}, "'a b' is no name or address of a server."),
        ({"path": "exports"}, "An export is given from the root on and without '..', unlike 'exports'."),
        (
            {"path": "/exports/../etc"},
            "An export is given from the root on and without '..', unlike '/exports/../etc'.",
        ),
        ({"size_bytes": 0}, "A site of kind nfs needs 'size_bytes': how much its copies may take together."),
        ({"storage_class": "gold"}, "A site of kind nfs has no setting 'storage_class'."),
    ],
)
def test_what_cannot_be_used_is_refused_and_nothing_is_kept(db, config, message):
    with pytest.raises(InvalidCacheSite) as refusal:
        make_site(**config)

    assert refusal.value.message == message
    assert not CacheSite.objects.filter(name="exported").exists()


def test_jobs_mount_the_files_of_a_ready_copy_out_of_the_export(member, project, tmp_path):
    make_store(tmp_path / "store")
    row = new_row(make_site(), commit_files(member, make_dataset(member, project, "xrays"), FIRST))
    CachedCommit.objects.filter(pk=row.pk).update(state="ready")

    row = CachedCommit.objects.select_related("site", "commit").get(pk=row.pk)

    assert row.source == {
        "kind": "nfs_export",
        "server": "filer.test",
        "path": "/exports/cache",
        "sub_path": f"{row.pk}/files",
    }


def test_the_pods_that_fill_a_copy_mount_the_export_and_a_donor_read_only():
    owner = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "nl-cc-1-copy", "uid": "u"}}
    job = manifests.build_job(
        "nl-cc-1",
        owner,
        CONNECTION,
        site_id="site_1",
        duty="fill",
        storage=EXPORT,
        options=("--base", "cc_0"),
        donor=export_storage("other.test", "/old", "cc_9"),
    )

    pod = job["spec"]["template"]["spec"]
    assert pod["volumes"] == [
        {"name": "volume", "nfs": {"server": "filer.test", "path": "/exports/cache"}},
        {"name": "token", "secret": {"secretName": "nl-cc-1"}},
        {"name": "donor", "nfs": {"server": "other.test", "path": "/old", "readOnly": True}},
    ]
    assert pod["containers"][0]["volumeMounts"][2] == {
        "name": "donor",
        "mountPath": "/donor",
        "subPath": "cc_9/files",
        "readOnly": True,
    }
    assert pod["containers"][0]["command"] == (
        ["python3", "-m", "nearline.pod.copies", "fill", "/volume", "/donor", "--copy", "cc_1", "--base", "cc_0"]
    )


def pod_with(source: dict, **mount) -> dict:
    containers = [{"name": "main", "volumeMounts": [{"name": "data", "mountPath": "/data", **mount}]}]
    return {"spec": {"containers": containers, "volumes": [{"name": "data", **source}]}}


def nfs(path: str, server: str = "filer.test") -> dict:
    return {"nfs": {"server": server, "path": path}}


CLAIM = {"persistentVolumeClaim": {"claimName": "nl-pool-1"}}


@pytest.mark.parametrize(
    ("storage", "pod", "is_mounted"),
    [
        (EXPORT, pod_with(nfs("/exports/cache"), subPath="cc_1/files"), True),
        (EXPORT, pod_with(nfs("/exports/cache/cc_1/files")), True),
        (EXPORT, pod_with(nfs("/exports/cache"), subPath="cc_10/files"), False),
        (EXPORT, pod_with(nfs("/exports/cache/cc_2")), False),
        (EXPORT, pod_with(nfs("/exports/cache")), True),
        (EXPORT, pod_with(nfs("/exports"), subPath="cache/cc_1"), True),
        (EXPORT, pod_with(nfs("/exports/cached")), False),
        (EXPORT, pod_with(nfs("/exports/cache", "other.test")), False),
        (claim_storage("nl-pool-1", "cc_1"), pod_with(CLAIM, subPath="cc_1/files"), True),
        (claim_storage("nl-pool-1", "cc_1"), pod_with(CLAIM, subPath="cc_2/files"), False),
        (claim_storage("nl-pool-1", "cc_1"), pod_with(CLAIM), True),
        (claim_storage("nl-pool-2", "cc_1"), pod_with(CLAIM), False),
    ],
)
def test_a_pod_uses_a_copy_when_it_mounts_its_folder_or_one_around_it(storage: Storage, pod, is_mounted):
    assert manifests.mounts(pod, storage) is is_mounted
