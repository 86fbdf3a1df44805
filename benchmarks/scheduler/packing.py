"""How much of a cluster's GPUs each packing policy fills, by the protocol of the FGD paper (USENIX ATC 2023).

Pods of a production trace arrive one by one in random order at an empty cluster; who fits nowhere is dropped, nobody
leaves. Measured is the share of all GPUs that is allocated when as much as the cluster has was asked for. Ours is the
engine itself: one cycle over all pods in order of arrival. `BENCH_SEEDS` (2) sets how many orders are tried,
`BENCH_LISTS` (all) which pod lists; with `BENCH_PRODUCT=1` shares go to devices in shared use first, and there to the
fullest, as in the running product.
"""

import itertools
import os
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from benchmarks.scheduler import openb
from benchmarks.scheduler.openb import Kind, Machine
from benchmarks.scheduler.packing_bound import most_gpus
from benchmarks.scheduler.packing_peers import PEERS, Cluster
from scheduler.engine.cycle import run_cycle
from scheduler.engine.decisions import Start
from scheduler.engine.rules import packing
from scheduler.engine.snapshot import (
    Fill,
    GroupView,
    JobView,
    NodeView,
    PodSetView,
    PodState,
    PodView,
    Policy,
    QueueView,
    Request,
    Snapshot,
)

FIRST_SEED = 42
DEVICE_MIB = 1000
OURS, BOUND = "ours", "bound"


def main() -> int:
    """Print the table."""
    names = os.environ.get("BENCH_LISTS", "").split(",") if os.environ.get("BENCH_LISTS") else openb.list_names()
    seeds = range(FIRST_SEED, FIRST_SEED + int(os.environ.get("BENCH_SEEDS", "2")))
    if not names:
        print(f"no trace in {openb.FOLDER}: nothing to measure")
        return 0
    machines = openb.read_machines()
    columns = [*PEERS, OURS, BOUND]
    print(f"GPUs allocated of {sum(m.gpus for m in machines)} in % at 100 % asked for, mean of {len(seeds)} seeds")
    print(f"{'list':<12}" + "".join(f"{column:>12}" for column in columns) + f"{'gap':>8}{'beaten by':>14}{'s':>7}")
    gaps: dict[str, list[float]] = {column: [] for column in columns}
    for name in names:
        began = time.perf_counter()
        pods = openb.read_pods(name)
        runs = [measure(machines, pods, seed) for seed in seeds]
        mean = {column: statistics.mean(run[column] for run in runs) for column in columns}
        for column in columns:
            gaps[column].append(mean[BOUND] - mean[column])
        better = [column for column in PEERS if mean[column] >= mean[OURS]]
        print(
            f"{name:<12}"
            + "".join(f"{mean[column]:>12.2f}" for column in columns)
            + f"{gaps[OURS][-1]:>8.2f}{','.join(better) or 'nobody':>14}{time.perf_counter() - began:>7.0f}",
            flush=True,
        )
    print(f"{'mean gap':<12}" + "".join(f"{statistics.mean(gaps[column]):>12.2f}" for column in columns))
    return 0


def measure(machines: Sequence[Machine], pods: Sequence[Kind], seed: int) -> dict[str, float]:
    """Return what each policy has allocated of one order of arrival, and what was possible, in per cent."""
    capacity = 1000 * sum(machine.gpus for machine in machines)
    stream = openb.arrivals(pods, seed, 1.005 * capacity)
    order = list(machines)
    random.Random(seed).shuffle(order)
    result = {}
    for name, new_peer in PEERS.items():
        peer = new_peer(Cluster(order), pods)
        result[name] = _share([peer.place(kind) for kind in stream], stream, capacity)
    placed = place_by_engine(order, pods, stream)
    result[OURS] = _share(placed, stream, capacity)
    asked = itertools.accumulate(kind.gpu_milli for kind in stream)
    arrived = [
        pod for pod, sum_milli in zip(zip(stream, placed, strict=True), asked, strict=True) if sum_milli <= capacity
    ]
    served_beside = [kind for kind, is_placed in arrived if is_placed and not kind.gpus]
    result[BOUND] = 100 * most_gpus(machines, [kind for kind, _ in arrived], served_beside) / capacity
    return result


def _share(placed: Sequence[bool], stream: Sequence[Kind], capacity: int) -> float:
    """Return the mean percentage allocated while what was asked for rounds to 100 % of the capacity."""
    asked = held = 0
    seen = []
    for kind, is_placed in zip(stream, placed, strict=True):
        asked += kind.gpu_milli
        held += kind.gpu_milli if is_placed else 0
        if round(100 * asked / capacity) == 100:
            seen.append(100 * held / capacity)
    return statistics.mean(seen)


def place_by_engine(order: Sequence[Machine], pods: Sequence[Kind], stream: Sequence[Kind]) -> list[bool]:
    """Return which pods of a stream a cycle starts that knows the mix of the list that they come from."""
    nodes = [
        NodeView(
            machine.name,
            f"{position:04}",
            machine.cpu,
            machine.memory,
            devices=tuple(range(machine.gpus)),
            device_mib=DEVICE_MIB,
            max_pods=1001,
            pool=machine.model,
        )
        for position, machine in enumerate(order)
    ]
    mix = [(kind, count) for kind, count in Counter(pods).items() if kind.gpus]
    as_product = os.environ.get("BENCH_PRODUCT") == "1"
    policy = Policy(
        gpu_nodes=Fill.MIX,
        cpu_nodes=Fill.MIX,
        devices=Fill.PACK if as_product else Fill.MIX,
        prices=packing.price_capacity([part for kind, count in mix for part in _parts(kind, count, order)], nodes),
        prefers_shared_devices=as_product,
    )
    jobs = [_job(position, kind, nodes) for position, kind in enumerate(stream)]
    decisions = run_cycle(Snapshot(nodes, [QueueView("q", "q")], jobs), policy, ["allocate"])
    started = {decision.job_id for decision in decisions if isinstance(decision, Start)}
    return [job.id in started for job in jobs]


def _parts(kind: Kind, count: int, machines: Sequence[Machine]) -> Iterator[tuple[Request, float]]:
    """Yield the requests that a kind stands for: one, or one for each of its models by their number of GPUs."""
    if not kind.models:
        yield _request(kind, ""), count
        return
    gpus = Counter[str]()
    for machine in machines:
        if machine.model in kind.models:
            gpus[machine.model] += machine.gpus
    for model in sorted(gpus):
        yield _request(kind, model), count * gpus[model] / gpus.total()


def _request(kind: Kind, pool: str) -> Request:
    whole = kind.gpus if kind.milli == 1000 else 0
    return Request(
        gpus=whole,
        share_milli=kind.milli if kind.gpus and not whole else 0,
        cpu_millicores=kind.cpu,
        memory_bytes=kind.memory,
        pool=pool,
    )


def _job(position: int, kind: Kind, nodes: Sequence[NodeView]) -> JobView:
    is_one_model = len(kind.models) == 1
    pod = PodView(
        f"t{position}",
        PodState.PENDING,
        _request(kind, next(iter(kind.models)) if is_one_model else ""),
        allowed_nodes=frozenset(node.id for node in nodes if node.pool in kind.models)
        if kind.models and not is_one_model
        else None,
    )
    return JobView(f"j{position}", "q", (pod,), GroupView((PodSetView("", 1),)), rank=(position,))


if __name__ == "__main__":
    sys.exit(main())
