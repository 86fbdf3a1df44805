"""The driver of clusters against a real control plane and a real kubelet: the contract, and what is special to pods."""

from dataclasses import replace

import pytest

from compute.engine.job_spec import Mount, Tree
from compute.engine.ports import EndCause, ReportState
from compute.errors import JobNotRunning
from tests.contracts.compute_driver import (
    ComputeDriverContract,
    GpuContract,
    PortContract,
    TerminalContract,
    read_output,
)
from tests.kubernetes.agent_image import write_agent_image
from tests.kubernetes.place import open_place


@pytest.fixture(scope="session")
def agents(cluster, tmp_path_factory):
    cluster.node.import_image(write_agent_image(tmp_path_factory.mktemp("image")))
    return cluster


@pytest.fixture
def place(agents, tmp_path):
    with open_place(agents, tmp_path) as place:
        yield place


class TestGpusOfPods(GpuContract):
    @pytest.fixture(autouse=True)
    def devices(self, cluster):
        with cluster.node.gpus("GPU-7"):
            yield


class TestKubernetesDriver(PortContract, TerminalContract, ComputeDriverContract):
    pass


def test_a_job_finds_its_code_inputs_parameters_and_secrets_and_shared_memory_as_large_as_its_memory(place, tmp_path):
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
        'sh train.sh; echo; echo "$WORDS $$ $(echo $HOME) $KEY"; id -u; df -k /dev/shm | awk "END {print \\$2}"; '
        "ls -d /scratch 2>&1",
        code=Mount("code", Tree("ds_1", "r1")),
        inputs=[Mount("prepare/0", Tree("ds_1", "r2"))],
        parameters={"rate": 0.5},
        env={"WORDS": "$(HOME)"},
    )

    place.start(replace(launch, secrets={"KEY": "hunter22"}))
    place.wait_for_end("reads")

    *lines, last = place.read_log("reads").splitlines()
    assert lines == ["7", '{"rate": 0.5}', "$(HOME) 1 /work ***", "65532", "65536"]
    assert "No such file" in last


def test_what_a_job_reads_cannot_be_changed_by_it(place, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/data.txt").write_text("7")
    place.platform.trees = {"input/prepare": tmp_path / "in"}
    inputs = [Mount("prepare", Tree("ds_1", "r2"))]

    command = "exec 2>&1; echo 8 > /input/prepare/data.txt; cat /input/prepare/data.txt"  # two pipes have no order
    place.start(place.make("writes", command, inputs=inputs))
    place.wait_for_end("writes")

    assert place.read_log("writes") == "/bin/sh: can't create /input/prepare/data.txt: Read-only file system\n7"


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
    assert place.read_whole_log("slow") == "begun\n"


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

    place.wait_until_gone("quick")
    core = f"/api/v1/namespaces/{place.namespace}"
    assert place.cluster.api.list(f"{core}/pods") == []
    secrets_left = [item["metadata"]["name"] for item in place.cluster.api.list(f"{core}/secrets")]
    assert [name for name in secrets_left if name.startswith("nl-")] == []


def test_a_job_takes_five_calls_from_its_start_to_its_deletion(place):
    place.driver.list_jobs()
    before = place.gateway.questions

    place.start(replace(place.make("quick", "echo $KEY"), secrets={"KEY": "hunter22"}))
    place.wait_for_end("quick")
    place.driver.forget("quick")
    assert place.read_log("quick") == "***\n"
    place.driver.forget("quick")  # as who deletes it does
    place.driver.delete("quick")

    # Secret, pod; forget; log; Secret.
    assert place.gateway.questions - before == 5


def test_a_command_runs_beside_that_of_the_job_and_its_output_and_exit_code_come_back(place):
    place.start(place.make("serves", "echo 42 > answer; exec sleep 600"))
    place.wait_for("serves", ReportState.RUNNING)

    def run(command, stdin=b""):
        pieces = list(place.driver.run_command("serves", 0, ["sh", "-c", command], stdin))
        printed = [b"".join(piece.data for piece in pieces if piece.is_error is each) for each in (False, True)]
        return (*printed, pieces[-1].exit_code)

    assert run("cat answer; id -u; echo no >&2; exit 3") == (b"42\n65532\n", b"no\n", 3)
    assert run("wc -c", stdin=bytes(200_000)) == (b"200000\n", b"", 0)
    *_, last = place.driver.run_command("serves", 0, ["/no/such"], b"")
    assert (last.is_error, last.exit_code != 0) == (True, True)

    place.driver.stop("serves", 1)
    place.wait_for_end("serves")
    with pytest.raises(JobNotRunning):
        place.driver.run_command("serves", 0, ["true"], b"")


def test_an_idle_cluster_is_asked_a_few_times_a_minute(place):
    """As in one minute: every second what there is, and twice what the nodes have."""
    before = place.gateway.calls

    for second in range(60):
        place.driver.list_jobs()
        if second % 30 == 0:
            place.driver.probe()

    # The list and the watch of our pods; nodes and pods of others, twice.
    assert place.gateway.calls - before == 6
