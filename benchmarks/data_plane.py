"""Sync and hydration of many small files, against plain per-file copying in the same run.

The peer is `shutil.copytree`: a per-file copy within one machine, with no hashing, no versions and no network. It is
the physical limit of "just copy the folder", which is what people do today.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.product import median, running

FILES = int(os.environ.get("BENCH_FILES", "20000"))
SIZE = 40_000
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))


def main() -> None:
    rows: dict[str, list[float]] = {}

    def timed(label: str, work: Callable[[], object]) -> None:
        started = time.perf_counter()
        work()
        rows.setdefault(label, []).append(time.perf_counter() - started)

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
            cache = ("data", "cache", f"bench/{name}@main", "--wait", "--json")
            timed("cache the commit (hydrate and verify)", lambda: product.cli(*cache, cwd=source))
            (source / "d00" / "f00000.bin").write_bytes(os.urandom(SIZE))
            timed("sync one changed file", lambda: product.cli("data", "sync", "--quiet", cwd=source))
            timed("cache it again (share and delta)", lambda: product.cli(*cache, cwd=source))
            for folder in (source, base / "copy"):
                shutil.rmtree(folder)

    limit = median(rows["copy the folder file by file"])
    print(f"{FILES} files of {SIZE} bytes, median of {ROUNDS}, whole CLI processes on an embedded product")
    print(f"{'':<42}{'seconds':>9}{'ratio to the copy':>20}")
    for label, seconds in rows.items():
        print(f"{label:<42}{median(seconds):>9.2f}{median(seconds) / limit:>20.2f}")


def write_files(folder: Path, *, seed: int) -> None:
    """Write FILES incompressible files into folders of 1,000."""
    block = os.urandom(SIZE * 2)
    for number in range(FILES):
        if number % 1000 == 0:
            (folder / f"d{number // 1000:02}").mkdir(parents=True)
        start = (number * 7919 + seed) % SIZE
        name = f"{seed}-{number}".encode().ljust(16)
        (folder / f"d{number // 1000:02}" / f"f{number:05}.bin").write_bytes(name + block[start : start + SIZE - 16])
