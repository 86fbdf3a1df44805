"""The driver of clusters against a real control plane and a real kubelet: the contract, and what is special to pods."""

import secrets
from dataclasses import replace

import pytest

from compute.adapters.kubernetes.driver import KubernetesDriver
from compute.adapters.kubernetes.gateway import Gateway
from compute.adapters.kubernetes.kubeconfig import read_kubeconfig
from compute.adapters.kubernetes.manifests import PodSettings, object_name
from compute.engine.mounts import Mount, Tree
from compute.engine.ports import EndCause, Launch, ReportState
from tests.contracts.compute_driver import ComputeDriverContract, Place, make_launch, read_output
from tests.kubernetes.agent_image import AGENT_IMAGE, write_agent_image
from tests.kubernetes.images import USER_IMAGE
from tests.kubernetes.rbac import manifests_for
from tests.kubernetes.stand_in_platform import StandInPlatform

QUICK = "mkdir /output/deep; echo 42 > /output/deep/answer.txt; touch /output/empty; echo one; echo two"


class KubernetesPlace(Place):
    """A namespace of a cluster whose node runs pods."""

    def __init__(self, cluster, namespace, platform, tmp_path) -> None:
        self.cluster, self.namespace, self.platform = cluster, namespace, platform
        self._tmp_path = tmp_path
        # As the account of deploy/rbac, so that what it may do is all that is needed.
        objects = manifests_for(namespace)
        cluster.kubectl("apply", "-f", "-", manifest={"apiVersion": "v1", "kind": "List", "items": objects})
        self._config = read_kubeconfig(cluster.kubeconfig_of("nearline", namespace=namespace))
        self.settings = PodSettings(
            namespace=namespace,
            resource=namespace,
            platform_url=platform.url,
            agent_image=AGENT_IMAGE,
            pull_policy="Never",
            grace_s=30,
        )
        self.restart()

    def make(self, name: str, command: str, **spec) -> Launch:
        launch = make_launch(name, command, **({"image": USER_IMAGE} | spec))
        return replace(launch, node_name=self.cluster.node.name, cpu_millicores=50, memory_bytes=64 * 2**20)

    def start(self, launch: Launch) -> Launch:
        self.driver.start(launch)
        return launch

    def start_quick(self, name: str) -> Launch:
        return self.start(self.make(name, QUICK))

    def start_endless(self, name: str) -> Launch:
        return self.start(self.make(name, "exec sleep 600"))

    def restart(self) -> None:
        """Begin again with nothing of what the last one kept on this host."""
        self.gateway = Gateway(self._config)
        self.driver = KubernetesDriver(
            self.gateway,
            self.settings,
            folder=self._tmp_path / secrets.token_hex(4),
            outputs=self.platform,
            sign_attempt=lambda launch: launch.name,
        )

    def path(self, name: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{object_name(self.settings, name)}"

    def close(self) -> None:
        for pod in self.cluster.api.list(f"/api/v1/namespaces/{self.namespace}/pods"):
            path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}"
            self.gateway.patch(path, {"metadata": {"finalizers": None}})
            self.gateway.delete(path, grace_s=1)


@pytest.fixture(scope="session")
def agents(cluster, tmp_path_factory):
    cluster.node.import_image(write_agent_image(tmp_path_factory.mktemp("image")))
    return cluster


@pytest.fixture
def place(agents, tmp_path):
    namespace = agents.create_namespace(f"jobs-{secrets.token_hex(4)}", enforce="restricted")
    with StandInPlatform(agents.node.address, tmp_path / "outputs").running() as platform:
        place = KubernetesPlace(agents, namespace, platform, tmp_path)
        yield place
        place.close()


class TestKubernetesDriver(ComputeDriverContract):
    pass


def read_log(place, name):
    return place.driver.read_log(name, 0, 100_000).data.decode()


def test_a_job_finds_its_code_its_inputs_its_parameters_and_its_secrets(place, tmp_path):
    for path, text in {
        "code/code/train.sh": "cat /input/prepare/0/data.txt /nearline/parameters.json",
        "in/data.txt": "7\n",
    }.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True)
        file.write_text(text)
    place.platform.trees = {"code/code": tmp_path / "code/code", "input/prepare/0": tmp_path / "in"}
    launch = place.make(
        "reads",
        'sh train.sh; echo; echo "$WORDS $$ $(echo $HOME) $KEY"; id -u; ls -d /scratch',
        code=Mount("code", Tree("ds_1", "r1")),
        inputs=[Mount("prepare/0", Tree("ds_1", "r2"))],
        parameters={"rate": 0.5},
        env={"WORDS": "$(HOME)"},
    )

    place.start(replace(launch, secrets={"KEY": "hunter22"}))
    place.wait_for_end("reads")

    *lines, last = read_log(place, "reads").splitlines()
    assert lines == ["7", '{"rate": 0.5}', "$(HOME) 1 /work ***", "65532"]
    assert "No such file" in last


