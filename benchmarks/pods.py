"""Jobs of a flow as pods of a cluster with many simulated nodes: starts a second, API calls a pod, memory, idling.

kwok says what kubelets would say about 500 nodes and 5,000 pods; API server, etcd and controllers are real. The calls
are those that the API server has counted for the platform's account. All pods run until every one was started, then the
cluster is left alone for a minute, then they end. The ceiling is what a bare loop reaches that makes the same objects,
with as many threads, before all that. `make kube-tools` builds what it takes. `BENCH_PODS`, `BENCH_NODES`
and `BENCH_IDLE_S` change the size; `BENCH_FULL=1` asks for a full installation, whose controller is a process of its own.
"""

import json
import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchmarks.product import running, servers, shell
from compute.adapters.kubernetes import manifests
from compute.engine.job_spec import JobSpec
from compute.engine.ports import Launch
from core.kubernetes.gateway import Gateway
from core.kubernetes.kubeconfig import read_kubeconfig
from tests.journeys.product import Product
from tests.kubernetes.conftest import running_control_plane
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.kwok import add_node, gpu_node
from tests.kubernetes.rbac import manifests_for

PODS = int(os.environ.get("BENCH_PODS", "5000"))
NODES = int(os.environ.get("BENCH_NODES", "500"))
IDLE_S = float(os.environ.get("BENCH_IDLE_S", "60"))
_NAMESPACE = "bench"
_OF_ONE_STEP = 1000
_MIB = 1 << 20
_AT_ONCE = 16
_OF_CEILING, _THREADS_OF_LAUNCHES = 400, 8
_PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")

# Asked of the database by a process of its own, so that telling does not cost the platform anything.
_WAIT = """
import time
from compute.models import Job
while Job.objects.filter({condition}).count() < {pods}:
    time.sleep(1)
"""
# As the platform does an hour after the run has ended; at most a thousand at once.
_DELETE = """
import time
from datetime import timedelta
from compute.workers import cleaning
from flows.models import Run
while Run.objects.filter(is_live=True).exists():
    time.sleep(1)
print(cleaning.delete_old_files(keep=timedelta(0)))
"""


def main() -> None:
    account = f"system:serviceaccount:{_NAMESPACE}:nearline"
    with servers(), running_control_plane(audited=account) as control_plane, running() as product:
        _attach(control_plane, product)
        _measure_ceiling(control_plane)
        print(f"{PODS} pods on {NODES} simulated nodes", flush=True)
        before, spent = len(_calls(control_plane)), _cpu_s(control_plane, product)
        product.api("POST", "/flows/bench/pods/runs", {})
        shell(product, _WAIT.format(condition="state='running'", pods=PODS))
        print(
            f"starts            {_rate(_calls(control_plane)[before:]):8.0f} a second asked of the API server",
            flush=True,
        )
        print(f"CPU of a start    {_per_pod(spent, _cpu_s(control_plane, product), PODS)}", flush=True)
        time.sleep(10)
        resting, spent = len(_calls(control_plane)), _cpu_s(control_plane, product)
        time.sleep(IDLE_S)
        idle = len(_calls(control_plane)) - resting
        print(f"all running, idle {idle / IDLE_S * 60:8.0f} calls a minute", flush=True)
        print(f"                           {_by_kind(_calls(control_plane)[resting : resting + idle])}", flush=True)
        print(f"CPU of a minute   {_per_pod(spent, _cpu_s(control_plane, product), IDLE_S / 60)}", flush=True)
        spent = _cpu_s(control_plane, product)
        _end_pods(control_plane)
        shell(product, _WAIT.format(condition="state='succeeded',log_stored_at__isnull=False", pods=PODS))
        while _count_marked(control_plane) < PODS:
            time.sleep(5)
        print(f"CPU of an end     {_per_pod(spent, _cpu_s(control_plane, product), PODS)}", flush=True)
        calls = _calls(control_plane)
        life = [*calls[before:resting], *calls[resting + idle :]]
        deleted = int(shell(product, _DELETE))
        deletion = _calls(control_plane)[len(calls) :]
        calls_of_life = len(life) / PODS + len(deletion) / deleted
        print(f"whole life        {calls_of_life:8.2f} calls a pod")
        print(f"                           {_by_kind(life)}")
        print(f"                           an hour later, of {deleted}: {_by_kind(deletion)}")
        for name, peak_bytes in _peak_bytes(product).items():
            print(f"memory            {peak_bytes / _MIB:8.0f} MiB at most of the process `{name}`")


def _attach(control_plane: ControlPlane, product: Product) -> None:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda number: add_node(control_plane, gpu_node(f"node-{number}")), range(NODES)))
    control_plane.create_namespace(_NAMESPACE, enforce="restricted")
    objects = {"apiVersion": "v1", "kind": "List", "items": manifests_for(_NAMESPACE)}
    control_plane.kubectl("apply", "-f", "-", manifest=objects)
    kubeconfig = product.home / "kubeconfig"
    kubeconfig.write_text(control_plane.kubeconfig_of("nearline", namespace=_NAMESPACE))
    where = ["--kubeconfig", str(kubeconfig), "--namespace", _NAMESPACE]
    images = ["--agent-image", "agent", "--image", "user", "--set", "platform_url=http://nearline.test"]
    product.cli("compute", "attach", "lab-k8s", *where, *images, "--no-probe", cwd=product.home)
    shape = {"resource": "lab-k8s", "name": "small", "cpu_millicores": 1000, "memory_bytes": 2**30}
    product.api("POST", "/compute/templates", shape)
    product.api("POST", "/projects", {"name": "bench"})
    steps = "".join(
        f"  - name: s{first}\n    command: 'true'\n    env: {{SIMULATED_END: never}}\n"
        f"    grid: {{n: {list(range(first, min(first + _OF_ONE_STEP, PODS)))}}}\n    compute: [lab-k8s.small]\n"
        for first in range(0, PODS, _OF_ONE_STEP)
    )
    product.api("POST", "/flows", {"project": "bench", "text": f"flow: pods\nsteps:\n{steps}"})


