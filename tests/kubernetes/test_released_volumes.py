"""A cached commit leaves a cluster although jobs that have ended read it: their pods go before their hour is over."""

from dataclasses import replace
from datetime import timedelta

import pytest

from compute.engine.job_spec import Mount, Volume
from compute.models import Job
from compute.workers import cleaning
from core import clock
from datasets.engine.cache_states import CacheState
from datasets.engine.volumes import claim_name
from datasets.models import CachedCommit, CacheSite
from tests.factories.datasets import commit_files, make_dataset, make_store
from tests.kubernetes.attached import attached, run_to_its_end

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def copy(settings, tmp_path, member, project):
    """A commit on a volume of a cluster."""
    settings.NEARLINE = replace(settings.NEARLINE, home=tmp_path)
    make_store(tmp_path / "store")
    commit = commit_files(member, make_dataset(member, project, "xrays"), {"a": b"one"})
    site = CacheSite.objects.create(name="volumes", kind="volume", root="volume://volumes", capacity_bytes=10**9)
    return CachedCommit.objects.create(
        site=site,
        dataset=commit.dataset,
        commit=commit,
        state=CacheState.READY,
        location="xrays",
        files_total=1,
        bytes_total=3,
        reserved_bytes=3,
        requested_by="member",
    )


def bind(control_plane, namespace: str, name: str) -> str:
    """Make a claim with a volume of its own, and return its path."""
    size = {"storage": "1Gi"}
    modes = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {"capacity": size, "nfs": {"server": "nfs.test", "path": "/"}, **modes}
    control_plane.api.create("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": volume})
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    claim = {"volumeName": name, "resources": {"requests": size}, **modes}
    control_plane.api.create(claims, {"metadata": {"name": name}, "spec": claim})
    control_plane.api.wait(f"{claims}/{name}", lambda found: found.get("status", {}).get("phase") == "Bound")
    return f"{claims}/{name}"


def runs_of(control_plane, namespace: str) -> set[str]:
    pods = control_plane.api.list(f"/api/v1/namespaces/{namespace}/pods")
    return {pod["metadata"]["annotations"]["nearline.dev/name"] for pod in pods}


def test_a_claim_goes_once_the_pods_of_the_ended_jobs_that_read_it_are_deleted(
    control_plane, copy, project, site_admin
):
    claim = claim_name(copy.pk)
    with attached(control_plane, site_admin) as (resource, template):
        namespace = resource.config["namespace"]
        path = bind(control_plane, namespace, claim)
        reads = {"data": (Mount("xrays", Volume(claim, "files")),)}
        for name, spec in (("other", {}), ("reader", reads), ("unread", reads)):
            run_to_its_end(project, template, name, **spec)
        Job.objects.exclude(name="unread").update(log_stored_at=clock.now())
        assert cleaning.release_volumes() == 0

        CachedCommit.objects.update(state=CacheState.EVICTING)
        control_plane.api.delete(path)
        assert cleaning.release_volumes() == 1

        # The log of one is not stored yet.
        kept = set(Job.objects.filter(files_deleted_at=None).values_list("name", flat=True))
        assert kept == {"other", "unread"}
        assert control_plane.api.exists(path)
        Job.objects.update(log_stored_at=clock.now())
        assert cleaning.release_volumes() == 1

        control_plane.api.wait_until_gone(path)
        assert runs_of(control_plane, namespace) == {"other"}
        assert cleaning.delete_old_files(keep=timedelta(hours=1)) == 0
