"""The published trace of a production GPU cluster (Alibaba gpu-v2023, "openb"), as the packing benchmark uses it."""

import csv
import gzip
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "traces" / "openb"
"""Where the trace lies: beside the checkout, it is not part of it."""

_NODES, _PODS = "openb_node_list_gpu_node", "openb_pod_list_"

DRAWN = {"cpu250*": (0.25, 3), "cpu300*": (0.3, 2)}
"""Lists drawn here, as the trace's cpu050 to cpu200 were: which part of their pods has no GPUs, and a seed."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One node: thousandths of cores, MiB, GPUs and their model."""

    name: str
    cpu: int
    memory: int
    gpus: int
    model: str


@dataclass(frozen=True, slots=True)
class Kind:
    """What a pod asks for: `gpus` devices with `milli` thousandths of each. No `models` stand for any."""

    cpu: int
    memory: int
    gpus: int
    milli: int
    models: frozenset[str]

    @property
    def gpu_milli(self) -> int:
        """Thousandths of GPUs in all."""
        return self.gpus * self.milli


def list_names() -> list[str]:
    """Return the names of the pod lists that are present, and of those drawn from one; none without the trace."""
    present = [path.name.removeprefix(_PODS).removesuffix(".csv.gz") for path in FOLDER.glob(f"{_PODS}*.csv.gz")]
    return sorted([*present, *DRAWN] if "default" in present else present)


def read_machines() -> list[Machine]:
    """Return the nodes with GPUs."""
    return [
        Machine(row["sn"], int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])
        for row in _rows(_NODES)
    ]


def read_pods(name: str) -> list[Kind]:
    """Return what the pods of a list ask for, by name of the pod.

    A drawn list has the pods with GPUs of `default`, and as many of its others as make up their part, in any order.
    """
    if name in DRAWN:
        part, seed = DRAWN[name]
        chance, default = random.Random(seed), read_pods("default")
        pods, others = [pod for pod in default if pod.gpus], [pod for pod in default if not pod.gpus]
        pods += [chance.choice(others) for _ in range(round(len(pods) * part / (1 - part)))]
        chance.shuffle(pods)
        return pods
    rows = sorted(_rows(_PODS + name), key=lambda row: row["name"])
    return [
        Kind(
            int(row["cpu_milli"]),
            int(row["memory_mib"]),
            int(row["num_gpu"]),
            int(row["gpu_milli"]) if int(row["num_gpu"]) else 0,
            frozenset(filter(None, row.get("gpu_spec", "").split("|"))),
        )
        for row in rows
    ]


def arrivals(pods: Sequence[Kind], seed: int, until_milli: float) -> list[Kind]:
    """Return the pods in a random order, then random ones of them again, until they ask for so much of GPUs."""
    chance = random.Random(seed)
    order = list(pods)
    chance.shuffle(order)
    stream: list[Kind] = []
    asked = 0
    while asked < until_milli:
        pod = order[len(stream)] if len(stream) < len(order) else chance.choice(order)
        stream.append(pod)
        asked += pod.gpu_milli
    return stream


def _rows(name: str) -> Iterator[dict[str, str]]:
    with gzip.open(FOLDER / f"{name}.csv.gz", "rt", encoding="utf-8") as file:
        yield from csv.DictReader(file)
