"""Jobs of Microsoft's Philly clusters on 512 GPUs: how close the engine stays to fair shares, and at what price.

64 nodes of 8 GPUs, 11 queues with the quotas that the published node counts of the virtual clusters stand for, a
checkpoint every half hour. The peer takes the youngest job of the queue that is furthest beyond its quota; its figures
are those of a replay with GPU counts alone, so no job of it ever waits because free GPUs lie on different nodes. They
are known for the first 8,000 jobs (where it lost no work when it stopped a job) and for all of them.
"""

import csv
import gzip
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from benchmarks.scheduler.philly_replay import Arrival, Measures, Replay, Work
from scheduler.engine.sharing import STEADY, SharingRules
from scheduler.engine.snapshot import NEARLINE

TRACES = Path(os.environ.get("BENCH_TRACES", Path(__file__).parents[3] / "shared" / "traces")) / "philly"
JOBS = int(os.environ.get("BENCH_JOBS", "8000"))
FIRST = int(os.environ.get("BENCH_FIRST", "0"))
TRIED = os.environ.get("BENCH_SHARING", "{}")
"""Rules that replace those of the product, as JSON: for choosing them."""
PEER = {
    8_000: {
        "fair deviation %": 2.39,
        "quota shortfall %": 0.106,
        "preemptions per 100 jobs": 15.4,
        "evictions of any one job": 96,
        "mean wait h": 1.58,
    },
    82_168: {
        "fair deviation %": 5.70,
        "quota shortfall %": 0.46,
        "preemptions per 100 jobs": 18.1,
        "evictions of any one job": 131,
        "utilisation of min(GPUs, demand) %": 99.7,
        "work lost %": 0.54,
        "mean wait h": 4.51,
        "p95 wait h": 15.9,
    },
}
NODES = 64
GPUS = 512
POLICY = replace(NEARLINE, sharing=STEADY)
"""The policy of the product in a pool that shares by the rules called "steady"."""


def main() -> None:
    if not TRACES.is_dir():
        raise SystemExit(f"The Philly trace is not at {TRACES}; BENCH_TRACES names the folder that has philly/ in it.")
    quotas = read_quotas()
    arrivals = read_jobs(quotas)[FIRST : FIRST + JOBS]
    policy = replace(POLICY, sharing=replace(POLICY.sharing, **json.loads(TRIED)))
    started = time.process_time()
    measures = Replay(arrivals, quotas, nodes=NODES, policy=policy).run(watch=_show_progress)
    report(measures, policy.sharing, time.process_time() - started)


def read_quotas() -> dict[str, int]:
    """Return whole GPUs by virtual cluster, in the ratio of their nodes; what rounding leaves to the largest remainders."""
    with (TRACES / "philly_vc_nodes.csv").open() as file:
        nodes = {row["vc"]: int(row["node num"]) for row in csv.DictReader(file)}
    total = sum(nodes.values())
    quotas = {name: GPUS * count // total for name, count in nodes.items()}
    by_remainder = sorted(nodes, key=lambda name: (-(GPUS * nodes[name] % total), name))
    for name in by_remainder[: GPUS - sum(quotas.values())]:
        quotas[name] += 1
    return quotas


def read_jobs(quotas: dict[str, int]) -> list[Arrival]:
    """Return the jobs that fit into the quota of their virtual cluster, in the order in which they came."""
    with gzip.open(TRACES / "philly_jobs.csv.gz", "rt") as file:
        jobs = [
            Arrival(
                datetime.fromisoformat(f"{row['timestamp']}+00:00").timestamp(),
                float(row["duration"]),
                int(row["num_gpus"]),
                row["cluster"],
            )
            for row in csv.DictReader(file)
            if int(row["num_gpus"]) <= quotas.get(row["cluster"], 0)
        ]
    return sorted(jobs, key=lambda job: job.at_s)


def report(measures: Measures, rules: SharingRules, cpu_s: float) -> None:
    """Print each measure beside its target and the peer's figure for the same jobs."""
    works = measures.works
    jobs = len(works)
    rows = [
        ("fair deviation %", 100 * measures.off_fair / measures.fair, "<= 3"),
        ("quota shortfall %", 100 * measures.off_guaranteed / measures.guaranteed, "<= 0.1"),
        ("preemptions per 100 jobs", 100 * sum(work.evictions for work in works) / jobs, "<= 6"),
        ("evictions of any one job", max(work.evictions for work in works), ""),
        ("utilisation of min(GPUs, demand) %", 100 * measures.held / measures.useful, ">= 99.6"),
        ("moves per 100 jobs", 100 * sum(work.moves for work in works) / jobs, ""),
        ("stops of any one job, moves too", max(work.evictions + work.moves for work in works), "<= 5"),
        ("work lost %", 100 * measures.lost / measures.held, ""),
        ("mean wait h", sum(work.waited_s for work in works) / jobs / 3600, "<= 4.5"),
        ("p95 wait h", _p95(works), ""),
    ]
    print(f"{jobs} jobs, {GPUS} GPUs, from job {FIRST} on, {measures.cycles} cycles, {cpu_s:.0f} s of CPU")
    print(rules)
    print(f"  {'':36} {'ours':>9}  {'target':8}  peer, same jobs")
    for name, value, target in rows:
        print(f"  {name:36} {value:9.3f}  {target:8}  {PEER.get(jobs if not FIRST else 0, {}).get(name, '')}")


def _p95(works: Sequence[Work]) -> float:
    return sorted(work.waited_s for work in works)[int(0.95 * len(works))] / 3600


def _show_progress(number: int) -> None:
    if number % 1000 == 0:
        print(f"job {number}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
