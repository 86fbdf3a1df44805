"""What a cluster refuses of one pod, and what that means for all others."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from compute.adapters.kubernetes import fields
from compute.adapters.kubernetes.driver import KubernetesDriver
from compute.adapters.kubernetes.manifests import NAME, TIMEOUT, PodSettings, object_name
from compute.engine.ports import ReportState
from compute.errors import ChangeRefused
from core.kubernetes.gateway import Refusal

SETTINGS = PodSettings(namespace="jobs", resource="res_1", platform_url="https://nearline.example", agent_image="a:1")
STARTED = datetime(2026, 11, 21, 12, tzinfo=UTC)
RULE = "admission webhook denied the request: an image of a foreign registry"


def make_pod(name: str) -> dict:
    """Return a pod that runs for longer than its timeout."""
    running = {"name": "main", "state": {"running": {"startedAt": STARTED.isoformat()}}}
    meta = {
        "name": object_name(SETTINGS, name),
        "uid": name,
        "creationTimestamp": STARTED.isoformat(),
        "labels": {},
        "annotations": {NAME: name, TIMEOUT: "60"},
    }
    spec = {"nodeName": "n1", "containers": [{"name": "main", "resources": {}}]}
    status = {"phase": "Running", "containerStatuses": [running]}
    return fields.trim({"metadata": meta, "spec": spec, "status": status}, fields.OURS)


class Cluster(SimpleNamespace):
    """A cluster with running pods, which lets one of them be changed by nobody."""

    def __init__(self, sealed: str) -> None:
        super().__init__(time=SimpleNamespace(now=lambda: STARTED + timedelta(hours=1)), deleted=[])
        self.pods = [make_pod("first"), make_pod("second"), make_pod("third")]
        self.sealed = object_name(SETTINGS, sealed)

    def _change(self, path: str) -> None:
        if path.endswith(self.sealed):
            raise Refusal(403, "Forbidden", RULE)

    def patch(self, path: str, *_: object, **__: object) -> dict:
        self._change(path)
        return next(pod for pod in self.pods if path.endswith(pod["metadata"]["name"]))

    def delete(self, path: str, **_: object) -> bool:
        self._change(path)
        self.deleted.append(path.rpartition("/")[2])
        return True


@pytest.fixture
def cluster():
    return Cluster(sealed="second")


@pytest.fixture
def driver(cluster, tmp_path, monkeypatch):
    driver = KubernetesDriver(cluster, SETTINGS, folder=tmp_path, outputs=None, sign_attempt=lambda _: "token")
    names = {pod["metadata"]["name"]: pod for pod in cluster.pods}
    kept = SimpleNamespace(list=lambda: cluster.pods, find=names.get, put=lambda _: None, drop=lambda _: None)
    monkeypatch.setattr(driver, "_cache", kept)
    monkeypatch.setattr(driver, "_follow_log", lambda *_: None)
    return driver


def test_a_pod_that_cannot_be_ended_says_so_and_all_others_end(cluster, driver):
    reports = driver.list_jobs()

    assert cluster.deleted == [object_name(SETTINGS, "first"), object_name(SETTINGS, "third")]
    assert [(report.name, report.state, report.reason) for report in reports] == [
        ("first", ReportState.RUNNING, ""),
        ("second", ReportState.RUNNING, f"It has to end, but cannot be ended. The cluster refuses: {RULE}"),
        ("third", ReportState.RUNNING, ""),
    ]


@pytest.mark.parametrize("change", [lambda driver: driver.stop("second", 1), lambda driver: driver.forget("second")])
def test_a_change_that_is_refused_says_nothing_of_the_cluster(driver, change):
    with pytest.raises(ChangeRefused, match="an image of a foreign registry"):
        change(driver)
