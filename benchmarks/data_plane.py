"""Sync and hydration of many small files, against plain per-file copying in the same run.

The peer is `shutil.copytree`: a per-file copy within one machine, with no hashing, no versions and no network. It is
the physical limit of "just copy the folder", which is what people do today. `BENCH_FILES`, `BENCH_SIZE` (bytes of a
file) and `BENCH_ROUNDS` change the size. Where other work shares the machine, compare the CPU of our client, not seconds.
"""

import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.product import median, running

FILES = int(os.environ.get("BENCH_FILES", "20000"))
SIZE = int(os.environ.get("BENCH_SIZE", "40000"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))


def main() -> None:
    rows: dict[str, list[tuple[float, float]]] = {}

    def timed(label: str, work: Callable[[], object]) -> None:
        started, cpu = time.perf_counter(), children_cpu()
        work()
        rows.setdefault(label, []).append((time.perf_counter() - started, children_cpu() - cpu))

    with running() as product, tempfile.TemporaryDirectory(prefix="nearline-bench-") as scratch:
        base = Path(scratch)
        product.cli("project", "create", "bench", cwd=base)
        for number in range(ROUNDS):
            source, name = base / f"source{number}", f"files{number}"
            write_files(source, seed=number)
            timed("copy the folder file by file", lambda: shutil.copytree(source, base / "copy"))
            product.cli("data", "init", "--project", "bench", "--title", name, cwd=source)
            timed("sync and commit", lambda: product.cli("data", "sync", "--quiet", cwd=source))
            timed("sync without a change", lambda: product.cli("data", "sync", "--quiet", cwd=source))
            clone = ("data", "clone", f"bench/{name}", str(base / "clone"))
            timed("clone", lambda: product.cli(*clone, cwd=base))
            cache = ("data", "cache", f"bench/{name}@main", "--wait", "--json")
            timed("cache the commit (hydrate and verify)", lambda: product.cli(*cache, cwd=source))
            (source / "d00" / "f00000.bin").write_bytes(os.urandom(SIZE))
            timed("sync one changed file", lambda: product.cli("data", "sync", "--quiet", cwd=source))
            timed("cache it again (share and delta)", lambda: product.cli(*cache, cwd=source))
            for folder in (source, base / "copy", base / "clone"):
                shutil.rmtree(folder)

    limit, _ = map(median, zip(*rows["copy the folder file by file"], strict=True))
    print(f"{FILES} files of {SIZE} bytes, median of {ROUNDS}, whole CLI processes on an embedded product")
    print(f"{'':<42}{'seconds':>9}{'ratio to the copy':>20}{'CPU of our client':>20}")
    for label, measured in rows.items():
        seconds, cpu = map(median, zip(*measured, strict=True))
        print(f"{label:<42}{seconds:>9.2f}{seconds / limit:>20.2f}{cpu:>20.2f}")


def children_cpu() -> float:
    """Return the CPU seconds of all processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def write_files(folder: Path, *, seed: int) -> None:
    """Write FILES incompressible files into folders of 1,000."""
    block = os.urandom(SIZE * 2)
    for number in range(FILES):
        if number % 1000 == 0:
            (folder / f"d{number // 1000:02}").mkdir(parents=True)
        start = (number * 7919 + seed) % SIZE
        name = f"{seed}-{number}".encode().ljust(16)
        (folder / f"d{number // 1000:02}" / f"f{number:05}.bin").write_bytes(name + block[start : start + SIZE - 16])
