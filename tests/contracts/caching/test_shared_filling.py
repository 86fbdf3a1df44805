"""Several pods of an indexed Job fill a copy in a cluster; another Job alone says that it is complete.

The cluster is a table of objects, whose Jobs end when a test says so. `tests/kubernetes` does it with real pods.
"""

import json
import posixpath

import pytest

from core.kubernetes import connections
from core.kubernetes.connections import ClusterConnection
from core.kubernetes.gateway import Listed
from datasets.adapters.sites import registry
from datasets.engine.volumes import claim_name
from datasets.errors import InvalidCacheSite, VolumeRefused
from datasets.models import CacheSite
from datasets.services import cache_sites
from tests.contracts.cache_site import Lease, new_row, request_of
from tests.factories.datasets import commit_files, make_dataset, make_store

CONFIG = {"resource": "lab", "server": "filer.test", "path": "/exports/cache", "size_bytes": 10**12}
FILES = {"a": b"1" * 9000, "b": b"2" * 9000}
MADE = {"root": "r", "files_done": 2, "bytes_done": 18_000, "bytes_shared": 0, "bytes_copied": 0, "bytes_moved": 18_000}


class Cluster:
    """A cluster that keeps objects and runs nothing."""

    def __init__(self) -> None:
        self.objects: dict[str, dict] = {}
        self.made: list[str] = []

    def get(self, path, **_query):
        return self.objects.get(path)

    def create(self, path, body, **_query):
        name = body["metadata"]["name"]
        if f"{path}/{name}" in self.objects:
            return None
        self.objects[f"{path}/{name}"] = {**body, "metadata": {"uid": f"u-{name}", **body["metadata"]}}
        self.made.append(name)
        return self.objects[f"{path}/{name}"]

    def delete(self, path, **_options):
        return self.objects.pop(path, None) is not None

    def list(self, path, *, labelSelector="", **_query):  # noqa: N803 (the name of the cluster's own parameter)
        key, _, value = labelSelector.partition("=")
        items = [item for where, item in self.objects.items() if posixpath.dirname(where) == path]
        return Listed([item for item in items if not key or item["metadata"].get("labels", {}).get(key) == value], "")

    def job(self, name):
        return self.objects.get(f"/apis/batch/v1/namespaces/jobs/jobs/{name}")

    def end(self, name, *, messages, kind="Complete", phase="Succeeded"):
        """Let the pods of a Job end with these messages."""
        self.job(name)["status"] = {"conditions": [{"type": kind, "status": "True"}]}
        for number, message in enumerate(messages):
            state = {"terminated": {"finishedAt": f"2026-11-21T12:00:0{number}Z", "message": json.dumps(message)}}
            self.objects[f"/api/v1/namespaces/jobs/pods/{name}-{number}"] = {
                "metadata": {"name": f"{name}-{number}", "labels": {"batch.kubernetes.io/job-name": name}},
                "status": {"phase": phase, "containerStatuses": [{"name": "copy", "state": state}]},
            }


@pytest.fixture
def cluster():
    cluster = Cluster()
    connection = ClusterConnection(cluster, "jobs", "https://nearline.test", "nearline/agent:1", "res_lab")
    before = connections.install(lambda _resource: connection)
    yield cluster
    connections.install(before)


def make_site(actor, **config) -> CacheSite:
    return cache_sites.create_site(actor=actor, name="near", kind="nfs", config=CONFIG | config)


@pytest.fixture
def commit(db, tmp_path, member, project):
    make_store(tmp_path / "store")
    return commit_files(member, make_dataset(member, project, "xrays"), FILES)


def ensure(row):
    return registry.open_site(row.site).ensure(request_of(row), Lease())


def command_of(job) -> list[str]:
    return job["spec"]["template"]["spec"]["containers"][0]["command"][3:]


