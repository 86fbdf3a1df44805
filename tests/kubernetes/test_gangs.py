"""Gangs as real pods: replicas find each other by host name, and start and end together."""

from dataclasses import replace

import pytest

from compute.adapters.kubernetes.nodes import parse_quantity
from compute.engine.placing import Launcher, Placing
from compute.engine.ports import EndCause, Replica, ReplicaReport, ReportState
from compute.engine.reconcile import explain_end
from compute.engine.states import ReasonCode
from tests.contracts.compute_driver import read_output
from tests.kubernetes.attached_product import attached_product
from tests.kubernetes.network import cluster_names
from tests.kubernetes.place import open_place

# Each replica tells its rank to who asks, and asks all by the names of the hostfile. Then it tells that it has.
MEET = """
mkdir /tmp/www; echo "rank $RANK" > /tmp/www/rank; httpd -p 8000 -h /tmp/www
for host in $(cut -d ' ' -f 1 $NEARLINE_HOSTFILE); do
  until wget -q -O - http://$host:8000/rank 2> /dev/null; do sleep 0.2; done
done > /tmp/ranks
echo $NODE_RANK of $WORLD_SIZE met $(cat /tmp/ranks) at ${MASTER_ADDR%%.*}
echo yes > /tmp/www/met
"""
WAIT = "trap 'exit 143' TERM; sleep 600 & wait"
MET = """
for host in $(cut -d ' ' -f 1 $NEARLINE_HOSTFILE); do
  until wget -q -O /dev/null http://$host:8000/met 2> /dev/null; do sleep 0.2; done
done
"""
# Replica 0 ends, and with it all, once each has met the others.
LEAD = f'if [ "$RANK" != 0 ]; then {WAIT}; fi; {MET}cp /tmp/ranks $NEARLINE_OUTPUT/'


@pytest.fixture
def place(cluster, agents, tmp_path):
    with cluster_names(cluster), open_place(cluster, tmp_path) as place:
        yield place


def gang(place, name, command, *, replicas=3):
    launch = place.make(name, command)
    return replace(launch, peers=(Replica(launch.node_name),) * (replicas - 1))


def pods(place):
    return place.cluster.api.list(f"/api/v1/namespaces/{place.namespace}/pods")


def test_replicas_find_each_other_by_host_name_and_the_first_one_leads(place):
    place.start(gang(place, "ring", MEET + LEAD))

    report = place.wait_for_end("ring")

    assert (report.state, report.exit_code, len(report.replicas)) == (ReportState.SUCCEEDED, 0, 3)
    assert read_output(place.driver.open_output("ring")) == {"ranks": b"rank 0\nrank 1\nrank 2\n"}
    lines = place.read_whole_log("ring").splitlines()
    met = "of 3 met rank 0 rank 1 rank 2 at replica-0"
    assert sorted(lines) == [f"0 {met}", f"[1] 1 {met}", f"[2] 2 {met}"]

    place.driver.forget("ring")
    place.driver.delete("ring")

    services = f"/api/v1/namespaces/{place.namespace}/services"
    pod = place.path("ring")
    for path in (pod, f"{pod}-1", f"{pod}-2", f"{services}/{pod.rpartition('/')[2]}"):
        place.cluster.api.wait_until_gone(path)


def test_one_replica_that_is_killed_ends_all_and_is_named(place):
    place.start(gang(place, "ring", WAIT))
    place.wait_for("ring", ReportState.RUNNING)

    place.restart()
    victim = f"{place.path('ring')}-1"
    place.cluster.kubectl(
        "-n", place.namespace, "delete", "pod", victim.rpartition("/")[2], "--wait=false", "--grace-period=1"
    )
    report = place.wait_for_end("ring")

    assert (report.state, report.cause, report.replica) == (ReportState.FAILED, EndCause.DELETED, 1)
    assert explain_end(report)[1:] == (
        ReasonCode.DELETED, "Replica 1: Its pod was deleted on the cluster, not by Nearline."
    )  # fmt: skip
    stopped = ReplicaReport(ReportState.FAILED, "Replica 1 has ended.")
    assert (report.replicas[0], report.replicas[2]) == (stopped, stopped)
    assert {pod["status"]["phase"] for pod in pods(place)} <= {"Failed", "Succeeded"}


# The workers begin to listen late, and end only when they are told to. The launcher asks those of the host file at once.
SERVE = 'mkdir /tmp/www; echo "rank $RANK" > /tmp/www/rank; sleep 1; exec httpd -f -p 8000 -h /tmp/www'
LAUNCH = """
for host in $(cut -d ' ' -f 1 $NEARLINE_HOSTFILE); do wget -q -O - http://$host:8000/rank; done > $NEARLINE_OUTPUT/ranks
echo "rank [$RANK] of $WORLD_SIZE, first at ${MASTER_ADDR%%.*}"; exit 3
"""


def test_a_launcher_begins_once_the_workers_listen_and_its_end_is_that_of_all(place):
    launcher = Launcher(cpu_millicores=50, memory_bytes=2**26, worker_command=SERVE, worker_port=8000)
    launch = place.make("ring", LAUNCH, placing=Placing(launcher=launcher))
    place.start(replace(launch, peers=(Replica(launch.node_name),) * 2))

    report = place.wait_for_end("ring")

    assert (report.state, report.exit_code, report.replica) == (ReportState.FAILED, 3, 0)
    assert [each.state for each in report.replicas] == [ReportState.FAILED] * 3
    assert {pod["status"]["phase"] for pod in pods(place)} <= {"Failed", "Succeeded"}
    assert read_output(place.driver.open_output("ring")) == {"ranks": b"rank 0\nrank 1\n"}
    assert "rank [] of 2, first at worker-0" in place.read_whole_log("ring").splitlines()


