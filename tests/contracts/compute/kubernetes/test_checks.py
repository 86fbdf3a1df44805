"""What is said of a cluster when it is attached, and what it is told to be after that."""

from dataclasses import replace

import pytest

from compute.adapters.kubernetes import checks
from compute.adapters.kubernetes.driver import KubernetesDriver
from compute.adapters.kubernetes.manifests import PodSettings
from compute.engine.ports import ClusterEvent, QuotaFacts
from core.kubernetes.gateway import Listed, Refusal

SETTINGS = PodSettings(namespace="jobs", resource="res_1", platform_url="https://nearline.example", agent_image="a:1")
VERSION = {"gitVersion": "v1.34.4", "major": "1", "minor": "34"}
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class FakeCluster:
    """Answers with these lists; what is not among them it does not know, and `forbidden` nobody may list."""

    def __init__(self, lists=None, version=VERSION, forbidden=()):
        self.lists, self.version, self.forbidden = lists or {}, version, forbidden
        self.reviews = 0

    def get(self, path):
        if path == "/api/v1/namespaces/kube-system":
            if "namespaces" in self.forbidden:
                raise Refusal(403, "Forbidden", "no")
            return {"metadata": {"name": "kube-system", "uid": "u-1"}}
        return self.version if path == "/version" else {}

    def list(self, path, **_):
        name = path.rpartition("/")[2]
        if name in self.forbidden:
            raise Refusal(403, "Forbidden", "no")
        if name not in self.lists:
            raise Refusal(404, "NotFound", "no")
        return Listed(self.lists[name], "1")

    def create(self, path, body, **_):
        if path != REVIEWS:
            return body
        self.reviews += 1
        asked = body["spec"]["resourceAttributes"]
        return {"status": {"allowed": not (asked["verb"] == "list" and asked["resource"] in self.forbidden)}}


def make_node(name="n1", *, labels=None, **allocatable):
    amounts = {key.replace("_", "/"): value for key, value in allocatable.items()}
    return {"metadata": {"name": name, "uid": name, "labels": labels}, "status": {"allocatable": amounts}}


def driver_of(cluster, tmp_path):
    return KubernetesDriver(cluster, SETTINGS, folder=tmp_path, outputs=None, sign_attempt=lambda _: "token")


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        (
            {"gitVersion": "v1.28.9", "major": "1", "minor": "28"},
            "runs Kubernetes v1.28.9; 1.29 is the oldest that works",
        ),
        ({"gitVersion": "v1.9.0", "major": "1", "minor": "9"}, "runs Kubernetes v1.9.0; 1.29 is the oldest that works"),
        ({}, "What answers is no API server of Kubernetes."),
    ],
)
def test_a_server_that_is_too_old_or_none_is_refused_in_words(version, problem):
    [told] = checks.find_problems(FakeCluster(version=version), SETTINGS)

    assert problem in told


@pytest.mark.parametrize("minor", ["29", "34+"])
def test_a_server_that_is_new_enough_is_taken(minor):
    cluster = FakeCluster({"nodes": []}, version={"gitVersion": f"v1.{minor}", "major": "1", "minor": minor})

    assert checks.find_problems(cluster, SETTINGS) == []


def test_gpus_of_another_name_than_is_looked_for_are_named():
    nodes = [make_node("n1"), make_node("n2", **{"amd.com_gpu": "4"}), make_node("n3", **{"gpu.intel.com_gpu": "0"})]

    assert checks.find_problems(FakeCluster({"nodes": nodes}), SETTINGS) == [
        "No node offers nvidia.com/gpu; they offer amd.com/gpu. Give that as the name of the GPUs."
    ]
    assert checks.find_problems(FakeCluster({"nodes": nodes}), replace(SETTINGS, gpu_resource="amd.com/gpu")) == []


CLOSED = (
    "The quota team of the namespace lets pods have no GPU: requests.nvidia.com/gpu is 0. "
    "Raise it, or jobs with GPUs are refused."
)
PRODUCT, MEMORY = {"nvidia.com/gpu.product": "A100"}, {"nvidia.com/gpu.memory": "81920"}


def test_nodes_whose_gpus_have_no_labels_are_named_with_what_to_do():
    gpus = {"nvidia.com_gpu": "8"}
    nodes = [
        make_node("whole", labels=PRODUCT | MEMORY, **gpus),
        make_node("no-memory", labels=PRODUCT, **gpus),
        *(make_node(f"bare-{number}", **gpus) for number in range(5)),
        make_node("no-gpus", **{"nvidia.com_gpu": "0"}),
    ]

    assert checks.find_unlabelled(nodes[:1], "nvidia.com/gpu") == ""
    assert checks.find_unlabelled(nodes[:1], "nvidia.com/gpu.shared") == ""
    assert checks.find_unlabelled(nodes, "nvidia.com/gpu") == (
        "The GPUs of no-memory have no label nvidia.com/gpu.memory. "
        "The GPUs of bare-0, bare-1, bare-2 and 2 more have no label nvidia.com/gpu.product and nvidia.com/gpu.memory. "
        "Jobs cannot ask for their model, or for a part of one by its memory. "
        "Install NVIDIA's GPU feature discovery in the cluster, which sets the labels, or set them yourself."
    )


