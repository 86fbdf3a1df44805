"""The data plane against the tools that people use today: the same bytes, the same store, in turn, each copy compared.

One command builds the sets, starts versitygw (NEARLINE_TEST_VERSITYGW, or on the path) and an embedded product on it, and
runs our real CLI, every peer that is installed, and the ceiling: objects of 32 MiB between memory and the store. Who goes
first changes with each round. All share the machine, so its other work tells on the seconds; the CPU of the client and
the ratios tell more. `BENCH_SETS` (files x bytes), `BENCH_ROUNDS`, `BENCH_PEERS` (a folder of programs, such as the `bin` of a
virtual environment) and TMPDIR (where sets and store lie) change what is done.
"""

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.data_plane.ceiling import Ceiling
from benchmarks.data_plane.peers import Bucket, Peer, PeerFailed, find_peers
from benchmarks.data_plane.trees import hash_tree, remove_tree, write_tree
from benchmarks.product import median, running
from tests.folders import open_folder
from tests.journeys.product import Product
from tests.services import find_tools, s3

SETS = os.environ.get("BENCH_SETS", "20000x40000 2000x400000")
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
PROGRAMS = os.environ.get("BENCH_PEERS", "")


@dataclass
class Results:
    """Seconds and CPU seconds of the client, by what was done and who did it."""

    rows: dict[tuple[str, str], list[tuple[float, float]]] = field(default_factory=dict)

    def measure(self, work: str, who: str, do: Callable[[], object]) -> None:
        """Do something and note what it took."""
        started, cpu = time.perf_counter(), _cpu_of(resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)
        do()
        used = _cpu_of(resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF) - cpu
        self.rows.setdefault((work, who), []).append((time.perf_counter() - started, used))

    def show(self, title: str, ceilings: dict[str, str]) -> None:
        """Print the medians. A ratio is that of the peer's seconds to ours: above 1, ours is quicker."""
        medians = {key: tuple(map(median, zip(*measured, strict=True))) for key, measured in self.rows.items()}
        print(
            f"\n{title}\n\n| work | who | seconds | CPU of the client | seconds / ours | CPU / ours |\n| --- | --- | --- | --- | --- | --- |"
        )
        for (work, who), (seconds, cpu) in sorted(medians.items(), key=lambda row: (row[0][0], row[1])):
            our_seconds, our_cpu = medians.get((work, "ours")) or medians[ceilings[work], "ours"]
            print(f"| {work} | {who} | {seconds:.2f} | {cpu:.2f} | {seconds / our_seconds:.2f} | {cpu / our_cpu:.2f} |")


def main() -> None:
    versitygw = find_tools()["versitygw"]
    if versitygw is None:
        print("This needs versitygw, on the path or by NEARLINE_TEST_VERSITYGW; see CONTRIBUTING.md.")
        return
    with ExitStack() as stack:
        base = stack.enter_context(open_folder())
        store = stack.enter_context(s3(versitygw, base))
        endpoint, name = store["NEARLINE_TEST_S3"], store["NEARLINE_TEST_BUCKET"]
        keys = store["NEARLINE_TEST_S3_ACCESS_KEY"], store["NEARLINE_TEST_S3_SECRET_KEY"]
        bucket = Bucket(endpoint, name, *keys)
        peers, missing = find_peers(bucket, PROGRAMS)
        for peer, source in missing.items():
            print(f"{peer} is not installed, so it is left out. It is had from {source}.")
        product = stack.enter_context(
            running(
                NEARLINE_STORE_URL=f"s3://{name}/ours?endpoint={endpoint}",
                NEARLINE_STORE_ACCESS_KEY=keys[0],
                NEARLINE_STORE_SECRET_KEY=keys[1],
            )
        )
        product.cli("project", "create", "bench", cwd=base)
        for text in SETS.split():
            files, size = map(int, text.split("x"))
            ceiling = Ceiling(bucket, size_bytes=files * size)
            _Comparison(product, peers, ceiling, base / "s3" / name, files, size).run()


@dataclass
class _Comparison:
    """All tools on one set. `stored` is the folder of the bucket."""

    product: Product
    peers: dict[str, Peer]
    ceiling: Ceiling
    stored: Path
    files: int
    size: int
    results: Results = field(default_factory=Results)

    def run(self) -> None:
        for number in range(ROUNDS):
            with tempfile.TemporaryDirectory(prefix="nearline-bench-") as folder:
                source = Path(folder) / "source"
                write_tree(source, files=self.files, size=self.size, seed=number)
                expected = hash_tree(source)
                turns: list[Callable[[], None]] = [
                    self._run_ceiling,
                    lambda: self._run_ours(source, expected, number),
                    *(lambda name=name: self._run_peer(name, source, expected) for name in self.peers),
                ]
                first = number % len(turns)
                for turn in (*turns[first:], *turns[:first]):
                    turn()
        title = f"{self.files:,} files of {self.size:,} bytes, median of {ROUNDS}, load {os.getloadavg()[1]:.1f}"
        self.results.show(title, {"PUT ceiling": "send", "GET ceiling": "fetch"})

    def _run_ceiling(self) -> None:
        self.results.measure("PUT ceiling", f"{self.ceiling.size_bytes >> 20} MiB", self.ceiling.put)
        self.results.measure("GET ceiling", f"{self.ceiling.size_bytes >> 20} MiB", self.ceiling.get)
        remove_tree(self.stored / "ceiling")

    def _run_ours(self, source: Path, expected: str, number: int) -> None:
        product, measure = self.product, self.results.measure
        name, clone = f"set-{self.files}-{self.size}-{number}", source.with_name("clone")
        product.cli("data", "init", "--project", "bench", "--title", name, cwd=source)
        measure("send", "ours", lambda: product.cli("data", "sync", "--quiet", cwd=source))
        measure("no change", "ours", lambda: product.cli("data", "sync", "--quiet", cwd=source))
        measure("fetch", "ours", lambda: product.cli("data", "clone", f"bench/{name}", str(clone), cwd=source.parent))
        _check(clone, expected)
        remove_tree(clone)
        done = []
        cache = ("data", "cache", f"bench/{name}@main", "--wait", "--json")
        measure("cache", "ours", lambda: done.append(product.cli(*cache, cwd=source)))
        _check(Path(json.loads(done[0].stdout)["path"]), expected)
        product.cli("data", "uncache", f"bench/{name}@main", "--yes", cwd=source)
        remove_tree(source / ".nearline")
        # The store is kept in memory where TMPDIR is: the next rounds need the space.
        remove_tree(self.stored / "ours")

    def _run_peer(self, name: str, source: Path, expected: str) -> None:
        peer, prefix, copy = self.peers[name], f"peer-{name}", source.with_name("copy")
        prepared, times = peer.prepare(source), []
        copy.mkdir()
        try:
            self.results.measure("send", name, lambda: peer.send(prepared, prefix))
            self.results.measure("fetch", name, lambda: times.append(peer.fetch(prefix, copy)))
            _check(times[0], expected)
        except PeerFailed as error:
            print(f"This does not count: {error}", file=sys.stderr)
        for folder in (copy, self.stored / prefix, *([prepared] if prepared != source else [])):
            remove_tree(folder)


def _check(copy: Path, expected: str) -> None:
    if hash_tree(copy) != expected:
        raise AssertionError(f"{copy} is not what was sent.")


def _cpu_of(*whose: int) -> float:
    used = [resource.getrusage(who) for who in whose]
    return sum(one.ru_utime + one.ru_stime for one in used)
