"""Cached commits on claims, with real pods and a stand-in for Trident: the contract, and what is special to clusters."""

import hashlib
import os
import secrets
import time as real_time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from accounts.permissions import Actor
from compute.adapters.kubernetes import shares
from compute.adapters.kubernetes.manifests import PodSettings
from compute.engine.job_spec import Mount, source_from_json
from core import clock
from core.kubernetes import access, connections
from core.kubernetes import provisioners as trident_objects
from core.kubernetes.connections import ClusterConnection
from core.kubernetes.gateway import Gateway
from core.kubernetes.kubeconfig import read_kubeconfig
from datasets.adapters.hydration import hydrate
from datasets.adapters.opening import open_dataset_store, open_manifests
from datasets.adapters.sites import registry
from datasets.adapters.sites.volume.kind import SNAPSHOT_PERMISSIONS
from datasets.engine.cache_states import CacheState
from datasets.engine.volumes import claim_name, pool_claim_name
from datasets.errors import InvalidCacheSite, OtherCommit, SourceOnSite
from datasets.models import CachedCommit, CacheHold, CacheSite
from datasets.selectors.trees import list_entries
from datasets.services import cache_sites, caches, in_place, sources
from datasets.workers import cache_hydration, evictions, scrubs, site_checks
from datasets.workers import in_place as in_place_work
from tests.contracts.cache_site import (
    FIRST,
    NEW_SIZE,
    SECOND,
    SIZE,
    CacheSiteContract,
    Lease,
    bring,
    delete,
    new_row,
    remove,
)
from tests.factories.datasets import commit_files, make_dataset, make_store
from tests.kubernetes.api import ANSWER_S, LIMIT_S
from tests.kubernetes.images import USER_IMAGE
from tests.kubernetes.network import forwarded
from tests.kubernetes.provisioner import SNAPSHOT_CLASS, STORAGE_CLASS
from tests.kubernetes.rbac import grant, manifests_for

SYSTEM = Actor.system("test")
GIB = 2**30
POOL_SIZE = 2 * GIB
"""All pools of a run have to fit on the stand-in for Trident together."""
TRIDENT = "/apis/trident.netapp.io/v1/namespaces/trident"


