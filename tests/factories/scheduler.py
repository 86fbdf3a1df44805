"""Clusters for the engine's tests, and nodes and workloads in the database for the app's."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from accounts.models import Project
from scheduler.engine import mig
from scheduler.engine.cycle import run_cycle
from scheduler.engine.decisions import Explain, Start
from scheduler.engine.snapshot import (
    GroupView,
    JobView,
    MigStrategy,
    NodeView,
    PodSetView,
    PodState,
    PodView,
    Policy,
    QueueView,
    Quota,
    Request,
    Snapshot,
)
from scheduler.models import Workload
from scheduler.selectors.workloads import list_terminating
from scheduler.services import resource_nodes, workloads
from scheduler.services.resource_nodes import GpuReport, NodeReport
from scheduler.services.workloads import PodSet, WorkloadRequest
from scheduler.workers import cycle

GIB = 2**30
START = datetime(2026, 11, 1, tzinfo=UTC)
NOON = START + timedelta(hours=12)


DEVICE_MIB = 32_000
ONE_POD = GroupView((PodSetView("", 1),))


def node(name: str, gpus: int = 0, *, cpu: int = 64, memory_gib: int = 256, ready: bool = True, resource: str = "lab"):
    """Return a node whose id is its name."""
    return NodeView(
        name, name, cpu * 1000, memory_gib * GIB, tuple(range(gpus)), DEVICE_MIB,
        pool=resource, pool_name=resource, is_ready=ready,
    )  # fmt: skip


def cut_node(name: str, gpus: int = 1, geometry: mig.Geometry = mig.A100_40, **more):
    """Return a node whose devices are cut into slices as requests come."""
    plain = node(name, gpus, **more)
    return replace(plain, mig_strategy=MigStrategy.DYNAMIC, geometry=geometry, device_mib=40_960)


def queue(name: str, gpus: float = 0, *, weight: float | None = None, age: int = 0, cpu: float | None = None):
    """Return a queue whose id is its name; a larger age is an older queue. Its weight is its quota, unless given."""
    quota = Quota(round(gpus * 1000), None if cpu is None else round(cpu * 1000))
    weights = (max(gpus, 1) if weight is None else weight, 1, 1)
    return QueueView(name, name, rank=(START - timedelta(minutes=age),), quota=quota, weights=weights)


def needs(gpus: float = 0, cpu: float = 1, memory_gib: float = 1, resource: str = "") -> Request:
    """Return what a pod asks for in the units that people think in."""
    whole = int(gpus)
    return Request(
        gpus=whole, share_milli=round((gpus - whole) * 1000), cpu_millicores=round(cpu * 1000),
        memory_bytes=round(memory_gib * GIB), pool=resource,
    )  # fmt: skip


def wait(
    name: str, queue_name: str, gpus: float = 0, *, cpu: float = 1, memory_gib: float = 1, resource: str = "lab",
    priority: int = 50, minute: int = 0, firm: bool = False, parts: Mapping = {},
):  # fmt: skip
    """Return a job of one pod that waits since `minute`; a firm one is not preemptible; `parts` asks for slices."""
    pod = PodView(name, PodState.PENDING, replace(needs(gpus, cpu, memory_gib, resource), **parts))
    return _job(name, queue_name, pod, priority=priority, minute=minute, firm=firm)


def held(
    name: str, queue_name: str, node_name: str, gpus: Mapping[int, float] = {}, *, cpu: float = 1, priority: int = 50,
    minute: int = 0, firm: bool = False,
):  # fmt: skip
    """Return a job of one pod that runs; `gpus` maps a device's index to how much of it is held."""
    parts = set(gpus.values())
    request = needs(sum(gpus.values()), cpu)
    if parts and parts != {1}:
        (part,) = parts
        request = replace(needs(part, cpu), devices=len(gpus))
    devices = tuple(str(index) for index in gpus)
    pod = PodView(name, PodState.RUNNING, request, node_id=node_name, devices=devices)
    return _job(name, queue_name, pod, priority=priority, minute=minute, firm=firm)


