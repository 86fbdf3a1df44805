"""What a round of forecasts costs: a cluster of 8-GPU nodes, and jobs of the Philly trace that wait for it.

Sizes and lengths are those of the trace; each queue's earlier jobs say how long its jobs may run. The cluster is filled
with jobs in the order in which they came, and the next ones wait. With `big`, a seventh of the running jobs has ended,
so that free GPUs lie on many nodes, and only jobs of 8 GPUs and more wait. Prints the CPU time of forecasts for all of
them.
"""

import math
import os
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from benchmarks.scheduler import philly
from benchmarks.scheduler.philly_replay import NODE_GPUS, Arrival, make_job, make_node, make_queue
from scheduler.engine.cycle import run_cycle
from scheduler.engine.decisions import Start
from scheduler.engine.forward import Forward
from scheduler.engine.run_times import RunTimes, each_once
from scheduler.engine.snapshot import NEARLINE, JobView, PodState, Snapshot

SIZES = os.environ.get("BENCH_SIZES", "8x20 64x20 64x100 64x400 64x12big")
EARLIER = 2_000
MOST_LENGTHS = 200


def main() -> None:
    quotas = philly.read_quotas()
    arrivals = philly.read_jobs(quotas)
    lengths = defaultdict(list)
    for arrival in arrivals[:EARLIER]:
        lengths[arrival.queue].append(arrival.work_s)
    known = {queue: RunTimes(each_once(*lengths_s[-MOST_LENGTHS:])) for queue, lengths_s in lengths.items()}
    print(f"{'nodes':>6} {'running':>8} {'waiting':>8} {'ms a round':>11} {'with P50':>9} {'with P90':>9}")
    for size in SIZES.split():
        nodes, waiting = map(int, size.removesuffix("big").split("x"))
        snapshot = make_snapshot(nodes, waiting, quotas, arrivals[EARLIER:], is_big=size.endswith("big"))
        measure(snapshot, {job.id: known[job.queue_id] for job in snapshot.jobs if job.queue_id in known})


def measure(snapshot: Snapshot, run_times: dict[str, RunTimes]) -> None:
    """Forecast all jobs that wait, and print what it cost."""
    started = time.process_time()
    starts = Forward(snapshot, NEARLINE, run_times).starts()
    wall_ms = 1000 * (time.process_time() - started)
    likely = sum(start.likely_s < math.inf for start in starts.values())
    late = sum(start.late_s < math.inf for start in starts.values())
    running = len(snapshot.jobs) - len(starts)
    print(
        f"{len(snapshot.nodes):6} {running:8} {len(starts):8} {wall_ms:11.0f} {likely:9} {late:9}",
        flush=True,
    )


def make_snapshot(
    nodes: int, waiting: int, quotas: dict[str, int], arrivals: Sequence[Arrival], *, is_big: bool
) -> Snapshot:
    """Return a cluster on which as many jobs run as fit, and as many wait."""
    queues = [make_queue(name, max(1, quota * nodes // philly.NODES)) for name, quota in quotas.items()]
    snapshot = Snapshot([make_node(index) for index in range(nodes)], queues)
    left, held, jobs = iter(enumerate(arrivals)), 0, list[JobView]()
    while held < nodes * NODE_GPUS:
        number, arrival = next(left)
        if held + arrival.gpus <= nodes * NODE_GPUS:
            held += arrival.gpus
            jobs.append(make_job(number, arrival))
    placed = _placed(replace(snapshot, jobs=jobs))
    if is_big:
        placed = [job for number, job in enumerate(placed) if number % 7]
    entrants = (make_job(*entry) for entry in left if not is_big or entry[1].gpus >= NODE_GPUS)
    return replace(snapshot, jobs=[*placed, *islice(entrants, waiting)])


def _placed(snapshot: Snapshot) -> list[JobView]:
    """Return the jobs that a cycle starts, running."""
    starts = {move.pod_id: move for move in run_cycle(snapshot, NEARLINE, ["allocate"]) if isinstance(move, Start)}
    jobs = [job for job in snapshot.jobs if all(pod.id in starts for pod in job.pods)]
    return [
        replace(
            job,
            saved_at=0.0,
            pods=tuple(
                replace(pod, state=PodState.RUNNING, node_id=starts[pod.id].node_id, devices=starts[pod.id].devices)
                for pod in job.pods
            ),
        )
        for job in jobs
    ]


if __name__ == "__main__":
    main()
