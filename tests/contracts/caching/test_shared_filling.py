"""Several pods of an indexed Job fill a copy in a cluster; another Job alone says that it is complete.

The cluster is a table of objects, whose Jobs end when a test says so. `tests/kubernetes` does it with real pods.
"""

import json

import pytest

from datasets.adapters.sites import registry
from datasets.engine.volumes import claim_name
from datasets.errors import AgentImageTooOld, InvalidCacheSite, VolumeRefused
from datasets.models import CacheSite
from datasets.services import cache_sites
from tests.contracts.cache_site import Lease, new_row, request_of
from tests.factories.clusters import lab
from tests.factories.datasets import commit_files, make_dataset, make_store

CONFIG = {"resource": "lab", "server": "filer.test", "path": "/exports/cache", "size_bytes": 10**12}
FILES = {"a": b"1" * 9000, "b": b"2" * 9000}
MADE = {"root": "r", "files_done": 2, "bytes_done": 18_000, "bytes_shared": 0, "bytes_copied": 0, "bytes_moved": 18_000}


@pytest.fixture
def cluster():
    with lab() as cluster:
        yield cluster


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


def test_an_image_that_cannot_fill_a_share_is_told_at_once_and_one_pod_fills_with_it(cluster, site_admin, commit):
    site = make_site(site_admin, bytes_per_pod=5000)
    row = new_row(site, commit)
    ensure(row)
    rules = cluster.job(claim_name(row.pk))["spec"]["podFailurePolicy"]["rules"]
    assert {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [2, 3]}} in rules
    cluster.misunderstand(claim_name(row.pk))

    with pytest.raises(AgentImageTooOld) as failure:
        ensure(row)

    assert failure.value.message == (
        "The agent image nearline/agent:1 does not know what its pods are told to do: it is too old."
    )
    assert "`nearline cache set SITE --set fill_pods=1`" in failure.value.hint
    cache_sites.update_site(actor=site_admin, site=site, config={"fill_pods": 1})
    row.refresh_from_db()
    ensure(row)
    assert command_of(cluster.job(claim_name(row.pk)))[0] == "fill"


@pytest.mark.parametrize("config", [{"fill_pods": 0}, {"fill_pods": 65}, {"fill_pods": True}, {"bytes_per_pod": "8"}])
def test_a_number_of_pods_that_cannot_be_is_refused(cluster, db, site_admin, config):
    with pytest.raises(InvalidCacheSite, match="is a whole number from 1 to"):
        make_site(site_admin, **config)
