"""How long a decision takes, and how that grows with the cluster.

`python -m benchmarks.scheduler.speed [SHAPE…] [--plot FILE.svg]`; a plot needs what the tests need installed.
The shapes, and the times of KAI-Scheduler on the same kind of machine, are those of its own published scale tests:
nodes of 8 GPUs, jobs of one GPU, one department. KAI's times lie beside ours; `BENCH_NODES` stops at smaller clusters.
Ours is CPU time, which is the time of a machine that does nothing else: the engine computes in one thread and waits for
nothing.
"""

import argparse
import gc
import os
import resource
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.scheduler import openb
from scheduler.engine.cycle import ACTIONS
from scheduler.engine.explain import explain
from scheduler.engine.placing import place
from scheduler.engine.rules.packing import price_capacity
from scheduler.engine.session import Session
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
    Quota,
    Request,
    Snapshot,
)

GPUS = 8
LARGEST = int(os.environ.get("BENCH_NODES", "10000"))


@dataclass(frozen=True)
class Result:
    """One measured cycle: seconds of CPU, and what to show of it."""

    shape: str
    nodes: int
    seconds: float
    kai_seconds: float | None = None
    note: str = ""
    asked_seconds: float | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the scheduler's engine.")
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=f"one of {', '.join(SHAPES)}; all without")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw time over size into an SVG file")
    arguments = parser.parse_args()
    results = []
    if unknown := set(arguments.shapes) - set(SHAPES):
        parser.error(f"no shape is called {', '.join(sorted(unknown))}")
    print(f"{'shape':<44}{'nodes':>7}{'ours':>12}{'KAI':>10}{'ratio':>8}  ")
    for name in arguments.shapes or SHAPES:
        for result in SHAPES[name]():
            results.append(result)
            kai = f"{result.kai_seconds:.3g} s" if result.kai_seconds else "-"
            ratio = f"{result.kai_seconds / result.seconds:.0f} x" if result.kai_seconds else ""
            print(f"{result.shape:<44}{result.nodes:>7}{_show(result.seconds):>12}{kai:>10}{ratio:>8}  {result.note}")
    if arguments.plot is not None:
        from benchmarks.scheduler.speed_plot import draw  # needs more than the product has installed

        draw(results, arguments.plot)


def mass_reclaim() -> Iterator[Result]:
    """All GPUs are held by a queue without quota; a starved queue has as many jobs waiting."""
    for nodes, kai in _up_to({50: 0.72, 100: 2.22, 200: 9.17, 500: 72.7}):
        waiting = [_job(f"p{i:05}", "starved", rank=10**6 + i) for i in range(GPUS * nodes)]
        snapshot = Snapshot(_nodes(nodes), _queues(holder=0, starved=GPUS * nodes), [*_full(nodes), *waiting])
        seconds, session = _cycle(snapshot)
        note = f"{_count(session, PodState.RESERVED)} promised"
        yield Result("mass reclaim, full cycle", nodes, seconds, kai, note, 0.6 if nodes == 500 else None)


def few_reclaim() -> Iterator[Result]:
    """Let one, 8 or 80 jobs reclaim from a full cluster; the session is there already."""
    for waiting, kai in ((1, 0.0117), (8, 0.073), (80, 0.605)):
        if LARGEST < 500:
            return
        session = Session(Snapshot(_nodes(500), _queues(holder=0, starved=GPUS * 500), _full(500)), Policy())
        jobs = [_job(f"p{i:05}", "starved", rank=10**6 + i) for i in range(waiting)]
        seconds = _kept_cycle(session, jobs)
        yield Result(f"reclaim by {waiting} waiting, session kept", 500, seconds, kai)