def test_a_large_commit_is_filled_by_an_indexed_job_and_completed_by_one_pod_after_all_have_ended(
    cluster, site_admin, commit
):
    row = new_row(make_site(site_admin, bytes_per_pod=5000, fill_pods=3), commit)
    name = claim_name(row.pk)

    assert not ensure(row).is_ready
    job = cluster.job(name)
    spec = job["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 3, 3)
    assert command_of(job) == ["share", "/volume", "--copy", row.pk, "--shares", "3"]
    (spread,) = spec["template"]["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"] == {"matchLabels": {"batch.kubernetes.io/job-name": name}}

    assert not ensure(row).is_ready
    assert cluster.job(f"{name}-seal") is None

    cluster.end(name, messages=[MADE] * 3)
    assert not ensure(row).is_ready
    seal = cluster.job(f"{name}-seal")
    assert "completions" not in seal["spec"]
    assert command_of(seal) == ["fill", "/volume", "--copy", row.pk, "--shares", "3"]
    assert seal["metadata"]["labels"] == job["metadata"]["labels"]
    assert seal["metadata"]["ownerReferences"] == job["metadata"]["ownerReferences"]
    assert registry.open_site(row.site).list() == {row.pk: ""}

    cluster.end(f"{name}-seal", messages=[MADE])
    assert ensure(row).is_ready
    assert registry.open_site(row.site).list() == {row.pk: row.location}
    assert (cluster.job(name), cluster.job(f"{name}-seal")) == (None, None)
    assert [path for path in cluster.objects if path.endswith((f"/secrets/{name}", "-seal"))] == []


@pytest.mark.parametrize(
    ("config", "pods"),
    [
        ({}, 1),
        ({"bytes_per_pod": 18_000}, 1),
        ({"bytes_per_pod": 17_999}, 2),
        ({"bytes_per_pod": 1}, 4),
        ({"bytes_per_pod": 1, "fill_pods": 1}, 1),
    ],
)
def test_bytes_say_how_many_pods_there_are_up_to_the_sites_limit(cluster, site_admin, commit, config, pods):
    row = new_row(make_site(site_admin, **config), commit)

    ensure(row)

    job = cluster.job(claim_name(row.pk))
    assert job["spec"].get("completions", 1) == pods
    assert command_of(job)[0] == ("share" if pods > 1 else "fill")


def test_a_job_of_one_pod_that_is_there_goes_on_and_completes_the_copy_alone(cluster, site_admin, commit):
    site = make_site(site_admin)
    row = new_row(site, commit)
    ensure(row)
    site.config |= {"bytes_per_pod": 1}
    site.save()
    row.refresh_from_db()
    name = claim_name(row.pk)

    assert not ensure(row).is_ready
    cluster.end(name, messages=[MADE])

    assert ensure(row).is_ready
    assert f"{name}-seal" not in cluster.made


def test_a_share_that_fails_for_good_is_told_in_its_own_words(cluster, site_admin, commit):
    row = new_row(make_site(site_admin, bytes_per_pod=5000), commit)
    ensure(row)
    name = claim_name(row.pk)
    error = {"error": "'x' cannot be written: Read-only file system.", "errno": 30}
    cluster.end(name, messages=[error], kind="Failed", phase="Failed")
    cluster.objects["/api/v1/namespaces/jobs/pods/late"] = {
        **cluster.objects[f"/api/v1/namespaces/jobs/pods/{name}-0"],
        "status": {
            "phase": "Succeeded",
            "containerStatuses": [
                {"name": "copy", "state": {"terminated": {"finishedAt": "2027", "message": json.dumps(MADE)}}}
            ],
        },
    }

    with pytest.raises(VolumeRefused, match="Read-only file system"):
        ensure(row)

    assert cluster.job(name) is None
    assert registry.open_site(row.site).list() == {row.pk: ""}


@pytest.mark.parametrize("config", [{"fill_pods": 0}, {"fill_pods": 65}, {"fill_pods": True}, {"bytes_per_pod": "8"}])
def test_a_number_of_pods_that_cannot_be_is_refused(cluster, db, site_admin, config):
    with pytest.raises(InvalidCacheSite, match="is a whole number from 1 to"):
        make_site(site_admin, **config)
