"""The page of one resource: who holds what, from where it is known and since when, and what detaching it loses."""

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from accounts.models import User
from compute.engine.ports import BackendFacts, ClusterFacts, ForeignUse, GpuFacts, NodeFacts, QuotaFacts, StorageFacts
from compute.errors import ResourceUnreachable
from compute.models import Resource, ResourceSite
from compute.services import node_reports
from compute.workers import probes
from core import clock
from datasets.engine.cache_states import CacheState
from datasets.models import CachedCommit, CacheSite
from scheduler.models import Eviction, Node
from tests.factories import compute as make
from tests.factories.api import call
from tests.factories.browsers import browser_of
from tests.factories.datasets import commit_files, make_dataset, make_store
from tests.markup import flat

pytestmark = pytest.mark.django_db

REPORTED_AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
GIB = 2**30
NODE = NodeFacts(
    "node-1",
    3000,
    8 * GIB,
    gpus=tuple(GpuFacts(index, f"u-{index}", "NVIDIA-A100", 80 * GIB) for index in range(3)),
    labels={"pool": "train", "kubernetes.io/os": "linux"},
    foreign=ForeignUse(1000, 2 * GIB, 1, ("kube-system/triton",)),
)


@pytest.fixture
def cluster(resource):
    with clock.frozen_at(REPORTED_AT):
        node_reports.write(resource, [NODE])
        node_reports.write_facts(
            resource,
            ClusterFacts(
                "v1.34.4",
                (
                    StorageFacts(
                        "fast", "csi.trident.netapp.io", "many nodes", is_default=True, snapshots="no", clones="yes"
                    ),
                ),
                (BackendFacts("svm1", "ontap-nas", "offline", "SVM is not reachable"),),
                trident_version="26.06.0",
                quotas=(QuotaFacts("team", "requests.nvidia.com/gpu", "2", "4"),),
                warnings=("The GPUs of node-1 have no label nvidia.com/gpu.memory.",),
            ),
        )
    return resource


def page_of(actor):
    client = browser_of(actor)
    with clock.frozen_at(REPORTED_AT.replace(minute=5)):
        return flat(client.get("/compute/scripted/").content.decode())


def test_what_is_free_ours_and_foreign_is_told_with_source_and_age(cluster, project, template, site_admin):
    [job] = make.submit(project, make.make_template(cluster, "gpu", gpu_milli=1000), "train")
    make.place([job], gpus=[[0, 1000]])

    page = page_of(site_admin)

    assert '<td>NVIDIA-A100<span class="sub">80 GiB each</span></td>' in page
    assert '<td class="num nowrap">2 / 1 / 1</td>' in page
    assert '<span class="tag">pool train</span>' in page
    assert "linux" not in page
    assert "kube-system/triton" in page
    [told] = call(site_admin, "GET", "/compute/resources").body["items"]
    assert list(told["foreign_gpus"].values()) == [1]
    assert 'reported by the resource<time datetime="2026-03-01T12:00:00+00:00"' in page


def test_storage_classes_and_backends_are_shown_as_the_cluster_reported_them(cluster, site_admin):
    Resource.objects.update(is_simulated=False)

    page = page_of(site_admin)

    assert "v1.34.4" in page
    assert '<td class="mono">csi.trident.netapp.io</td><td>many nodes</td><td>no</td><td>yes</td>' in page
    assert "SVM is not reachable" in page
    assert "Trident 26.06.0" in page
    assert '<td class="mono">requests.nvidia.com/gpu</td><td class="num nowrap">2 / 4</td>' in page
    assert '<div class="note">The GPUs of node-1 have no label nvidia.com/gpu.memory.</div>' in page
    [told] = call(site_admin, "GET", "/compute/resources").body["items"]
    assert told["cluster"]["trident_version"] == "26.06.0"
    assert told["cluster"]["storage"][0]["clones"] == "yes"
    assert told["cluster"]["quotas"] == [
        {"quota": "team", "resource": "requests.nvidia.com/gpu", "used": "2", "hard": "4"}
    ]
    assert told["warnings"] == ["The GPUs of node-1 have no label nvidia.com/gpu.memory."]


def test_what_an_earlier_version_wrote_down_of_a_cluster_is_shown(cluster, site_admin):
    old = {"name": "fast", "provisioner": "nfs.csi.k8s.io", "access": "many nodes", "is_default": False}
    cluster.facts["cluster"] = {"version": "v1.33.1", "storage": [old], "backends": [], "unreadable": ""}
    cluster.is_simulated = False
    cluster.save()

    assert '<td class="mono">nfs.csi.k8s.io</td><td>many nodes</td><td>unknown</td><td>unknown</td>' in page_of(
        site_admin
    )
    [told] = call(site_admin, "GET", "/compute/resources").body["items"]
    assert (told["cluster"]["version"], told["cluster"]["trident_version"], told["warnings"]) == ("v1.33.1", "", [])


def test_how_the_storage_class_fared_when_it_was_tried_is_told_step_by_step(cluster, site_admin):
    steps = [{"name": "bound", "seconds": 1.2}, {"name": "deleted", "seconds": 3.0}]
    cluster.facts["storage_probe"] = {"storage_class": "fast", "at": "2026-03-01T12:00:00Z", "steps": steps}
    cluster.save()

    page = page_of(site_admin)

    assert (
        "fast was tried when the cluster was attached: a claim of 1 GiB was bound in 1.2 s, deleted in 3.0 s." in page
    )