def node_memory(cluster):
    node = cluster.api.get(f"/api/v1/nodes/{cluster.node.name}")
    return int(parse_quantity(node["status"]["allocatable"]["memory"]))


FLOW = """
flow: ring
steps:
  - name: train
    replicas: 3
    compute: [lab-k8s.small]
    command: |
      case $NEARLINE_JOB_NAME in *-1) %s;; esac
%s
"""


def test_a_gang_that_loses_a_replica_begins_once_more_and_one_that_does_not_fit_starts_no_pod(
    cluster, agents, tmp_path
):
    (tmp_path / "flow").mkdir()
    command = f"{MEET}{MET}sleep 3".strip().replace("\n", "\n      ")
    (tmp_path / "flow/flow.yaml").write_text(FLOW % (WAIT, f"      {command}"))
    with cluster_names(cluster), attached_product(cluster, tmp_path, agents) as (product, namespace):

        def list_pods(job):
            selector = f"nearline.dev/job={job['id']}"
            return cluster.api.list(f"/api/v1/namespaces/{namespace}/pods", labelSelector=selector)

        def wait_for_job(name, state):
            return product.wait_for(
                lambda: {job["name"]: job for job in product.api("GET", "/compute/jobs")["items"]}.get(name),
                lambda job: job is not None and job["state"] == state,
            )

        product.api("POST", "/projects", {"name": "demo"})
        run = product.cli_json("flow", "run", "flow.yaml", "--project", "demo", cwd=tmp_path / "flow")
        first, second = (f"{run['id'].replace('_', '-')}-train-0-{number}" for number in (1, 2))
        job = wait_for_job(first, "running")
        victim = list_pods(job)[1]["metadata"]["name"]
        cluster.kubectl("-n", namespace, "delete", "pod", victim, "--wait=false", "--grace-period=1")

        assert wait_for_job(first, "failed")["reason"].startswith("Replica 1: Its pod was deleted")
        wait_for_job(second, "succeeded")
        assert {job["name"] for job in product.api("GET", "/compute/jobs")["items"]} == {first, second}
        leader, *_ = product.api("GET", f"/compute/jobs/{second}")["replicas"]
        assert (leader["node"], leader["state"]) == (cluster.node.name, "succeeded")
        log = product.wait_for(lambda: product.api("GET", f"/compute/jobs/{second}/log"), lambda log: log["is_stored"])
        assert "[2] 2 of 3 met rank 0 rank 1 rank 2 at replica-0" in log["text"].splitlines()

        memory_bytes = node_memory(cluster) * 2 // 5
        shape = {"resource": "lab-k8s", "name": "large", "cpu_millicores": 100, "memory_bytes": memory_bytes}
        product.api("POST", "/compute/templates", shape)
        large = {"project": "demo", "template": "lab-k8s.large", "name": "large", "command": "true", "replicas": 3}
        product.api("POST", "/compute/jobs", large)

        waiting = product.wait_for(
            lambda: product.api("GET", "/compute/jobs/large"), lambda job: job["reason"].startswith("never fits")
        )
        assert (waiting["state"], list_pods(waiting)) == ("pending", [])


# Each replica tells how many there are, as often as that changes. The first one ends once it has grown again.
COUNT = """
trap 'exit 143' TERM
seen=; while [ "$seen" != " 2 1 2" ]; do
  now=$(grep -c slots=1 $NEARLINE_HOSTFILE)
  [ "$now" = "${seen##* }" ] || { seen="$seen $now"; echo "of $PET_NNODES:$seen"; }
  sleep 0.2
done
"""


def test_an_elastic_gang_shrinks_for_others_and_grows_again_and_its_replicas_know(cluster, agents, tmp_path):
    with cluster_names(cluster), attached_product(cluster, tmp_path, agents) as (product, _):

        def submit(name, command, **more):
            job = {"project": "demo", "template": "lab-k8s.large", "name": name, "command": command}
            product.api("POST", "/compute/jobs", job | more)

        def wait_for(name, state, replicas):
            return product.wait_for(
                lambda: product.api("GET", f"/compute/jobs/{name}"),
                lambda job: (job["state"], len(job["replicas"])) == (state, replicas),
            )

        def read_log():
            return product.api("GET", "/compute/jobs/grows/log")["text"].splitlines()

        memory_bytes = node_memory(cluster) * 2 // 5
        shape = {"resource": "lab-k8s", "name": "large", "cpu_millicores": 100, "memory_bytes": memory_bytes}
        product.api("POST", "/compute/templates", shape)
        product.api("POST", "/projects", {"name": "demo"})
        submit("grows", COUNT, replicas=2, min_replicas=1)
        wait_for("grows", "running", 2)
        product.wait_for(read_log, lambda lines: set(lines) == {"of 1:2: 2", "[1] of 1:2: 2"})

        submit("firm", WAIT, priority=100)
        wait_for("grows", "running", 1)
        product.wait_for(read_log, lambda lines: "of 1:2: 2 1" in lines)
        product.api("POST", "/compute/jobs/firm/cancel")
        wait_for("firm", "cancelled", 0)
        done = wait_for("grows", "succeeded", 2)

        assert (done["evictions"], done["reason"]) == (0, "")
        changes = [event["message"] for event in done["events"] if "of 2 replicas" in event["message"]]
        assert changes == ["Shrinks from 2 to 1 of 2 replicas.", "Grows from 1 to 2 of 2 replicas."]
        product.wait_for(read_log, lambda lines: "of 1:2: 2 1 2" in lines)