def _measure_ceiling(control_plane: ControlPlane) -> None:
    """Tell how many pods a second, each with its Secret, are made where nothing else is done. They are removed."""
    namespace = "ceiling"
    control_plane.create_namespace(namespace, enforce="restricted")
    gateway = Gateway(read_kubeconfig(control_plane.kubeconfig.read_text(), ""))
    core = f"/api/v1/namespaces/{namespace}"
    settings = manifests.PodSettings(namespace, namespace, "http://nearline.test", "agent", default_image="user")

    def start(number: int) -> None:
        launch = Launch(
            JobSpec(name=f"bare-{number}", command="true", env={"SIMULATED_END": "never"}),
            token="token",
            job_id=f"job_{number}",
            kind="step",
            project="bench",
            node_name=f"node-{number % NODES}",
            cpu_millicores=1000,
            memory_bytes=2**30,
        )
        pod = manifests.build_pod(launch, settings)
        del pod["metadata"]["finalizers"]
        gateway.create(f"{core}/secrets", manifests.build_secret(launch, settings, "token" * 20))
        gateway.create(f"{core}/pods", pod)

    spent, started_at = _cpu_s(control_plane), time.monotonic()
    with ThreadPoolExecutor(_THREADS_OF_LAUNCHES) as pool:
        list(pool.map(start, range(_OF_CEILING)))
        rate = _OF_CEILING / (time.monotonic() - started_at)
        cpu = _per_pod(spent, _cpu_s(control_plane), _OF_CEILING)
        paths = [f"{core}/pods/{meta['name']}" for meta in gateway.list_metadata(f"{core}/pods", manifests.RESOURCE)]
        list(pool.map(partial(gateway.delete, grace_s=0), paths))
    print(f"ceiling           {rate:8.0f} a second by a bare loop")
    print(f"CPU of a start    {cpu}", flush=True)


def _cpu_s(control_plane: ControlPlane, product: Product | None = None) -> dict[str, float]:
    """Return the CPU time so far of each process of the platform, or else of this one, and of the cluster's programs."""
    asking = {name: process.pid for name, process in product.processes.items()} if product else {"loop": os.getpid()}
    pids = asking | {name: control_plane.programs.pid(name) for name in _PROGRAMS}
    times = {name: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for name, pid in pids.items()}
    return {name: (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK") for name, parts in times.items()}


def _per_pod(before: dict[str, float], after: dict[str, float], pods: float) -> str:
    return ", ".join(f"{name} {(after[name] - spent) / pods * 1000:.1f} ms" for name, spent in before.items())


def _calls(control_plane: ControlPlane) -> list[dict]:
    """Return the calls so far, but those that wait for changes."""
    lines = control_plane.audit_log.read_text().splitlines() if control_plane.audit_log.exists() else []
    return [call for call in map(json.loads, lines) if call["verb"] != "watch"]


def _rate(calls: list[dict]) -> float:
    pods = [call for call in calls if call["verb"] == "create" and call["objectRef"]["resource"] == "pods"]
    moments = sorted(datetime.fromisoformat(call["requestReceivedTimestamp"]).timestamp() for call in pods)
    return len(moments) / (moments[-1] - moments[0])


def _by_kind(calls: list[dict]) -> str:
    kinds = Counter()
    for call in calls:
        what = call.get("objectRef", {})
        kinds[f"{call['verb']} {what.get('resource', call['requestURI'])} {what.get('subresource', '')}".strip()] += 1
    return ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())


def _end_pods(control_plane: ControlPlane) -> None:
    """End all pods as a node does whose containers have ended well, and whose agent has stored an empty output."""
    path = f"/api/v1/namespaces/{_NAMESPACE}/pods"
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(partial(_end_pod, control_plane, path), control_plane.api.list(path)))


def _end_pod(control_plane: ControlPlane, path: str, pod: dict) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    times = {"startedAt": pod["status"]["startTime"], "finishedAt": now}
    agent = {"exitCode": 0, "reason": "Completed", "message": json.dumps({"root": ""}), **times}
    ended = {"exitCode": 0, "reason": "Completed", **times}
    status = {
        "phase": "Succeeded",
        "initContainerStatuses": [
            {**container, "ready": False, "state": {"running": None, "terminated": agent}}
            for container in pod["status"]["initContainerStatuses"]
        ],
        "containerStatuses": [
            {**container, "ready": False, "state": {"running": None, "terminated": ended}}
            for container in pod["status"]["containerStatuses"]
        ],
    }
    control_plane.api.patch(f"{path}/{pod['metadata']['name']}/status", {"status": status})


def _count_marked(control_plane: ControlPlane) -> int:
    """Return of how many ended pods the platform has noted on the cluster that their end was recorded."""
    return len({call["objectRef"]["name"] for call in _calls(control_plane) if call["verb"] == "patch"})


def _peak_bytes(product: Product) -> dict[str, int]:
    """Return the most memory that each process of the platform has held."""
    peaks = {}
    for name, process in product.processes.items():
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        (peak,) = (line for line in lines if line.startswith("VmHWM:"))
        peaks[name] = int(peak.split()[1]) * 1024
    return peaks


if __name__ == "__main__":
    main()