def test_a_class_whose_claims_cannot_be_cloned_is_told_with_the_reason(cluster, site_admin):
    steps = [{"name": "bound", "seconds": 1.2}, {"name": "cloned", "seconds": 9.0, "refusal": "No licence."}]
    cluster.facts["storage_probe"] = {"storage_class": "fast", "at": "2026-03-01T12:00:00Z", "steps": steps}
    cluster.save()

    page = page_of(site_admin)

    assert "bound in 1.2 s, not cloned." in page
    assert "Its claims cannot be cloned: No licence." in page


def test_the_pods_of_others_are_named_to_site_admins_only(cluster, member):
    page = page_of(member)

    assert "kube-system/triton" not in page
    assert "Detach" not in page


def test_detaching_says_first_what_is_lost(cluster, project, template, site_admin):
    make.submit(project, template, "train")

    page = page_of(site_admin)

    assert "0 jobs run and 1 waits on<b>scripted</b>: as long as there are any, detaching is refused." in page
    assert "Its 1 template: scripted.small." in page


def test_a_whole_resource_is_drained_and_opened_again(cluster, site_admin):
    node_reports.write(cluster, [NODE, replace(NODE, name="node-2")])
    client = browser_of(site_admin)

    client.post("/compute/scripted/drain/", {"drained": "1"})
    assert set(Node.objects.values_list("is_drained", flat=True)) == {True}

    client.post("/compute/scripted/drain/", {"drained": "0"})
    assert set(Node.objects.values_list("is_drained", flat=True)) == {False}


def test_a_node_that_cannot_be_is_left_out_and_named_on_the_page(resource, site_admin, client):
    with clock.frozen_at(REPORTED_AT):
        node_reports.write(resource, [NODE, replace(NODE, name="node-2", gpus=NODE.gpus * 1000)])
    client.force_login(User.objects.get(pk=site_admin.user_id))

    page = flat(client.get(f"/compute/{resource.name}/").content.decode())

    assert "The node node-2 is left out: it has more than 1,000 GPUs." in page
    assert list(Node.objects.values_list("name", flat=True)) == ["node-1"]


def test_what_happened_to_it_is_listed_with_the_newest_first(cluster, site_admin, member):
    with clock.frozen_at(REPORTED_AT.replace(minute=1)):
        browser_of(site_admin).post("/compute/scripted/drain/", {"drained": "1"})
    with clock.frozen_at(REPORTED_AT.replace(minute=2)):
        probes.note_unreachable(resource=cluster, error=ResourceUnreachable("No route to host."))
        probes.note_unreachable(resource=cluster, error=ResourceUnreachable("Connection refused."))
    with clock.frozen_at(REPORTED_AT.replace(minute=3)):
        node_reports.write(cluster, [NODE])

    events = call(site_admin, "GET", "/compute/resources/scripted/events").body["items"]
    seen = call(member, "GET", "/compute/resources/scripted/events").body["items"]

    assert [(event["text"], event["is_warning"], event["by"]) for event in events[:3]] == [
        ("answers again", False, ""),
        ("does not answer: No route to host.", True, ""),
        ("the node node-1 takes no new jobs", False, site_admin.name),
    ]
    assert {event["by"] for event in seen} == {""}
    assert '<td class="why">answers again</td><td class="sub nowrap">platform</td>' in page_of(member)


def test_an_eviction_is_told_to_those_who_may_see_its_job(cluster, project, make_actor, site_admin):
    [job] = make.submit(project, make.make_template(cluster, "gpu", gpu_milli=1000), "train")
    Eviction.objects.create(
        workload_id=job.workload_id,
        project=project,
        cycle="c-1",
        code="stale",
        at=REPORTED_AT,
        placed_at=REPORTED_AT,
        saved_at=REPORTED_AT,
        gpu_milli=1000,
        lost_gpu_s=0.0,
        is_moved=False,
        victim_share={"queue_id": "q-1", "quota": 0, "fair": 0, "before": 1000, "after": 0},
    )

    [event] = call(site_admin, "GET", "/compute/resources/scripted/events").body["items"]

    assert (event["source"], event["job"]) == ("scheduler", job.name)
    assert call(make_actor(None), "GET", "/compute/resources/scripted/events").body["items"] == []


def test_what_a_cluster_warns_of_is_for_site_admins(cluster, site_admin, member):
    event = {"at": "2026-03-01T11:30:00+00:00", "about": "Pod job-1", "reason": "BackOff", "text": "Slow.", "count": 3}
    cluster.facts["cluster"]["events"] = [event]
    cluster.save()

    assert "Pod job-1: BackOff: Slow. (3 times)" in page_of(site_admin)
    assert "BackOff" not in page_of(member)


def test_a_commit_that_is_being_cached_shows_how_far_it_is(cluster, home, member, project, site_admin):
    make_store(home / "store")
    commit = commit_files(member, make_dataset(member, project, "xrays"), {"a": b"one"})
    site = CacheSite.objects.create(name="near", kind="simulated", capacity_bytes=10**9)
    ResourceSite.objects.create(resource=cluster, site="near", position=0)
    CachedCommit.objects.create(
        site=site,
        dataset=commit.dataset,
        commit=commit,
        state=CacheState.HYDRATING,
        files_total=9,
        files_done=3,
        bytes_total=2**20,
        reserved_bytes=2**20,
        bytes_done=2**19,
    )

    page = page_of(site_admin)

    assert re.search(r'<td class="num nowrap">\s*3 of\s*9\s*</td>', page)
    assert "no forecast yet" in page
