"""Clusters for the engine's tests, and nodes and workloads in the database for the app's."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from accounts.models import Project
from scheduler.engine.cycle import run_cycle
from scheduler.engine.decisions import Explain, Place
from scheduler.engine.resources import Amount, Quota
from scheduler.engine.snapshot import NodeView, Placed, Policy, QueueView, Shape, Snapshot, Waiting
from scheduler.models import Workload
from scheduler.services import nodes, workloads
from scheduler.services.nodes import GpuReport, NodeReport
from scheduler.services.workloads import WorkloadRequest

GIB = 2**30
START = datetime(2026, 11, 1, tzinfo=UTC)


def node(name: str, gpus: int = 0, *, cpu: int = 64, memory_gib: int = 256, ready: bool = True, resource: str = "lab"):
    """Return a node whose id is its name."""
    return NodeView(name, name, resource, resource, cpu * 1000, memory_gib * GIB, tuple(range(gpus)), ready)


def queue(name: str, gpus: float = 0, *, weight: float | None = None, age: int = 0, cpu: float | None = None):
    """Return a queue whose id is its name; a larger age is an older queue."""
    quota = Quota(round(gpus * 1000), None if cpu is None else round(cpu * 1000))
    return QueueView(name, name, START - timedelta(minutes=age), quota, weight)


def needs(gpus: float = 0, cpu: float = 1, memory_gib: float = 1) -> Amount:
    """Return an amount in the units that people think in."""
    return Amount(round(gpus * 1000), round(cpu * 1000), round(memory_gib * GIB))


def wait(
    name: str, queue_name: str, gpus: float = 0, *, cpu: float = 1, memory_gib: float = 1, resource: str = "lab",
    priority: int = 50, minute: int = 0, firm: bool = False,
):  # fmt: skip
    """Return a workload that waits since `minute`; a firm one is not preemptible."""
    shape = Shape(resource, needs(gpus, cpu, memory_gib))
    return Waiting(name, queue_name, shape, START + timedelta(minutes=minute), priority, not firm)


def held(name: str, queue_name: str, node_name: str, gpus: Mapping[int, float] = {}, *, cpu: float = 1, firm=False):
    """Return a workload that holds room; `gpus` maps a device's index to how much of it is held."""
    parts = tuple((index, round(part * 1000)) for index, part in gpus.items())
    return Placed(name, queue_name, node_name, needs(sum(gpus.values()), cpu), parts, not firm)


class Outcome:
    """The decisions of a cycle, easy to ask."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self.decisions = run_cycle(snapshot, policy)
        self.places = [decision for decision in self.decisions if isinstance(decision, Place)]
        self.order = [place.workload_id for place in self.places]
        self.nodes = {place.workload_id: place.node_id for place in self.places}
        self.gpus = {place.workload_id: dict(place.gpus) for place in self.places}
        explains = [decision for decision in self.decisions if isinstance(decision, Explain)]
        self.texts = {explain.workload_id: explain.text for explain in explains}
        self.codes = {explain.workload_id: str(explain.code) for explain in explains}


def decide(*parts, policy: Policy = Policy()) -> Outcome:  # noqa: B008
    """Run a cycle on a cluster given as its parts in any order."""
    return Outcome(
        Snapshot(
            nodes=[part for part in parts if isinstance(part, NodeView)],
            queues=[part for part in parts if isinstance(part, QueueView)],
            waiting=[part for part in parts if isinstance(part, Waiting)],
            placed=[part for part in parts if isinstance(part, Placed)],
        ),
        policy,
    )


def report(name: str, gpus: int = 0, *, cpu: int = 8, memory_gib: int = 32, ready: bool = True) -> NodeReport:
    """Return what a driver says of one node."""
    devices = [GpuReport(index, f"GPU-{name}-{index}", "V100", 32 * GIB) for index in range(gpus)]
    return NodeReport(name, cpu * 1000, memory_gib * GIB, devices, ready)


def report_nodes(*reports: NodeReport, resource: str = "res_lab", simulated: bool = True) -> None:
    """Report the nodes of a resource."""
    nodes.report_nodes(
        resource_id=resource,
        resource_name=resource.removeprefix("res_"),
        is_simulated=simulated,
        nodes=reports,
    )


def request(project: Project, name: str, gpus: float = 0, *, resource: str = "res_lab", **more) -> WorkloadRequest:
    """Return a request of one CPU and one GiB, unless told otherwise."""
    amounts = {"cpu_millicores": 1000, "memory_bytes": GIB, "gpu_milli": round(gpus * 1000), **more}
    return WorkloadRequest(project_id=project.pk, name=name, resource_id=resource, **amounts)


def enqueue(project: Project, *names: str, gpus: float = 0, **more) -> list[Workload]:
    """Let workloads of one shape wait."""
    ids = workloads.enqueue_many([request(project, name, gpus, **more) for name in names])
    found = Workload.objects.in_bulk(ids)
    return [found[workload_id] for workload_id in ids]