class Place:
    """A namespace that sites have their claims in. What is opened there finds all Jobs at their end."""

    def __init__(self, cluster, namespace: str, url: str, image: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.api = cluster.api
        self.permit()
        config = read_kubeconfig(cluster.kubeconfig_of("nearline", namespace=namespace))
        self.connection = ClusterConnection(
            Gateway(config, answer_s=ANSWER_S), namespace, platform_url=url, agent_image=image, pull_policy="Never"
        )
        self.waits = True

    def permit(self, without: str = "") -> None:
        """Let the account do all that deploy/rbac says, but for one kind of objects."""
        objects = manifests_for(self.namespace)
        for item in objects:
            if "rules" in item:
                item["rules"] = [rule for rule in item["rules"] if without not in rule["resources"]]
        grant(self.cluster, objects)

    def open(self, resource: str) -> ClusterConnection:
        assert resource == "lab"
        if self.waits:
            self.settle()
        return self.connection

    def settle(self) -> None:
        """Return when every claim is bound and every Job has ended."""
        deadline = real_time.monotonic() + LIMIT_S
        while (
            any(not is_over(job) for job in self.find("jobs"))
            or any(claim["status"]["phase"] == "Pending" for claim in self.find("persistentvolumeclaims"))
            or any("status" not in snapshot for snapshot in self.find("volumesnapshots"))
        ):
            assert real_time.monotonic() < deadline, self.describe()
            real_time.sleep(0.1)

    def describe(self) -> str:
        logs = [
            self.cluster.kubectl("logs", f"--namespace={self.namespace}", pod["metadata"]["name"])
            for pod in self.find("pods")
        ]
        return "\n".join([self.cluster.describe(self.namespace), *logs])

    def find(self, kind: str) -> list[dict]:
        return self.api.list(self.path(kind, "").rstrip("/"))

    def list_tokens(self) -> list[str]:
        names = [secret["metadata"]["name"] for secret in self.find("secrets")]
        return [name for name in names if name.startswith("nl-cc-")]

    def path(self, kind: str, name: str) -> str:
        groups = {"jobs": "/apis/batch/v1", "volumesnapshots": "/apis/snapshot.storage.k8s.io/v1"}
        groups |= {"tridentvolumereferences": "/apis/trident.netapp.io/v1"}
        return f"{groups.get(kind, '/api/v1')}/namespaces/{self.namespace}/{kind}/{name}"

    def folder_of(self, trident, row) -> Path:
        claim = self.api.get(self.path("persistentvolumeclaims", claim_name(row.pk)))
        return trident.folder_of(claim["spec"]["volumeName"]) / "files"


def is_over(job: dict) -> bool:
    return any(item["type"] in {"Complete", "Failed"} for item in job["status"].get("conditions") or [])


@pytest.fixture
def place(cluster, agents, trident, live_server):
    namespace = cluster.create_namespace(f"cache-{secrets.token_hex(4)}", enforce="restricted")
    port = int(live_server.url.rpartition(":")[2])
    with forwarded(cluster.node.address, port) as bridged:
        place = Place(cluster, namespace, f"http://{cluster.node.address}:{bridged}", agents)
        before = connections.install(place.open)
        yield place
        connections.install(before)


def make_site(name: str, **config):
    settings = {"resource": "lab", "storage_class": STORAGE_CLASS, "size_bytes": 20 * GIB, **config}
    return cache_sites.create_site(actor=SYSTEM, name=name, kind="volume", config=settings)


@pytest.fixture
def site(place, settings):
    settings.ALLOWED_HOSTS = ["*"]
    return make_site("near")


@pytest.fixture
def other_site(place):
    return make_site("far")


class TestVolumeSite(CacheSiteContract):
    def test_a_deletion_frees_only_what_no_clone_shares(self, site, commit, dataset, member, time):
        base = new_row(site, commit)
        bring(base, Lease(), time)
        clone = new_row(site, commit_files(member, dataset, SECOND))
        bring(clone, Lease(), time)

        # The array keeps the blocks of a clone in the volume from which it was made.
        wait_until(lambda: remove(base, []).endswith("snapshots or clones of it must go first"))

        assert registry.open_site(site).list() == {clone.pk: clone.location}
        assert delete(clone) == [NEW_SIZE - 9000]
        assert delete(base) == [SIZE]


class TestPoolSite(CacheSiteContract):
    """Exports of NFS servers are filled by the same code; tests/contracts/caching has what pods mount of them."""

    @pytest.fixture
    def site(self, place, settings):
        settings.ALLOWED_HOSTS = ["*"]
        return make_site("near", sharing="pool", size_bytes=POOL_SIZE)


def make_row(site, commit, **columns):
    """Keep the row of a copy that somebody has asked for."""
    row = new_row(site, commit)
    CachedCommit.objects.filter(pk=row.pk).update(state=CacheState.QUEUED, started_at=None, **columns)
    return row


def work(row, times: int = 8) -> CachedCommit:
    """Look after a copy as the periodic task does, until it is ready or has failed."""
    for _ in range(times):
        cache_hydration.hydrate_cached_commit(cached_commit_id=row.pk)
        row.refresh_from_db()
        if row.state in {CacheState.READY, CacheState.FAILED}:
            break
    return row


@pytest.fixture
def dataset(transactional_db, tmp_path, member, project):
    make_store(tmp_path / "store")
    return make_dataset(member, project, "xrays")


@pytest.fixture
def commit(dataset, member):
    return commit_files(member, dataset, FIRST)


def files_in(folder) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_ready_copy_is_a_claim_of_exactly_the_commits_files_that_jobs_mount_read_only(site, place, trident, commit):
    row = work(make_row(site, commit))

    assert (row.state, row.error) == (CacheState.READY, "")
    assert row.source == {"kind": "volume", "claim": claim_name(row.pk), "sub_path": "files"}
    assert files_in(place.folder_of(trident, row)) == FIRST
    claim = place.api.get(place.path("persistentvolumeclaims", claim_name(row.pk)))
    assert claim["spec"]["resources"]["requests"]["storage"] == "1Gi"
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    annotations = claim["metadata"]["annotations"]
    assert annotations["trident.netapp.io/snapshotPolicy"] == "none"
    assert annotations["trident.netapp.io/skipRecoveryQueue"] == "true"
    assert (place.find("jobs"), place.list_tokens()) == ([], [])
    assert (row.files_done, row.bytes_done) == (2, SIZE)


def test_a_second_commit_is_a_clone_of_the_first_and_only_what_differs_is_fetched(site, place, trident, member, commit):
    base = work(make_row(site, commit))
    after = {"a/two": FIRST["a/two"], "b": b"new" * 1000}

    row = work(make_row(site, commit_files(member, commit.dataset, after)))

    assert row.state == CacheState.READY
    assert files_in(place.folder_of(trident, row)) == after
    claim = place.api.get(place.path("persistentvolumeclaims", claim_name(row.pk)))
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": claim_name(base.pk)}
    assert claim["spec"]["dataSource"] == source
    assert claim["spec"]["resources"]["requests"]["storage"] == "1Gi"
    assert (row.bytes_shared, row.bytes_done) == (9000, 12000)
    assert row.bytes_moved < SIZE
    assert files_in(place.folder_of(trident, base)) == FIRST


def test_clones_of_a_commit_are_made_from_one_snapshot_which_goes_with_the_last_of_them(
    site, place, trident, member, commit
):
    base = work(make_row(site, commit))
    clones = [
        work(make_row(site, commit_files(member, commit.dataset, {**FIRST, path: b"new" * 1000}))) for path in FIRST
    ]

    (snapshot,) = place.find("volumesnapshots")
    meta = snapshot["metadata"]
    assert (meta["name"], meta["annotations"]["nearline.dev/copy"]) == (claim_name(base.pk), clones[1].pk)
    assert meta["labels"] == {"app.kubernetes.io/managed-by": "nearline", "nearline.dev/cache-site": site.pk}
    assert snapshot["spec"] == {
        "volumeSnapshotClassName": SNAPSHOT_CLASS, "source": {"persistentVolumeClaimName": claim_name(base.pk)}
    }  # fmt: skip
    sources = [place.api.get(place.path("persistentvolumeclaims", claim_name(row.pk)))["spec"] for row in clones]
    assert [spec["dataSource"]["name"] for spec in sources] == [claim_name(base.pk)] * 2

    evict_until_gone(clones[0])
    assert len(place.find("volumesnapshots")) == 1
    wait_until(lambda: evict(base).waits_for.endswith("snapshots or clones of it must go first"))
    assert base.state == CacheState.EVICTING
    assert files_in(place.folder_of(trident, clones[1]))["a/two"] == b"new" * 1000

    evict_until_gone(clones[1])
    place.api.wait_until_gone(place.path("volumesnapshots", meta["name"]))
    evict_until_gone(base)


def evict_until_gone(row) -> None:
    """Look after a removal as the periodic task does: one call waits for the cluster for some seconds only."""
    wait_until(lambda: evict(row).state == CacheState.GONE)


def evict(row) -> CachedCommit:
    CachedCommit.objects.filter(pk=row.pk).update(state=CacheState.EVICTING)
    evictions.remove_copy(cached_commit_id=row.pk)
    row.refresh_from_db()
    return row


def test_an_eviction_waits_for_pods_of_others_and_ends_when_claim_and_volume_are_gone(site, place, trident, commit):
    row = work(make_row(site, commit))
    volume = place.api.get(place.path("persistentvolumeclaims", claim_name(row.pk)))["spec"]["volumeName"]
    place.api.create(place.path("pods", "").rstrip("/"), reader("foreign", claim_name(row.pk)))
    place.api.wait(place.path("pods", "foreign"), lambda pod: pod["status"].get("phase") == "Running")
    CachedCommit.objects.filter(pk=row.pk).update(state=CacheState.EVICTING)

    evictions.remove_copy(cached_commit_id=row.pk)

    row.refresh_from_db()
    assert row.state == CacheState.EVICTING
    assert row.waits_for == f"the end of the pod foreign, which mounts the claim {claim_name(row.pk)}"
    assert (
        "deletionTimestamp" not in place.api.get(place.path("persistentvolumeclaims", claim_name(row.pk)))["metadata"]
    )

    place.api.delete(place.path("pods", "foreign") + "?gracePeriodSeconds=0")
    place.api.wait_until_gone(place.path("pods", "foreign"))
    evict_until_gone(row)

    assert (row.waits_for, row.reserved_bytes) == ("", 0)
    assert not place.api.exists(f"/api/v1/persistentvolumes/{volume}")
    assert not trident.folder_of(volume).exists()


def open_team(place: Place) -> Place:
    """Another namespace of the cluster, with an account of its own."""
    namespace = place.cluster.create_namespace(f"team-{secrets.token_hex(4)}", enforce="restricted")
    return Place(place.cluster, namespace, place.connection.platform_url, place.connection.agent_image)


def share_with(site: CacheSite, team: Place) -> None:
    """Let the jobs of a team read a site, and do what that enqueues."""
    found = cache_sites.find_share(actor=SYSTEM, site=site, reader=team.connection)
    cache_sites.share_site(actor=SYSTEM, share=found, resource="res_team")
    site_checks.check_sites(site_id=site.pk)


def pods_of(team: Place) -> PodSettings:
    return PodSettings(team.namespace, "res_team", team.connection.platform_url, "agent")


def read_by_share(team: Place, source: dict[str, str], name: str, folder: str = "files") -> str:
    """Mount a copy as a job of a team does; return the claim."""
    mounts = [Mount("xrays", source_from_json(source))]
    shares.have_shares(team.connection.gateway, pods_of(team), mounts, clock.now())
    claim = mounts[0].source.claim
    # A pod that the cluster's scheduler has looked at before may wait until it looks at all pods again, after 5 minutes.
    team.api.wait(team.path("persistentvolumeclaims", claim), lambda each: each["status"].get("phase") == "Bound")
    team.api.create(team.path("pods", "").rstrip("/"), reader(name, claim, folder))
    team.api.wait(team.path("pods", name), lambda pod: pod["status"].get("phase") == "Running")
    return claim


def test_jobs_of_another_namespace_read_a_copy_by_a_claim_that_shares_its_volume(site, place, trident, commit):
    row, team = work(make_row(site, commit)), open_team(place)
    gateway, source = team.connection.gateway, place.path("persistentvolumeclaims", claim_name(row.pk))
    team.permit(without="tridentvolumereferences")
    wait_until(lambda: access.find_missing(gateway, trident_objects.SHARE_PERMISSIONS, team.namespace))
    with pytest.raises(
        InvalidCacheSite, match=f"may not create/delete tridentvolumereferences in the namespace {team.namespace}"
    ):
        share_with(site, team)
    team.permit()
    wait_until(lambda: not access.find_missing(gateway, trident_objects.SHARE_PERMISSIONS, team.namespace))

    share_with(site, team)

    assert place.api.get(source)["metadata"]["annotations"]["trident.netapp.io/shareToNamespace"] == team.namespace
    row.site.refresh_from_db()
    claim = read_by_share(team, row.source, "reads")
    shared, reference = team.path("persistentvolumeclaims", claim), team.path("tridentvolumereferences", claim)
    spec = place.api.get(shared)["spec"]
    assert (spec["accessModes"], spec["storageClassName"]) == (["ReadOnlyMany"], STORAGE_CLASS)
    assert place.api.get(reference)["spec"] == {"pvcName": claim, "pvcNamespace": place.namespace}
    content = place.cluster.kubectl("exec", f"--namespace={team.namespace}", "reads", "--", "sha256sum", "/data/a/one")
    assert content.split()[0] == hashlib.sha256(FIRST["a/one"]).hexdigest()

    # An eviction waits for the pod, then for the claim, which stays for some minutes after its last use if it can.
    name = f"{team.namespace}/{claim}, which shares its volume"
    assert evict(row).waits_for == f"the end of the pod reads, which mounts the claim {name}"
    place.api.delete(team.path("pods", "reads") + "?gracePeriodSeconds=0")
    place.api.wait_until_gone(team.path("pods", "reads"))
    shares.delete_idle(gateway, pods_of(team), clock.now())
    assert evict(row).waits_for == f"the removal of the claim {name}"
    shares.delete_idle(gateway, pods_of(team), clock.now(), leaving={claim})
    place.api.wait_until_gone(f"{TRIDENT}/tridentvolumes/{spec['volumeName']}")
    assert (place.api.exists(shared), place.api.exists(reference)) == (False, False)
    evict_until_gone(row)

    cache_sites.unshare_site(actor=SYSTEM, site=site, resource="res_team")
    row = work(make_row(site, commit))
    row.site.refresh_from_db()
    assert row.source == {"kind": "volume", "claim": claim_name(row.pk), "sub_path": "files"}
    CacheSite.objects.filter(pk=site.pk).update(config={**row.site.config, "provisioner": "nfs.csi.k8s.io"})
    site.refresh_from_db()
    with pytest.raises(
        InvalidCacheSite, match=r"of nfs\.csi\.k8s\.io: only Trident shares volumes with other namespaces"
    ):
        share_with(site, team)


def test_without_the_right_to_take_snapshots_commits_are_fetched_whole_and_the_site_says_so(
    site, place, trident, member, commit
):
    base, gateway = work(make_row(site, commit)), place.connection.gateway
    place.permit(without="volumesnapshots")
    wait_until(lambda: access.find_missing(gateway, SNAPSHOT_PERMISSIONS, place.namespace))

    row = work(make_row(site, commit_files(member, commit.dataset, {**FIRST, "b": b"new" * 1000})))

    assert (row.state, row.error, row.bytes_shared) == (CacheState.READY, "", 0)
    assert "dataSource" not in place.api.get(place.path("persistentvolumeclaims", claim_name(row.pk)))["spec"]
    site_checks.check_sites()
    site.refresh_from_db()
    assert site.warning.startswith(
        "Commits may be fetched whole instead of cloned from a snapshot. The account may not "
        f"get/list/create/patch/delete volumesnapshots in the namespace {place.namespace}."
    )
    for each in (row, base):
        evict_until_gone(each)

    place.permit()
    wait_until(lambda: not access.find_missing(gateway, SNAPSHOT_PERMISSIONS, place.namespace))
    site_checks.check_sites()
    site.refresh_from_db()
    assert site.warning == ""

    # A site that was made before snapshots were kept.
    del site.config["snapshot_class"]
    site.save()
    site_checks.check_sites()
    site.refresh_from_db()
    assert site.config["snapshot_class"] == SNAPSHOT_CLASS


def wait_until(is_so) -> None:
    """Wait for what the cluster does a little later."""
    deadline = real_time.monotonic() + LIMIT_S
    while not is_so():
        assert real_time.monotonic() < deadline
        real_time.sleep(0.05)


def test_in_a_pool_a_commit_is_a_folder_whose_removal_waits_for_the_pods_that_mount_it(
    place, trident, member, commit, settings
):
    settings.ALLOWED_HOSTS = ["*"]
    site = make_site("near", sharing="pool", size_bytes=POOL_SIZE)
    base = work(make_row(site, commit))
    after = {"moved": FIRST["a/two"], "b": b"new" * 1000}
    row = work(make_row(site, commit_files(member, commit.dataset, after)))
    claim = pool_claim_name(site.pk)
    share, team = {"namespace": place.namespace, "storage_class": STORAGE_CLASS}, open_team(place)
    share_with(site, team)
    row.site.refresh_from_db()
    source = row.source
    assert source == {"kind": "volume", "claim": claim, "sub_path": f"{row.pk}/files", **share}
    bound = place.api.get(place.path("persistentvolumeclaims", claim))
    assert bound["spec"]["resources"]["requests"]["storage"] == "2Gi"
    pool = trident.folder_of(bound["spec"]["volumeName"])
    assert (files_in(pool / base.pk / "files"), files_in(pool / row.pk / "files")) == (FIRST, after)
    assert (pool / row.pk / "files/moved").stat().st_nlink == 2
    assert (row.bytes_shared, row.bytes_done, row.reserved_bytes) == (9000, 12_000, 3000)
    assert place.find("jobs") == []
    flip(pool / base.pk / "files/a/two", b"x" * 9000)
    CachedCommit.objects.filter(pk=row.pk).update(scrub_requested_at=clock.now())
    for _ in range(3):
        scrubs.scrub_cached_commit(cached_commit_id=row.pk)
    assert files_in(pool / base.pk / "files") == FIRST
    damaged = [event.facts["files"] for event in base.events.filter(kind="damaged")]
    shown = f"team-a/xrays@{row.commit_id[:8]}"
    assert damaged == [[{"path": "a/two", "kind": "changed", "shared_with": [shown]}]]
    place.api.create(place.path("pods", "").rstrip("/"), reader("foreign", claim, f"{base.pk}/files"))
    place.api.wait(place.path("pods", "foreign"), lambda pod: pod["status"].get("phase") == "Running")
    CachedCommit.objects.filter(site=site).update(state=CacheState.EVICTING)

    evict_until_gone(row)

    assert evict(base).state == CacheState.EVICTING
    assert base.waits_for == f"the end of the pod foreign, which mounts the folder {base.pk}"
    assert (pool / base.pk / "READY").exists()
    read_by_share(team, source, "elsewhere", f"{base.pk}/files")
    for each, name in ((place, "foreign"), (team, "elsewhere")):
        assert evict(base).waits_for == f"the end of the pod {name}, which mounts the folder {base.pk}"
        place.api.delete(each.path("pods", name) + "?gracePeriodSeconds=0")
        place.api.wait_until_gone(each.path("pods", name))
    evict_until_gone(base)
    assert base.waits_for == ""
    assert [path.name for path in pool.rglob("*")] == [".trash"]
    assert (place.find("jobs"), place.list_tokens()) == ([], [])


def test_a_full_backend_fails_the_copy_with_its_words_and_leaves_nothing_behind(site, place, trident, commit):
    place.waits = False
    trident.break_backend("No space left on aggregate aggr1")
    row = make_row(site, commit)
    try:
        deadline = real_time.monotonic() + LIMIT_S
        while row.state != CacheState.FAILED:
            assert real_time.monotonic() < deadline, row.waits_for
            work(row, times=1)
            real_time.sleep(0.2)
    finally:
        trident.break_backend("")

    assert row.error_code == "datasets.volume_refused"
    assert "No space left on aggregate aggr1" in row.error
    place.api.wait_until_gone(place.path("persistentvolumeclaims", claim_name(row.pk)))
    assert (place.find("jobs"), place.list_tokens()) == ([], [])


def test_a_quota_that_refuses_the_claim_is_what_the_copy_waits_for(site, place, commit):
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"persistentvolumeclaims": "0"}}}
    place.api.create(place.path("resourcequotas", "").rstrip("/"), quota)
    place.api.wait(place.path("resourcequotas", "few"), lambda found: found.get("status", {}).get("hard"))

    row = work(make_row(site, commit), times=1)

    assert row.state == CacheState.HYDRATING
    assert "exceeded quota" in row.waits_for
    assert "Raise the ResourceQuota of the namespace" in row.waits_for