def gang_reclaim() -> Iterator[Result]:
    """Let a gang of half the nodes, 8 GPUs each, reclaim from jobs of one GPU."""
    for nodes, kai in _up_to({100: 0.49, 200: 1.16, 500: 4.99, 1000: 21.3}):
        gang = _job("gang", "starved", gpus=GPUS, count=nodes // 2, rank=10**6)
        snapshot = Snapshot(_nodes(nodes), _queues(holder=0, starved=GPUS * nodes), [*_full(nodes), gang])
        seconds, session = _cycle(snapshot)
        note, asked = f"{_count(session, PodState.RESERVED)} promised", 0.5 if nodes == 1000 else None
        yield Result(f"gang of N/2 x {GPUS} GPUs reclaims", nodes, seconds, kai, note, asked)


def impossible_gang() -> Iterator[Result]:
    """Ask for 80 GPUs for a gang where 79 may be reclaimed: the answer is no."""
    for nodes, kai in _up_to({50: 2.1, 100: 11.5, 200: 66.0, 500: None}):
        session = Session(
            Snapshot(_nodes(nodes), _queues(holder=GPUS * nodes - 79, starved=80), _full(nodes)), Policy()
        )
        seconds = _kept_cycle(session, [_job("gang", "starved", gpus=GPUS, count=10, rank=10**6)])
        asked = 0.05 if nodes == 500 else None
        yield Result("impossible gang, answered with its proof", nodes, seconds, kai, asked_seconds=asked)


def allocate() -> Iterator[Result]:
    """Idle nodes, 4 queues, as many jobs of one GPU as there are GPUs."""
    for nodes, rate in _up_to({100: 8800, 500: 3080, 1000: 1740, 2000: 870, 5000: None, 10_000: None}):
        names = [f"q{i}" for i in range(4)]
        jobs = [_job(f"p{i:06}", names[i % 4], rank=i) for i in range(GPUS * nodes)]
        session = Session(Snapshot(_nodes(nodes), _queues(**dict.fromkeys(names, 2 * nodes)), jobs), Policy())
        yield _allocate("allocate", session, rate, 10_000)


def mixed_allocate() -> Iterator[Result]:
    """Place jobs that ask for different things on 1,000 idle nodes; the openb trace comes with learnt prices."""
    if LARGEST < 1000:
        return
    for name, kinds in (("100 kinds", 100), ("all different", GPUS * 1000)):
        jobs = [_job(f"p{i:06}", "holder", rank=i, kind=i % kinds) for i in range(GPUS * 1000)]
        session = Session(Snapshot(_nodes(1000), _queues(holder=GPUS * 1000), jobs), Policy())
        yield _allocate(f"allocate, {name}", session, 1740, 10_000 if kinds == 100 else 5_000)
    if pods := openb.read_pods("default") if openb.list_names() else []:
        requests = [_openb_request(kind) for kind in openb.arrivals(pods, 0, 1000 * GPUS * 1000)]
        jobs = [_with_request(_job(f"p{i:06}", "holder", rank=i), request) for i, request in enumerate(requests)]
        prices = price_capacity(Counter(requests).items(), _nodes(1000))
        policy = replace(Policy(), gpu_nodes=Fill.MIX, cpu_nodes=Fill.MIX, devices=Fill.MIX, prices=prices)
        session = Session(Snapshot(_nodes(1000), _queues(holder=GPUS * 1000), jobs), policy)
        yield _allocate(f"allocate, {len(set(requests))} kinds of openb", session, None, 10_000)


def _allocate(shape: str, session: Session, kai_rate: float | None, asked_rate: float) -> Result:
    started = _collect()
    ACTIONS["allocate"](session)
    seconds = time.process_time() - started
    placed = _count(session, PodState.STARTING)
    kai_seconds = placed / kai_rate if kai_rate else None
    note = f"{placed / seconds:,.0f} placements/s"
    return Result(shape, len(session.nodes), seconds, kai_seconds, note, placed / asked_rate)


def mixed_reclaim() -> Iterator[Result]:
    """Let jobs that ask for different things reclaim a full cluster."""
    if LARGEST < 500:
        return
    for name, kinds, asked in (("100 kinds", 100, 0.6), ("all different", GPUS * 500, 1.0)):
        waiting = [_job(f"p{i:05}", "starved", rank=10**6 + i, kind=i % kinds) for i in range(GPUS * 500)]
        snapshot = Snapshot(_nodes(500), _queues(holder=0, starved=GPUS * 500), [*_full(500), *waiting])
        seconds, session = _cycle(snapshot)
        note = f"{_count(session, PodState.RESERVED)} promised"
        yield Result(f"mass reclaim, {name}", 500, seconds, None, note, asked)


def single_placements() -> Iterator[Result]:
    """Place jobs one by one on idle nodes and time each: the 99th of 100."""
    for nodes, _ in _up_to({1000: None, 10_000: None}):
        jobs = [_job(f"p{i:06}", "holder", rank=i) for i in range(8000)]
        session = Session(Snapshot(_nodes(nodes), _queues(holder=GPUS * nodes), jobs), Policy())
        times = []
        for job in list(session.jobs.values()):
            started = time.process_time()
            place(session, job, job.next_pods())
            times.append(time.process_time() - started)
        note = f"the first, which ranks all nodes: {_show(times[0])}"
        p99 = sorted(times)[len(times) * 99 // 100]
        yield Result("one placement, p99 of 8,000", nodes, p99, note=note, asked_seconds=0.002)


def unchanged() -> Iterator[Result]:
    """Everything runs, nothing waits, nothing changed since the cycle before."""
    for nodes, kai in _up_to({500: 0.082, 1000: 0.18, 4000: 0.95}):
        session = Session(Snapshot(_nodes(nodes), _queues(holder=GPUS * nodes), _full(nodes)), Policy())
        asked = 0.002 if nodes == 4000 else None
        yield Result("unchanged cycle", nodes, _kept_cycle(session, []), kai, asked_seconds=asked)
    if LARGEST >= 4000:
        jobs = _full(4000)[:500] + [
            _job(f"c{i:06}", "holder", gpus=0, node=i % 3900 + 100, rank=10**6 + i) for i in range(139_500)
        ]
        nodes = [node if i < 100 else replace(node, devices=()) for i, node in enumerate(_nodes(4000))]
        session = Session(Snapshot(nodes, _queues(holder=800), jobs), Policy())
        seconds = _kept_cycle(session, [])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        yield Result("unchanged cycle, 140,000 pods, 500 on GPUs", 4000, seconds, 1.90, f"{peak:.1f} GB at most")


def anew() -> Iterator[Result]:
    """Decide from a snapshot alone, as a process that has just started does, and as KAI does in each cycle."""
    if LARGEST < 4000:
        return
    waiting = [_job(f"p{i:06}", "holder", gpus=GPUS + 1 if i == 0 else 1, rank=10**6 + i) for i in range(10_000)]
    for name, jobs, kai in (("nothing waits", [], 0.95), ("10,000 wait, one for ever", waiting, None)):
        snapshot = Snapshot(_nodes(4000), _queues(holder=GPUS * 4000), [*_full(4000), *jobs])
        yield Result(f"cycle from nothing, {name}", 4000, _cycle(snapshot)[0], kai, asked_seconds=0.95)


SHAPES: dict[str, Callable[[], Iterator[Result]]] = {
    "unchanged": unchanged,
    "anew": anew,
    "allocate": allocate,
    "mixed_allocate": mixed_allocate,
    "mixed_reclaim": mixed_reclaim,
    "single_placements": single_placements,
    "mass_reclaim": mass_reclaim,
    "few_reclaim": few_reclaim,
    "gang_reclaim": gang_reclaim,
    "impossible_gang": impossible_gang,
}


def _cycle(snapshot: Snapshot) -> tuple[float, Session]:
    """Time a cycle from the snapshot to the last explanation."""
    started = _collect()
    session = Session(snapshot, Policy())
    _decide(session)
    return time.process_time() - started, session


def _kept_cycle(session: Session, jobs: list[JobView]) -> float:
    """Time a cycle on a session that is there already, told of new jobs; the median of five."""
    times = []
    for _ in range(5):
        started = time.process_time()
        session.change(jobs)
        _decide(session)
        times.append(time.process_time() - started)
        session.change([], [job.id for job in jobs])
    return statistics.median(times)


def _collect() -> float:
    """Return the CPU time so far, once what was measured before is collected, which would count as this one's time."""
    gc.collect()
    return time.process_time()


def _decide(session: Session) -> None:
    for action in ACTIONS.values():
        action(session)
    list(explain(session))


def _up_to(table: dict[int, float | None]) -> Iterator[tuple[int, float | None]]:
    return ((nodes, value) for nodes, value in table.items() if nodes <= LARGEST)


def _nodes(count: int) -> list[NodeView]:
    devices = tuple(range(GPUS))
    return [NodeView(f"n{i:05}", f"n{i:05}", 256_000, 2 << 40, devices, 80_000) for i in range(count)]


def _queues(**quotas: int) -> list[QueueView]:
    department = QueueView("department", "department", quota=Quota(None, None, None))
    return [
        department,
        *(
            QueueView(name, name, "department", (place,), quota=Quota(1000 * gpus, None, None), weights=(1.0, 1, 1))
            for place, (name, gpus) in enumerate(quotas.items())
        ),
    ]


def _full(nodes: int) -> list[JobView]:
    return [_job(f"r{i:06}", "holder", node=i // GPUS, device=i % GPUS, rank=i) for i in range(GPUS * nodes)]


def _job(  # noqa: PLR0917 (the parts of a row)
    name: str,
    queue: str,
    gpus: int = 1,
    count: int = 1,
    node: int | None = None,
    device: int = 0,
    rank: int = 0,
    kind: int = 0,
) -> JobView:
    request = Request(gpus=gpus, cpu_millicores=1000, memory_bytes=10**9 + kind)
    state = PodState.PENDING if node is None else PodState.RUNNING
    at = {} if node is None else {"node_id": f"n{node:05}", "devices": (str(device),) if gpus else ()}
    pods = tuple(PodView(f"{name}-{i}", state, request, **at) for i in range(count))
    return JobView(name, queue, pods, GroupView((PodSetView("", count),)), rank=(rank,), running_for_s=3600)


def _with_request(job: JobView, request: Request) -> JobView:
    return replace(job, pods=tuple(replace(pod, request=request) for pod in job.pods))


def _openb_request(kind: openb.Kind) -> Request:
    is_whole = kind.milli == 1000
    return Request(
        gpus=kind.gpus if is_whole else 0,
        share_milli=0 if is_whole else kind.milli,
        devices=max(1, kind.gpus),
        cpu_millicores=kind.cpu,
        memory_bytes=kind.memory << 20,
    )


def _count(session: Session, state: PodState) -> int:
    return sum(pod.state is state for job in session.jobs.values() for pod in job.pods)


def _show(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.2f} ms"


if __name__ == "__main__":
    main()
