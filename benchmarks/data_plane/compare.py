"""The data plane against the tools that people use today: the same bytes, the same store, in turn, each copy compared.

One command builds the sets, starts versitygw and, where it is installed, Ceph's gateway, each with an embedded product on
it, and runs our real CLI, every peer that is installed, and the ceiling: objects of 32 MiB between memory and the store.
Who goes first changes with each round. All share the machine, so its other work tells on the seconds; the CPU of the client
and the ratios tell more. `BENCH_SETS` (files x bytes), `BENCH_ROUNDS`, `BENCH_PEERS` (a folder of programs, such as the `bin` of a
virtual environment), `BENCH_STORES` (versitygw, ceph, folder), `BENCH_ROUND_TRIPS_MS` (0; S3 servers over links with such round
trips), `BENCH_PLOT` (a file for the plot of all) and TMPDIR (where sets and stores lie) change what is done.
"""

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.data_plane import ceiling
from benchmarks.data_plane.ceiling import Ceiling
from benchmarks.data_plane.peers import Peer, PeerFailed, find_peers, missing_peers
from benchmarks.data_plane.stores import OURS, at_a_distance, known_stores, settings_of
from benchmarks.data_plane.targets import Bucket, Target
from benchmarks.data_plane.trees import hash_tree, remove_tree, write_tree
from benchmarks.product import median, running
from tests.folders import open_folder
from tests.journeys.product import Product

SETS = os.environ.get("BENCH_SETS", "20000x40000 2000x400000")
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
PROGRAMS = os.environ.get("BENCH_PEERS", "")
STORES = os.environ.get("BENCH_STORES", "versitygw ceph folder")
ROUND_TRIPS_MS = os.environ.get("BENCH_ROUND_TRIPS_MS", "0")
PLOT = os.environ.get("BENCH_PLOT", "")
_CEILINGS = {"PUT ceiling": "send", "GET ceiling": "fetch"}
"""Which of our works a ceiling is compared with."""


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

    def medians(self) -> dict[tuple[str, str], tuple[float, float]]:
        """Return the median of the seconds and of the CPU seconds, by what was done and who did it."""
        return {key: tuple(map(median, zip(*measured, strict=True))) for key, measured in sorted(self.rows.items())}

    def show(self, title: str) -> None:
        """Print the medians. A ratio is that of the peer's seconds to ours: above 1, ours is quicker."""
        medians = self.medians()
        print(
            f"\n{title}\n\n| work | who | seconds | CPU of the client | seconds / ours | CPU / ours |\n| --- | --- | --- | --- | --- | --- |"
        )
        for (work, who), (seconds, cpu) in medians.items():
            our_seconds, our_cpu = medians[_CEILINGS.get(work, work), "ours"]
            print(
                f"| {work} | {who} | {seconds:.2f} | {cpu:.2f} | {seconds / our_seconds:.2f} | {cpu / our_cpu:.2f} |",
                flush=True,
            )


def main() -> None:
    for peer, source in missing_peers(PROGRAMS).items():
        print(f"{peer} is not installed, so it is left out. It is had from {source}.")
    panels: dict[str, Results] = {}
    for name, kind in known_stores().items():
        if name not in STORES.split():
            continue
        if kind.missing:
            print(f"{kind.title} is left out: it needs {kind.missing}.")
            continue
        with open_folder() as base, kind.start(base) as target:
            for text in ROUND_TRIPS_MS.split() if isinstance(target, Bucket) else "0":
                with at_a_distance(target, float(text) / 1000) as place:
                    where = f"{kind.title}, round trip {text} ms" if float(text) else kind.title
                    panels |= {f"{what}\n{where}": results for what, results in _compare(where, place, base)}
    if PLOT:
        from benchmarks.data_plane import plot

        seconds = {
            title: {key: seconds for key, (seconds, _) in results.medians().items()}
            for title, results in panels.items()
        }
        plot.draw_comparison(seconds, Path(PLOT))


def _compare(where: str, target: Target, base: Path) -> Iterator[tuple[str, Results]]:
    """Compare all tools on each set; yield what was copied, and what it took."""
    with running(**settings_of(target)) as product:
        product.cli("project", "create", "bench", cwd=base)
        for text in SETS.split():
            files, size = map(int, text.split("x"))
            comparison = _Comparison(product, target, files, size)
            comparison.run()
            what = f"{files:,} files of {size:,} bytes"
            comparison.results.show(f"{what}, {where}, median of {ROUNDS}, load {os.getloadavg()[1]:.1f}")
            yield what, comparison.results
        if isinstance(target, Bucket):
            target.remove(OURS)


@dataclass
class _Comparison:
    """All tools on one set."""

    product: Product
    target: Target
    files: int
    size: int
    results: Results = field(default_factory=Results)

    def run(self) -> None:
        peers = find_peers(self.target, PROGRAMS)
        most = Ceiling(self.target, size_bytes=self.files * self.size)
        for number in range(ROUNDS):
            with tempfile.TemporaryDirectory(prefix="nearline-bench-") as folder:
                source = Path(folder) / "source"
                write_tree(source, files=self.files, size=self.size, seed=number)
                expected = hash_tree(source)
                turns: list[Callable[[], None]] = [
                    lambda: self._run_ceiling(most),
                    lambda: self._run_ours(source, expected, number),
                    *(lambda row=row: self._run_peer(*row, source, expected) for row in peers.items()),
                ]
                first = number % len(turns)
                for turn in (*turns[first:], *turns[:first]):
                    turn()

    def _run_ceiling(self, most: Ceiling) -> None:
        self.results.measure("PUT ceiling", f"{most.size_bytes >> 20} MiB", most.put)
        self.results.measure("GET ceiling", f"{most.size_bytes >> 20} MiB", most.get)
        self.target.remove(ceiling.PREFIX)

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
        self.target.remove(OURS)
        remove_tree(product.home / "store" / "datasets")

    def _run_peer(self, name: str, peer: Peer, source: Path, expected: str) -> None:
        prefix, copy = f"peer-{name}", source.with_name("copy")
        prepared, times = peer.prepare(source), []
        copy.mkdir()
        try:
            self.results.measure("send", name, lambda: peer.send(prepared, prefix))
            self.results.measure("fetch", name, lambda: times.append(peer.fetch(prefix, copy)))
            _check(times[0], expected)
        except PeerFailed as error:
            print(f"This does not count: {error}", file=sys.stderr)
        self.target.remove(prefix)
        for folder in (copy, *([prepared] if prepared != source else [])):
            remove_tree(folder)


def _check(copy: Path, expected: str) -> None:
    if hash_tree(copy) != expected:
        raise AssertionError(f"{copy} is not what was sent.")


def _cpu_of(*whose: int) -> float:
    used = [resource.getrusage(who) for who in whose]
    return sum(one.ru_utime + one.ru_stime for one in used)