def test_an_image_that_cannot_be_pulled_is_what_the_copy_waits_for(site, place, commit):
    place.waits = False
    place.connection = replace(place.connection, agent_image="registry.test/nowhere:1")
    row = make_row(site, commit)

    deadline = real_time.monotonic() + LIMIT_S
    while "cannot be pulled" not in row.waits_for:
        assert real_time.monotonic() < deadline, row.waits_for
        work(row, times=1)
        real_time.sleep(0.2)

    assert row.state == CacheState.HYDRATING
    assert "Check its name and the pull secrets." in row.waits_for


def test_a_damaged_file_is_found_named_and_healed_by_a_job(site, place, trident, commit):
    row = work(make_row(site, commit))
    folder = place.folder_of(trident, row)
    flip(folder / "a/one", b"x" * 9000)
    (folder / "a").chmod(0o755)
    (folder / "a/stray").write_bytes(b"?")
    CachedCommit.objects.filter(pk=row.pk).update(scrub_requested_at=clock.now())

    for _ in range(3):
        scrubs.scrub_cached_commit(cached_commit_id=row.pk)

    row.refresh_from_db()
    assert row.scrub_requested_at is None
    events = list(row.events.order_by("pk").values_list("kind", "facts"))
    damaged = [
        {"path": "a/one", "kind": "changed", "shared_with": []},
        {"path": "a/stray", "kind": "stray", "shared_with": []},
    ]
    assert ("damaged", {"count": 2, "files": damaged}) in events
    assert events[-1][0] == "healed"
    assert files_in(folder) == FIRST
    assert place.find("jobs") == []