def test_a_quota_without_gpus_bounds_none_and_one_of_0_is_named():
    quotas = [
        QuotaFacts("team", "requests.cpu", "0", "0"),
        QuotaFacts("team", "requests.nvidia.com/gpu", "0", "0"),
        QuotaFacts("more", "requests.nvidia.com/gpu", "4", "8"),
    ]

    assert list(checks.find_closed_quotas(quotas, "nvidia.com/gpu")) == [CLOSED]


def test_trident_its_version_and_the_quotas_are_told(tmp_path):
    hard = {"requests.nvidia.com/gpu": "0"}
    cluster = FakeCluster(
        {
            "tridentbackends": [],
            "tridentversions": [{"trident_version": "26.06.0"}],
            "storageclasses": [{"metadata": {"name": "fast"}, "provisioner": "csi.trident.netapp.io"}],
            "volumesnapshotclasses": [{"driver": "csi.trident.netapp.io"}],
            "resourcequotas": [{"metadata": {"name": "team"}, "status": {"hard": hard, "used": hard}}],
            "nodes": [make_node(labels=PRODUCT, **{"nvidia.com_gpu": "1"})],
            "pods": [],
        }
    )
    driver = driver_of(cluster, tmp_path)
    driver._cache.list = list  # no pods, and no watch of them
    driver.probe()

    facts = driver.describe()

    assert (facts.version, facts.trident_version, facts.lacks) == ("v1.34.4", "26.06.0", ())
    assert (facts.storage[0].snapshots, facts.storage[0].clones) == ("yes", "yes")
    assert facts.quotas == (QuotaFacts("team", "requests.nvidia.com/gpu", "0", "0"),)
    assert [warning.partition(" of ")[0] for warning in facts.warnings] == ["The GPUs", "The quota team"]
    asked = cluster.reviews
    driver.describe()
    assert cluster.reviews == asked  # an account that may do all is not asked again


def test_the_newest_warnings_of_the_namespace_are_told(tmp_path):
    pulled, mounted = (
        {
            "type": "Warning",
            "metadata": {"creationTimestamp": "2026-03-01T10:00:00Z"},
            "involvedObject": {"kind": "Pod", "name": "job-1"},
            "reason": reason,
            "message": "It failed.",
            **moments,
        }
        for reason, moments in (
            ("FailedPull", {"lastTimestamp": "2026-03-01T11:00:00Z", "count": 3}),
            ("FailedMount", {"eventTime": "2026-03-01T11:30:00.123456Z"}),
        )
    )

    cluster = FakeCluster({"events": [pulled, {**pulled, "type": "Normal"}, {"type": "Warning"}, mounted]})

    assert driver_of(cluster, tmp_path).describe().events == (
        ClusterEvent("2026-03-01T11:30:00+00:00", "Pod job-1", "FailedMount", "It failed."),
        ClusterEvent("2026-03-01T11:00:00+00:00", "Pod job-1", "FailedPull", "It failed.", 3),
    )


def test_an_account_that_may_not_read_events_is_told_the_rest(tmp_path):
    facts = driver_of(FakeCluster(forbidden=["events"]), tmp_path).describe()

    assert (facts.events, facts.version) == ((), "v1.34.4")


def test_a_cluster_without_trident_has_no_version_of_it(tmp_path):
    facts = driver_of(FakeCluster(), tmp_path).describe()

    assert (facts.trident_version, facts.backends, facts.lacks, facts.storage) == ("", (), (), ())


def test_what_the_account_may_not_read_is_said_and_the_rest_is_told(tmp_path):
    cluster = FakeCluster(
        {"tridentbackends": [{"backendName": "svm1"}]}, forbidden=["tridentversions", "resourcequotas"]
    )
    driver = driver_of(cluster, tmp_path)

    facts = driver.describe()

    assert [backend.name for backend in facts.backends] == ["svm1"]
    assert facts.lacks == (
        "The account may not list resourcequotas in the namespace jobs. deploy/rbac/nearline.yaml holds all that is needed.",
        "The account may not list tridentversions in the whole cluster. deploy/rbac/nearline.yaml holds all that is needed.",
    )
    cluster.forbidden = ()
    assert driver.describe().lacks == ()


def test_which_cluster_it_is_is_told_or_that_the_account_may_not_read_it(tmp_path):
    cluster = FakeCluster()
    driver = driver_of(cluster, tmp_path)
    facts = driver.describe()
    cluster.forbidden = ["namespaces"]

    unknown = driver.describe()

    assert (facts.id, facts.namespace, facts.warnings) == ("u-1", "jobs", ())
    assert (unknown.id, unknown.namespace) == ("", "jobs")
    assert unknown.warnings == (
        "New credentials are not compared with the cluster, as the account may not read which one it is: no",
    )


def test_a_claim_for_jobs_that_is_not_there_is_told():
    cluster = FakeCluster({"nodes": []})
    cluster.get = lambda path: VERSION if path == "/version" else None if path.endswith("claims/scans") else {}

    assert checks.find_problems(cluster, replace(SETTINGS, job_claims=("scans:ro", "scratch"))) == [
        "The namespace jobs has no claim called scans, which jobs are to mount."
    ]