def _job(name: str, queue_name: str, pod: PodView, *, priority: int, minute: int, firm: bool) -> JobView:
    rank = (START + timedelta(minutes=minute),)
    return JobView(name, queue_name, (pod,), ONE_POD, priority, not firm, rank)


def share_of(request: Request) -> int:
    """Return the thousandths that are taken of each device."""
    return request.share_milli or 1000


class Outcome:
    """The decisions of a cycle, easy to ask."""

    def __init__(self, snapshot: Snapshot, policy: Policy, actions: Sequence[str]) -> None:
        self.decisions = run_cycle(snapshot, policy, actions)
        self.starts = [decision for decision in self.decisions if isinstance(decision, Start)]
        self.order = [start.pod_id for start in self.starts]
        self.nodes = {start.pod_id: start.node_id for start in self.starts}
        requests = {pod.id: pod.request for job in snapshot.jobs for pod in job.pods}
        self.devices = {start.pod_id: start.devices for start in self.starts}
        self.gpus = {
            pod_id: {int(device): share_of(requests[pod_id]) for device in devices if device.isdigit()}
            for pod_id, devices in self.devices.items()
        }
        explains = [decision for decision in self.decisions if isinstance(decision, Explain)]
        self.texts = {explain.job_id: explain.text for explain in explains}
        self.codes = {explain.job_id: str(explain.code) for explain in explains}


def decide(*parts, policy: Policy = Policy(), actions: Sequence[str] = ("allocate",)) -> Outcome:  # noqa: B008
    """Run a cycle on a cluster given as its parts in any order."""
    return Outcome(snapshot_of(*parts), policy, actions)


def snapshot_of(*parts) -> Snapshot:
    """Return a snapshot of nodes, queues and jobs in any order."""
    return Snapshot(
        nodes=[part for part in parts if isinstance(part, NodeView)],
        queues=[part for part in parts if isinstance(part, QueueView)],
        jobs=[part for part in parts if isinstance(part, JobView)],
    )


def report(name: str, gpus: int = 0, *, cpu: int = 8, memory_gib: int = 32, ready: bool = True) -> NodeReport:
    """Return what a driver says of one node."""
    devices = [GpuReport(index, f"GPU-{name}-{index}", "V100", 32 * GIB) for index in range(gpus)]
    return NodeReport(name, cpu * 1000, memory_gib * GIB, devices, ready)


def report_nodes(*reports: NodeReport, resource: str = "res_lab", simulated: bool = True) -> None:
    """Report the nodes of a resource."""
    resource_nodes.report_nodes(
        resource_id=resource,
        resource_name=resource.removeprefix("res_"),
        is_simulated=simulated,
        nodes=reports,
    )


def request(project: Project, name: str, gpus: float = 0, *, resource: str = "res_lab", **more) -> WorkloadRequest:
    """Return a request of one CPU and one GiB, unless told otherwise."""
    amounts = {"cpu_millicores": 1000, "memory_bytes": GIB, "gpu_milli": round(gpus * 1000)}
    pods = PodSet(
        **{
            **amounts,
            **{name: more.pop(name) for name in list(more) if name in PodSet.__annotations__ and name != "name"},
        }
    )
    return WorkloadRequest(project_id=project.pk, name=name, resource_id=resource, pod_sets=[pods], **more)


def enqueue(project: Project, *names: str, gpus: float = 0, **more) -> list[Workload]:
    """Let workloads of one shape wait."""
    ids = workloads.enqueue_many([request(project, name, gpus, **more) for name in names])
    found = Workload.objects.in_bulk(ids)
    return [found[workload_id] for workload_id in ids]


def run_cycles() -> None:
    """Run cycles until nothing is placed or stopped any more."""
    while cycle.run_once().placed or workloads.requeue_many(list_terminating()):
        pass