def test_claims_of_no_row_are_found_and_removed_and_those_of_others_are_left(site, place, trident, commit):
    row = work(make_row(site, commit))
    foreign = {
        "metadata": {"name": "theirs"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": STORAGE_CLASS,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    place.api.create(place.path("persistentvolumeclaims", "").rstrip("/"), foreign)
    CachedCommit.objects.filter(pk=row.pk).delete()

    def names_after_sweep() -> list[str]:
        evictions.sweep_leftovers()
        return [claim["metadata"]["name"] for claim in place.find("persistentvolumeclaims")]

    wait_until(lambda: names_after_sweep() == ["theirs"])


def test_a_filling_pod_that_is_killed_is_followed_by_one_that_goes_on(site, place, trident, commit):
    place.waits = False
    row = make_row(site, commit)
    deadline = real_time.monotonic() + LIMIT_S
    killed = False
    while row.state != CacheState.READY:
        assert real_time.monotonic() < deadline, place.describe()
        work(row, times=1)
        pods = place.find("pods")
        if pods and not killed:
            place.api.delete(place.path("pods", pods[0]["metadata"]["name"]) + "?gracePeriodSeconds=0")
            killed = True
        real_time.sleep(0.1)

    assert files_in(place.folder_of(trident, row)) == FIRST


def test_several_pods_fill_a_large_commit_one_of_which_is_killed(place, settings, trident, dataset, member):
    settings.ALLOWED_HOSTS = ["*"]
    place.waits = False
    files: dict[str, bytes] = {}
    for number in range(4):  # so that it is in four packs
        files[f"{number}/one"] = os.urandom(2**20)
        commit = commit_files(member, dataset, files)
    row = make_row(make_site("near", fill_pods=3, bytes_per_pod=2**20), commit)
    deadline = real_time.monotonic() + LIMIT_S
    killed, jobs = "", set()
    while row.state != CacheState.READY:
        assert real_time.monotonic() < deadline, place.describe()
        work(row, times=1)
        assert row.state != CacheState.FAILED, row.error
        jobs |= {(job["metadata"]["name"], job["spec"].get("completions", 1)) for job in place.find("jobs")}
        pods = [pod for pod in place.find("pods") if pod["status"]["phase"] in {"Pending", "Running"}]
        if pods and not killed:
            killed = pods[0]["metadata"]["name"]
            place.api.delete(place.path("pods", killed) + "?gracePeriodSeconds=0")
        real_time.sleep(0.1)

    name = claim_name(row.pk)
    assert jobs == {(name, 3), (f"{name}-seal", 1)}
    assert killed.startswith(f"{name}-")
    assert files_in(place.folder_of(trident, row)) == files
    assert sorted(path.name for path in place.folder_of(trident, row).parent.iterdir()) == ["READY", "files"]
    assert (row.files_done, row.bytes_done) == (4, 2**22)
    assert (place.find("jobs"), place.list_tokens()) == ([], [])


@contextmanager
def cordoned(cluster) -> Iterator[None]:
    """Let no pod come to the node meanwhile."""
    cluster.kubectl("cordon", cluster.node.name)
    try:
        yield
    finally:
        cluster.kubectl("uncordon", cluster.node.name)


def test_the_pods_of_what_may_be_read_next_stop_for_what_is_needed_now_and_others_go_on(
    place, settings, trident, dataset, member
):
    settings.ALLOWED_HOSTS = ["*"]
    place.waits = False
    files = {"one": os.urandom(2**22), "two": os.urandom(2**22)}
    site = make_site("near", fill_pods=2, bytes_per_pod=2**22)
    ahead = make_row(site, commit_files(member, dataset, files), is_for_holders=True)
    CacheHold.objects.create(cached_commit=ahead, holder="next", why="a step", is_ahead=True)
    with cordoned(place.cluster):  # or its pods could end before they are stopped
        wait_until(lambda: work(ahead, times=1) and place.find("pods"))
        needed = make_row(site, commit_files(member, make_dataset(member, dataset.project, "urgent"), FIRST))
        wait_until(lambda: work(needed, times=1) and work(ahead, times=1).state == CacheState.QUEUED)
        assert claim_name(ahead.pk) not in {job["metadata"]["name"] for job in place.find("jobs")}
    wait_until(lambda: work(ahead, times=1) and work(needed, times=1).state == CacheState.READY)
    assert (ahead.state, ahead.waits_for) == (CacheState.QUEUED, "the copies that are needed on near now")
    assert len(place.find("persistentvolumeclaims")) == 2
    wait_until(lambda: work(ahead, times=1).state == CacheState.READY)

    assert files_in(place.folder_of(trident, ahead)) == files
    assert sorted(path.name for path in place.folder_of(trident, ahead).parent.iterdir()) == ["READY", "files"]
    assert (place.find("jobs"), place.list_tokens()) == ([], [])


def test_where_one_volume_is_the_most_the_next_is_made_once_the_last_is_gone(place, site, trident, commit, member):
    cache_sites.update_site(actor=SYSTEM, site=site, config={"max_volumes": 1})
    first = work(make_row(site, commit))
    other = commit_files(member, make_dataset(member, commit.dataset.project, "other"), SECOND)

    second = work(caches.request_cache(actor=SYSTEM, commit=other, site=site), times=1)

    assert (second.state, second.waits_for) == (CacheState.QUEUED, "a volume that is being deleted")
    assert [claim["metadata"]["name"] for claim in place.find("persistentvolumeclaims")] == [claim_name(first.pk)]
    evict_until_gone(first)
    assert work(second).state == CacheState.READY
    assert [claim["metadata"]["name"] for claim in place.find("persistentvolumeclaims")] == [claim_name(second.pk)]


def test_a_class_that_does_not_exist_is_refused_with_those_that_do(place, settings):
    with pytest.raises(InvalidCacheSite, match=f"no storage class 'gold'. It has: .*{STORAGE_CLASS}"):
        make_site("near", storage_class="gold")


def flip(path: Path, content: bytes) -> None:
    """Change what a file holds, and let it look as if nobody had."""
    status = path.stat()
    path.chmod(0o644)
    path.write_bytes(content)
    os.utime(path, ns=(status.st_mtime_ns, status.st_mtime_ns))
    path.chmod(0o444)


def reader(name: str, claim: str, folder: str = "files") -> dict:
    """A pod of somebody else that mounts a claim."""
    container = {
        "name": "main",
        "image": USER_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sleep", "600"],
        "volumeMounts": [{"name": "data", "mountPath": "/data", "subPath": folder}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}
    security = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    return {
        "metadata": {"name": name},
        "spec": {"containers": [container], "volumes": [volume], "restartPolicy": "Never", "securityContext": security},
    }


@pytest.fixture
def existing(place, trident, settings):
    """The folder `2024` of a claim of somebody else."""
    settings.ALLOWED_HOSTS = ["*"]
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "scans"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": STORAGE_CLASS,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    place.api.create(f"/api/v1/namespaces/{place.namespace}/persistentvolumeclaims", claim)
    path = place.path("persistentvolumeclaims", "scans")
    bound = place.api.wait(path, lambda found: found["status"]["phase"] == "Bound") or place.api.get(path)
    folder = trident.folder_of(bound["spec"]["volumeName"]) / "2024"
    for name, content in FIRST.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    for path in (folder, *folder.rglob("*")):  # pods run as another user
        path.chmod(0o755)
    return folder


def take_in(commit_id, **config):
    settings = {"resource": "lab", "claim": "scans", "folder": "2024", "commit": commit_id, **config}
    return cache_sites.create_site(actor=SYSTEM, name="scans", kind="existing", config=settings)


def test_files_that_are_the_commit_are_its_copy_until_somebody_changes_them(place, existing, commit, dataset, member):
    site = take_in(commit.pk)

    row = work(make_row(site, commit))

    assert (row.state, row.error, row.bytes_moved) == (CacheState.READY, "", 0)
    assert row.source == {"kind": "volume", "claim": "scans", "sub_path": "2024"}
    other = commit_files(member, dataset, {"other": b"x"})
    with pytest.raises(OtherCommit, match=rf"which are the commit {commit.pk}\.$"):
        caches.request_cache(actor=SYSTEM, commit=other, site=site)

    (existing / min(FIRST)).write_bytes(b"changed")
    CachedCommit.objects.filter(pk=row.pk).update(scrub_requested_at=row.created_at)
    for _ in range(2):
        scrubs.scrub_cached_commit(cached_commit_id=row.pk)
    row.refresh_from_db()
    assert row.state == CacheState.EVICTING
    assert f"{min(FIRST)} (changed)" in row.error

    evict_until_gone(row)
    assert files_in(existing) == {**FIRST, min(FIRST): b"changed"}
    assert [item["metadata"]["name"] for item in place.find("persistentvolumeclaims")] == ["scans"]
    assert (place.find("jobs"), place.list_tokens()) == ([], [])


def test_files_that_are_another_commit_are_no_copy_and_are_named(existing, commit):
    (existing / "stray").write_bytes(b"")

    row = work(make_row(take_in(commit.pk), commit))

    assert (row.state, row.error_code) == (CacheState.FAILED, "datasets.copy_differs")
    assert row.error == "1 file is not as the commit says: stray (stray)."
    assert files_in(existing) == {**FIRST, "stray": b""}


def list_of_imports(place) -> list[str]:
    names = [secret["metadata"]["name"] for secret in place.find("secrets")]
    return [name for name in names if name.startswith("nl-imp-")]


def test_files_become_a_commit_that_their_claim_is_a_copy_of_and_are_promoted(
    place, existing, dataset, member, tmp_path
):
    site = take_in("")
    folder_site = cache_sites.create_site(actor=SYSTEM, name="here", root=tmp_path / "here", capacity_bytes=10**9)
    sources.set_source(actor=SYSTEM, name="scans", location="site://scans", projects=[dataset.project])
    place.waits = False
    cancelled = in_place.request_import(actor=member, dataset=dataset, source="scans", prefix="")
    in_place_work.work_on(cancelled.pk)
    assert len(place.find("jobs")) == 1
    in_place.cancel(actor=member, row=cancelled)
    in_place_work.work_on(cancelled.pk)
    cancelled.refresh_from_db()
    assert (cancelled.state, cancelled.commit) == ("cancelled", None)
    assert (place.find("jobs"), list_of_imports(place)) == ([], [])
    wait_until(lambda: not place.find("pods"))
    import_row = in_place.request_import(actor=member, dataset=dataset, source="scans", prefix="")
    in_place_work.work_on(import_row.pk)
    place.settle()
    in_place_work.work_on(import_row.pk)

    import_row.refresh_from_db()
    size = sum(map(len, FIRST.values()))
    assert (import_row.state, import_row.error) == ("referenced", "")
    assert (import_row.files, import_row.read_bytes, import_row.size_bytes) == (len(FIRST), size, size)
    row = work(CachedCommit.objects.get(commit=import_row.commit))
    assert (row.site.name, row.state, row.bytes_moved) == ("scans", CacheState.READY, 0)
    assert row.source == {"kind": "volume", "claim": "scans", "sub_path": "2024"}
    assert (place.find("jobs"), list_of_imports(place)) == ([], [])
    assert list(open_manifests(dataset).list_blobs("packs/")) == []
    with pytest.raises(SourceOnSite, match=r"lie only on scans: promote them first"):
        caches.request_cache(actor=SYSTEM, commit=import_row.commit, site=folder_site)

    # A scrub has a pod compare the claim with the commit that was made of it.
    CachedCommit.objects.filter(pk=row.pk).update(scrub_requested_at=row.created_at)
    for _ in range(2):
        scrubs.scrub_cached_commit(cached_commit_id=row.pk)
        place.settle()
    row.refresh_from_db()
    assert (row.state, row.error) == (CacheState.READY, "")

    in_place.promote(actor=member, row=import_row)
    in_place_work.work_on(import_row.pk)
    place.settle()
    in_place_work.work_on(import_row.pk)
    import_row.refresh_from_db()
    assert (import_row.state, import_row.error) == ("promoted", "")
    assert (place.find("jobs"), list_of_imports(place)) == ([], [])
    import_row.commit.dataset = dataset
    hydrate(open_dataset_store(dataset), list_entries(import_row.commit), tmp_path / "clone")
    assert files_in(tmp_path / "clone") == files_in(existing) == FIRST
    assert site.config["commit"] == ""
    site.refresh_from_db()
    assert site.config["commit"] == import_row.commit_id


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"claim": "none"}, "has no claim 'none'. It has: scans."),
        ({"commit_id": "none"}, "There is no commit 'none' that the files could be."),
        ({"server": "filer", "path": "/x"}, "on a claim of the namespace, or on an NFS server: name one of them."),
        ({"folder": "../x"}, "A folder is given without '/' or '.' before it, unlike '../x'."),
    ],
)
def test_what_cannot_be_taken_in_is_refused_in_words(existing, commit, config, words):
    with pytest.raises(InvalidCacheSite) as refusal:
        take_in(**{"commit_id": commit.pk, **config})

    assert words in refusal.value.message
