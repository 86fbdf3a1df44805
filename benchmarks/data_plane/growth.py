"""What work on a dataset costs as it grows: seconds, CPU, peak memory and bytes, beside the bare walk.

`BENCH_GROWTH` are the numbers of files, which are small: their bytes are not what is measured. `BENCH_PLOT` names a file
for a plot of the seconds over the number of files. The store is the folder of
an embedded product. TMPDIR is where all lies. Bytes are content that was sent or copied, or those of an answer. The
system counts a client's memory as no less than that of the benchmark, which starts it: some 84 MB. Of
a client that shares its work among processes, it is the memory of the largest one; their CPU is counted together.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.data_plane.trees import hash_tree, write_tree
from benchmarks.product import running
from tests.journeys.product import BIN, Product

NUMBERS = os.environ.get("BENCH_GROWTH", "10000 100000 627615")
PLOT = os.environ.get("BENCH_PLOT", "")
_SIZE = 64
_DATASET = "/datasets/bench/growth"
_MOVED = {"bytes_uploaded", "bytes_downloaded", "bytes_moved"}


_COLUMNS = (
    "files",
    "what",
    "seconds",
    "CPU of the client",
    "memory of the client",
    "CPU of the server",
    "memory of the server",
    "bytes",
    "manifests",
)


def main() -> None:
    print(f"| {' | '.join(_COLUMNS)} |")
    print("| --- " * len(_COLUMNS) + "|")
    seconds: dict[str, dict[int, float]] = defaultdict(dict)
    for text in NUMBERS.split():
        with running() as product, tempfile.TemporaryDirectory(prefix="nearline-bench-") as folder:
            source = Path(folder) / "source"
            write_tree(source, files=int(text), size=_SIZE, seed=0)
            _Growth(product, source, int(text), seconds).run()
    if PLOT:
        # Not before: what this process has in memory is counted as its clients'.
        from benchmarks.data_plane import plot

        plot.draw_growth(seconds, Path(PLOT))


@dataclass
class _Growth:
    product: Product
    source: Path
    files: int
    seconds: dict[str, dict[int, float]]

    def run(self) -> None:
        product, source = self.product, self.source
        product.cli("project", "create", "bench", cwd=source)
        product.cli("data", "init", "--project", "bench", "--title", "growth", cwd=source)
        self._show(
            "the bare walk",
            "-c",
            f"import os; [os.stat(n, dir_fd=d) for *_, f, d in os.fwalk({str(source)!r}) for n in f]",
        )
        self._sync("first sync")
        # What has just been written is not trusted to stay as it is, and is read once more.
        self._sync("sync again")
        self._sync("no change")
        self._change(1)
        self._sync("commit of one file")
        self._change(self.files // 50)
        self._sync("commit of 2 % of the files")
        newest, before = product.api("GET", f"{_DATASET}/commits?limit=2")["items"]
        self._ask("the first page of its diff", f"/diff?base={before['id']}&ref={newest['id']}&limit=100")
        self._ask("search by a part of the name", "/files?glob=**5999.bin")
        # What the server still has in memory would not be there for most who look.
        product.stop()
        product.start()
        self._ask("browse the top", "/files?limit=100")
        self._ask("browse a folder", f"/files?path=d{self.files // 2000:03}&limit=100")
        self._copy()

    def _copy(self) -> None:
        """Cache and clone the newest commit; both are verified by the product, and here once more."""
        expected, clone = hash_tree(self.source), self.source.with_name("clone")
        cached = self._cli("cache", "data", "cache", "bench/growth@main", "--wait")
        assert hash_tree(Path(cached["path"])) == expected
        self._cli("clone", "data", "clone", "bench/growth", str(clone))
        assert hash_tree(clone) == expected

    def _change(self, count: int) -> None:
        step = self.files // count
        for path in sorted(self.source.glob("d*/*"))[step // 2 :: step][:count]:
            path.write_bytes(os.urandom(_SIZE))

    def _sync(self, what: str) -> None:
        self._cli(what, "data", "sync")

    def _cli(self, what: str, *arguments: str) -> dict:
        return json.loads(self._show(what, str(BIN / "nearline"), *arguments, "--json"))

    def _show(self, what: str, *command: str) -> str:
        product, stored = self.product, self._manifest_bytes()
        environment = {**product.environment, "NEARLINE_URL": product.url, "NEARLINE_TOKEN": product.token}
        with tempfile.TemporaryFile("w+") as output:
            with self._measure(what) as row:
                process = subprocess.Popen([sys.executable, *command], cwd=self.source, env=environment, stdout=output)
                _, status, used = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
            assert process.returncode == 0, (command, process.returncode)
            output.seek(0)
            text = output.read()
        moved = sum(value for name, value in json.loads(text or "{}").items() if name in _MOVED)
        row["CPU of the client"] = f"{used.ru_utime + used.ru_stime:.2f}"
        row["memory of the client"] = f"{used.ru_maxrss / 1024:.0f} MB"
        row["bytes"] = f"{moved / 1e6:.2f} MB"
        row["manifests"] = f"{(self._manifest_bytes() - stored) / 1e6:.2f} MB"
        self._print(row)
        return text

    def _ask(self, what: str, path: str) -> None:
        for attempt in ("", ", again"):
            request = urllib.request.Request(
                f"{self.product.url}/api/v1{_DATASET}{path}", headers={"Authorization": f"Bearer {self.product.token}"}
            )
            with self._measure(what + attempt) as row, urllib.request.urlopen(request, timeout=60) as answer:
                content = answer.read()
            self._print({**row, "bytes": f"{len(content) / 1e6:.2f} MB"})

    @contextmanager
    def _measure(self, what: str) -> Iterator[dict[str, str]]:
        """Yield a row; what happens meanwhile is in it afterwards."""
        row = {"files": f"{self.files:,}", "what": what}
        for process in self.product.processes.values():
            # From here on its peak is counted anew, as proc(5) says.
            Path(f"/proc/{process.pid}/clear_refs").write_text("5")
        cpu, started = self._server_cpu(), time.perf_counter()
        yield row
        self.seconds[what][self.files] = time.perf_counter() - started
        row["seconds"] = f"{self.seconds[what][self.files]:.2f}"
        row["CPU of the server"] = f"{self._server_cpu() - cpu:.2f}"
        row["memory of the server"] = f"{self._server_peak() / 1024:.0f} MB"

    def _print(self, row: dict[str, str]) -> None:
        print(f"| {' | '.join(row.get(column, '') for column in _COLUMNS)} |", flush=True)

    def _server_cpu(self) -> float:
        ticks = 0
        for process in self.product.processes.values():
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            # utime, stime, cutime and cstime of proc(5), counted from what follows the name.
            ticks += sum(map(int, fields[11:15]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def _server_peak(self) -> int:
        """Return the kilobytes that the server had in memory at most."""
        statuses = [Path(f"/proc/{process.pid}/status").read_text() for process in self.product.processes.values()]
        return sum(int(line.split()[1]) for text in statuses for line in text.splitlines() if line.startswith("VmHWM"))

    def _manifest_bytes(self) -> int:
        store = self.product.home
        return sum(path.stat().st_size for kind in ("ranges", "roots") for path in store.glob(f"**/{kind}/*"))
