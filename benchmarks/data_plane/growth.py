"""What nothing changed, one file and 2 % cost as a dataset grows: seconds, CPU, memory and manifests, beside the bare walk.

`BENCH_GROWTH` are the numbers of files, which are small: their bytes are not what is measured. The store is the folder of
an embedded product. TMPDIR is where all lies.
"""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.data_plane.trees import write_tree
from benchmarks.product import running
from tests.journeys.product import BIN, Product

NUMBERS = os.environ.get("BENCH_GROWTH", "10000 100000 627615")
_SIZE = 64
_DATASET = "/datasets/bench/growth"


def main() -> None:
    print("| files | what | seconds | CPU of the client | memory of the client | CPU of the server | manifests |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for text in NUMBERS.split():
        with running() as product, tempfile.TemporaryDirectory(prefix="nearline-bench-") as folder:
            source = Path(folder) / "source"
            write_tree(source, files=int(text), size=_SIZE, seed=0)
            _Growth(product, source, int(text)).run()


@dataclass
class _Growth:
    product: Product
    source: Path
    files: int

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
        product.cli("data", "sync", "--quiet", cwd=source)
        self._sync("no change")
        self._change(1)
        self._sync("commit of one file")
        self._change(self.files // 50)
        self._sync("commit of 2 % of the files")
        newest, before = product.api("GET", f"{_DATASET}/commits?limit=2")["items"]
        self._ask("the first page of its diff", f"/diff?base={before['id']}&ref={newest['id']}&limit=100")
        self._ask("search by a part of the name", "/files?glob=**5999.bin")

    def _change(self, count: int) -> None:
        step = self.files // count
        for path in sorted(self.source.glob("d*/*"))[step // 2 :: step][:count]:
            path.write_bytes(os.urandom(_SIZE))

    def _sync(self, what: str) -> None:
        self._show(what, str(BIN / "nearline"), "data", "sync", "--quiet")

    def _show(self, what: str, *command: str) -> None:
        product = self.product
        environment = {**product.environment, "NEARLINE_URL": product.url, "NEARLINE_TOKEN": product.token}
        server, stored, started = self._server_cpu(), self._manifest_bytes(), time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *command], cwd=self.source, env=environment, stdout=subprocess.DEVNULL
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - started
        assert process.returncode == 0, (command, process.returncode)
        server, stored = self._server_cpu() - server, self._manifest_bytes() - stored
        cpu, memory = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
        self._row(what, f"{seconds:.2f}", f"{cpu:.2f}", f"{memory:.0f} MB", f"{server:.2f}", f"{stored / 1e6:.2f} MB")

    def _ask(self, what: str, path: str) -> None:
        for attempt in ("", ", again"):
            server, started = self._server_cpu(), time.perf_counter()
            self.product.api("GET", _DATASET + path)
            seconds = time.perf_counter() - started
            self._row(what + attempt, f"{seconds:.2f}", "", "", f"{self._server_cpu() - server:.2f}", "")

    def _row(self, *values: str) -> None:
        print(f"| {self.files:,} | {' | '.join(values)} |", flush=True)

    def _server_cpu(self) -> float:
        ticks = 0
        for process in self.product.processes.values():
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            # utime, stime, cutime and cstime of proc(5), counted from what follows the name.
            ticks += sum(map(int, fields[11:15]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def _manifest_bytes(self) -> int:
        store = self.product.home
        return sum(path.stat().st_size for kind in ("ranges", "roots") for path in store.glob(f"**/{kind}/*"))
