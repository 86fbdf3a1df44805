"""Run every benchmark and print its table: `make bench`, or `python -m benchmarks NAME`."""

import sys

from benchmarks import early_start, experiments, fan, handover, handover_peers, pages, pods
from benchmarks.data_plane import compare, growth

BENCHMARKS = {
    "data_plane": compare.main,
    "data_growth": growth.main,
    "early_start": early_start.main,
    "experiments": experiments.main,
    "fan": fan.main,
    "handover": handover.main,
    "handover_peers": handover_peers.main,
    "pages": pages.main,
    "pods": pods.main,
}

for name in sys.argv[1:] or BENCHMARKS:
    print(f"\n## {name}")
    BENCHMARKS[name]()