def test_what_a_job_reads_cannot_be_changed_by_it(place, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/data.txt").write_text("7")
    place.platform.trees = {"input/prepare": tmp_path / "in"}
    inputs = [Mount("prepare", Tree("ds_1", "r2"))]

    place.start(place.make("writes", "echo 8 > /input/prepare/data.txt; cat /input/prepare/data.txt", inputs=inputs))
    place.wait_for_end("writes")

    assert read_log(place, "writes") == "/bin/sh: can't create /input/prepare/data.txt: Read-only file system\n7"


def test_a_job_whose_code_is_not_there_is_not_started_and_says_why(place):
    place.start(place.make("lacks", "true", code=Mount("code", Tree("ds_1", "r1"))))

    report = place.wait_for_end("lacks")

    assert (report.state, report.cause) == (ReportState.FAILED, EndCause.NOT_STARTED)
    assert report.reason == (
        "Its code and inputs could not be brought: The platform refuses (404): There is no such tree."
    )


def test_a_job_whose_output_is_refused_has_not_succeeded(place):
    place.platform.fault = 401

    place.start_quick("quick")
    report = place.wait_for_end("quick")

    assert (report.state, report.cause, report.exit_code) == (ReportState.FAILED, EndCause.OUTPUT_LOST, 0)
    assert report.reason == (
        "The command succeeded, but its output was not stored: The platform refuses (401): The attempt is over."
    )


def test_a_command_that_fails_keeps_its_exit_code_and_its_output(place):
    place.start(place.make("fails", "echo half > /output/model; exit 3"))

    report = place.wait_for_end("fails")

    assert (report.state, report.cause, report.exit_code) == (ReportState.FAILED, EndCause.EXITED, 3)
    assert read_output(place.driver.open_output("fails")) == {"model": b"half\n"}


def test_a_command_that_takes_too_much_memory_is_told_so(place):
    place.start(place.make("large", "tail -c 200m /dev/zero"))

    assert place.wait_for_end("large").cause is EndCause.OUT_OF_MEMORY


def test_a_job_that_runs_longer_than_its_timeout_is_ended(place):
    place.start(place.make("slow", "echo begun; exec sleep 600", timeout_s=1))

    report = place.wait_for_end("slow")

    assert (report.state, report.cause) == (ReportState.FAILED, EndCause.TIMEOUT)
    assert read_log(place, "slow") == "begun\n"


def test_a_job_whose_image_is_not_there_says_so(place):
    place.start(place.make("typo", "true", image="registry.test/typo:1"))

    report = place.wait_for_end("typo")

    assert report.cause is EndCause.IMAGE_UNAVAILABLE
    assert report.reason.startswith("The image registry.test/typo:1 cannot be pulled: ")


def test_a_pod_that_somebody_deletes_is_told_and_does_not_vanish(place):
    place.start_endless("killed")
    place.wait_for("killed", ReportState.RUNNING)

    place.cluster.kubectl("-n", place.namespace, "delete", "pod", "--all", "--wait=false", "--grace-period=1")
    report = place.wait_for_end("killed")

    assert (report.state, report.cause) == (ReportState.FAILED, EndCause.DELETED)


def test_a_deleted_job_leaves_nothing_on_the_cluster(place):
    place.start_quick("quick")
    place.wait_for_end("quick")

    place.driver.forget("quick")
    place.driver.delete("quick")

    core = f"/api/v1/namespaces/{place.namespace}"
    assert place.cluster.api.list(f"{core}/pods") == []
    secrets_left = [item["metadata"]["name"] for item in place.cluster.api.list(f"{core}/secrets")]
    assert [name for name in secrets_left if name.startswith("nl-")] == []


def test_a_job_takes_few_calls_from_its_start_to_its_deletion(place):
    place.driver.list_jobs()
    before = place.gateway.calls

    place.start_quick("quick")
    place.wait_for_end("quick")
    place.driver.read_log("quick", 0, 1000)
    place.driver.forget("quick")
    place.driver.delete("quick")

    # Secret, pod, owner of the Secret; log, Secret to mask; forget; look, finalizer, pod, Secret. And the watch.
    assert place.gateway.calls - before <= 11
