"""Whether memory stays flat while a dataset of 250 GB in 627,615 files is synced, cached and cloned.

Each file begins with its own 16 bytes and is a hole from there on, so the set takes little of a disk; what reads it sees
all of its bytes. TMPDIR should be on a file system that compresses (btrfs with zstd): store and copies hold all of them. A
hundredth of the files has two thirds of the bytes, and those are stored in chunks, of which the empty ones are equal.
BENCH_FILES and BENCH_BYTES change the size.

Printed is what the client and the server have in memory at each tenth of the time, in MB.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.product import running
from tests.journeys.product import BIN, Product

FILES = int(os.environ.get("BENCH_FILES", "627615"))
BYTES = int(float(os.environ.get("BENCH_BYTES", "250e9")))
_FILES_IN_A_FOLDER = 1000
_EVERY_S = 0.5


def main() -> None:
    """Print one row for each piece of work."""
    moments = " | ".join(f"{tenth}0 %" for tenth in range(1, 11))
    print(f"{FILES:,} files, {BYTES / 1e9:,.0f} GB, load {os.getloadavg()[0]:.1f}\n")
    print(f"| what | minutes | MB/s | of | {moments} | at most |")
    print("| --- " * 15 + "|")
    with running() as product, tempfile.TemporaryDirectory(prefix="nearline-bench-") as folder:
        source = Path(folder) / "source"
        write_holes(source)
        product.cli("project", "create", "bench", cwd=source)
        product.cli("data", "init", "--project", "bench", "--title", "soak", cwd=source)
        _show(product, source, "first sync", "data", "sync")
        _show(product, source, "sync again", "data", "sync")
        cached = _show(product, source, "cache", "data", "cache", "bench/soak@main", "--wait")
        compare(source, Path(cached["path"]))
        _show(product, source, "clone", "data", "clone", "bench/soak", str(source.with_name("clone")))
        compare(source, source.with_name("clone"))


def write_holes(folder: Path) -> None:
    """Write the files: a hundredth of them takes two thirds of the bytes, and no two of a kind have the same size."""
    large = FILES // 100 or 1
    mean_large, mean_small = BYTES * 2 // 3 // large, BYTES // 3 // max(1, FILES - large)
    for number in range(FILES):
        parent = folder / f"d{number // _FILES_IN_A_FOLDER:03}"
        if number % _FILES_IN_A_FOLDER == 0:
            parent.mkdir(parents=True)
        mean = mean_large if number % 100 == 99 else mean_small
        with (parent / f"f{number:06}.bin").open("wb") as file:
            file.write(f"{number}".encode().ljust(16))
            # From half the mean to one and a half times the mean.
            file.truncate(mean // 2 + number * 7919 % mean)


def compare(source: Path, copy: Path) -> None:
    """Refuse a copy that differs from the source in a path, a size, or the bytes of a file that begin it or end it."""
    expected, read = describe(source), describe(copy)
    assert expected == read, f"{len(expected.items() ^ read.items())} differences"


def describe(folder: Path) -> dict[str, tuple[int, bytes, bytes]]:
    """Return of each file its size and the bytes at its ends; all between is hashed by the product."""
    files = {}
    for path in folder.glob("d*/*.bin"):
        with path.open("rb") as file:
            head = file.read(16)
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 16))
            files[str(path.relative_to(folder))] = size, head, file.read()
    return files


def _show(product: Product, source: Path, what: str, *arguments: str) -> dict:
    environment = {**product.environment, "NEARLINE_URL": product.url, "NEARLINE_TOKEN": product.token}
    command = [sys.executable, str(BIN / "nearline"), *arguments, "--json"]
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, cwd=source, env=environment, stdout=output)
        client = _Memory(lambda: [process.pid, *_children(process.pid)])
        server = _Memory(lambda: [server.pid for server in product.processes.values()])
        assert process.wait() == 0, (command, process.returncode)
        seconds = time.perf_counter() - started
        rows = {"client": client.stop(), "server": server.stop()}
        output.seek(0)
        answer = json.load(output)
    for who, samples in rows.items():
        moments = " | ".join(f"{samples[(len(samples) - 1) * tenth // 10]:.0f}" for tenth in range(1, 11))
        print(
            f"| {what} | {seconds / 60:.1f} | {BYTES / seconds / 1e6:,.0f} | {who} | {moments} | {max(samples):.0f} |",
            flush=True,
        )
    return answer


class _Memory(threading.Thread):
    """Notes what processes have in memory, twice a second, in MB."""

    def __init__(self, list_processes: Callable[[], list[int]]) -> None:
        super().__init__(daemon=True)
        self._list_processes = list_processes
        self._samples: list[float] = []
        self._ended = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._ended.wait(_EVERY_S if self._samples else 0):
            self._samples.append(sum(map(_resident, self._list_processes())) / 1e6)

    def stop(self) -> list[float]:
        self._ended.set()
        self.join()
        return self._samples


def _children(process: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except FileNotFoundError:
        return []


def _resident(process: int) -> int:
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
