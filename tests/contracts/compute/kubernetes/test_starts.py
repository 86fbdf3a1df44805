"""In which order a launch asks a cluster for its objects."""

from dataclasses import replace
from types import SimpleNamespace

from compute.adapters.kubernetes.driver import KubernetesDriver
from compute.adapters.kubernetes.manifests import PodSettings
from compute.adapters.kubernetes.states import rank_of
from compute.engine.ports import Replica
from tests.contracts.compute_driver import make_launch

SETTINGS = PodSettings(namespace="jobs", resource="res_1", platform_url="https://nearline.example", agent_image="a:1")


def test_the_first_replica_for_which_all_others_wait_is_made_last(tmp_path):
    made = []

    def create(path, manifest):
        made.append(manifest)
        return {**manifest, "metadata": {**manifest["metadata"], "uid": "u"}}

    driver = KubernetesDriver(
        SimpleNamespace(create=create), SETTINGS, folder=tmp_path, outputs=None, sign_attempt=lambda _: "token"
    )
    launch = make_launch("train", image="lab/train:1")
    driver.start(replace(launch, peers=(Replica("node-2"), Replica("node-3"))))

    assert [each["kind"] for each in made] == ["Secret", "Service", "Pod", "Pod", "Pod"]
    assert [rank_of(each) for each in made if each["kind"] == "Pod"] == [2, 1, 0]
