"""Run every benchmark and print its table: `make bench`, or `python -m benchmarks NAME`."""

import os
import sys

from benchmarks import delta, early_start, experiments, fan, handover, handover_peers, pages, pod_start, pods, turns
from benchmarks.data_plane import compare, growth, soak

BENCHMARKS = {
    "data_plane": compare.main,
    "data_growth": growth.main,
    "data_soak": soak.main,
    "delta": delta.main,
    "early_start": early_start.main,
    "experiments": experiments.main,
    "fan": fan.main,
    "handover": handover.main,
    "handover_peers": handover_peers.main,
    "pages": pages.main,
    "pod_start": pod_start.main,
    "pods": pods.main,
    "turns": turns.main,
}

# It takes an hour, and 250 GB where the file system does not compress.
BY_NAME_ALONE = {"data_soak"}

# Or each process of the product that is measured compiles its code first, which no installed one does.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

for name in sys.argv[1:] or [name for name in BENCHMARKS if name not in BY_NAME_ALONE]:
    print(f"\n## {name}")
    BENCHMARKS[name]()
