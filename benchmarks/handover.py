"""What it costs when a step ends and the next one starts: SQL statements, CPU and time, and what idling costs.

A chain of `true` steps runs in the embedded product; with `BENCH_FULL=1` in the full one on PostgreSQL, Redis, Celery and
S3, which are started for it. Then it idles. Both are measured in an empty installation and in one with many runs that
have ended. CPU is that of the platform's own processes, without the jobs, their shims and the process that forks those.
A hand-over is the time between the end of a step's process and the start of the next one's, as their resource reports
them. What a step costs is all that the platform does until the logs of the chain are stored, beyond what it does idle.
What the database does is told in its own numbers: steps of SQLite's machine, or rows that PostgreSQL read.
"""

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import psycopg

from benchmarks import handover_peers
from benchmarks.counted import read_counts
from benchmarks.product import servers, shell
from tests.journeys.product import Product, is_full

STEPS = int(os.environ.get("BENCH_STEPS", "40"))
HISTORY = [int(count) for count in os.environ.get("BENCH_HISTORY", "0,10000").split(",")]
IDLE_S = float(os.environ.get("BENCH_IDLE_S", "60"))
_TICKS = os.sysconf("SC_CLK_TCK")
_COUNTED_LATE_S = 12
"""PostgreSQL's processes tell what they have read at most ten seconds later."""

_SEED = """
from flows.models import Run
from tests.factories.history import copy_run
copy_run(Run.objects.get(), {count})
"""
# Asked of the database by a process of its own: an answer of the platform costs more than the step that it tells about.
_WAIT = """
import time
from flows.models import Run
while Run.objects.filter(pk="{run_id}", is_live=True).exists():
    time.sleep(0.2)
"""
_WAIT_FOR_LOGS = """
import time
from compute.models import Job
while Job.objects.filter(log_stored_at=None).exists():
    time.sleep(0.2)
"""
_ROWS_READ = "SELECT tup_returned + tup_fetched FROM pg_stat_database WHERE datname = current_database()"


class Spent(NamedTuple):
    """What the platform has done up to a moment: statements, seconds of CPU, those of the kernel, and the database's work."""

    at: float
    statements: float
    cpu_s: float
    kernel_s: float
    database: float

    def since(self, earlier: "Spent") -> "Spent":
        """Return what was done between two moments."""
        return Spent(*(last - first for first, last in zip(earlier, self, strict=True)))

    def plus(self, other: "Spent") -> "Spent":
        """Return what was done in both of two spans."""
        return Spent(*(one + another for one, another in zip(self, other, strict=True)))

    def each(self, count: float) -> "Spent":
        """Return the part of one of so many."""
        return Spent(*(value / count for value in self))


class Counted(Product):
    """A product whose processes count their statements."""

    def spawn(self, name: str, command: list[str]) -> None:
        """Start a process of this installation that counts."""
        (self.home.parent / "counts").mkdir(exist_ok=True)
        self.environment["BENCH_COUNTS"] = str(self.home.parent / "counts")
        super().spawn(name, [command[0], "-m", "benchmarks.counted", *command[1:]])

    def spent(self) -> Spent:
        """Return what its processes have done so far."""
        ticks = kernel_ticks = 0
        for process in self.processes.values():
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
            kernel_ticks += int(fields[12])
        statements, steps = read_counts(self.home.parent / "counts")
        database = self._rows_read() if is_full() else steps
        return Spent(time.monotonic(), statements, ticks / _TICKS, kernel_ticks / _TICKS, database)

    def _rows_read(self) -> int:
        with psycopg.connect(self.environment["DATABASE_URL"]) as connection:
            row = connection.execute(_ROWS_READ).fetchone()
        return int(row[0]) if row is not None else 0


def main() -> None:
    with servers():
        print(
            "ended runs    of a step: statements  CPU ms  kernel ms  database   hand-over ms p50   p99    idle/s: statements  CPU %  database"
        )
        for count in HISTORY:
            with _running() as product:
                _measure(product, count)
    if "BENCH_PEERS" in os.environ:
        handover_peers.main()


def _measure(product: Counted, count: int) -> None:
    product.api("POST", "/projects", {"name": "bench"})
    if count:
        _run(product, "past", 10)
        shell(product, _WAIT_FOR_LOGS)
        product.stop()
        shell(product, _SEED.format(count=count))
        product.start()
    _run(product, "warm", STEPS)
    shell(product, _WAIT_FOR_LOGS)
    time.sleep(_COUNTED_LATE_S)
    resting = product.spent()
    time.sleep(IDLE_S)
    idle = product.spent().since(resting).each(IDLE_S)
    ran, delays = _run(product, "chain", STEPS)
    spent_before = product.spent()
    shell(product, _WAIT_FOR_LOGS)
    time.sleep(_COUNTED_LATE_S)
    stored = product.spent().since(spent_before)
    step = ran.plus(stored.since(idle.each(1 / stored.at))).each(STEPS)
    p50, p99 = delays[len(delays) // 2] * 1000, delays[int(len(delays) * 0.99)] * 1000
    print(
        f"{count:10,}  {step.statements:22.1f}  {step.cpu_s * 1000:6.1f}  {step.kernel_s * 1000:9.1f}  {step.database:8,.0f}  {p50:17.1f}  {p99:5.0f}"
        f"  {idle.statements:20.1f}  {idle.cpu_s * 100:5.2f}  {idle.database:8,.0f}",
        flush=True,
    )


def _run(product: Counted, flow: str, steps: int) -> tuple[Spent, list[float]]:
    """Run a chain of so many steps; return what was done meanwhile, and the seconds of its hand-overs.

    What it takes to make the flow and the run, and to tell about them, is not among it.
    """
    text = f"flow: {flow}\nsteps:\n"
    for number in range(steps):
        after = f"    after: [s{number - 1}]\n" if number else ""
        text += f"  - name: s{number}\n    command: 'true'\n{after}    compute: [this-machine.small]\n"
    product.api("POST", "/flows", {"project": "bench", "text": text})
    run = product.api("POST", f"/flows/bench/{flow}/runs", {})
    before = product.spent()
    shell(product, _WAIT.format(run_id=run["id"]))
    ran = product.spent().since(before)
    done = product.api("GET", f"/runs/{run['id']}")
    if done["state"] != "succeeded":
        raise SystemExit(f"The run {done['state']}: {done['reason']}")
    moments = sorted((_at(job["started_at"]), _at(job["finished_at"])) for job in _jobs(product, run["id"]))
    return ran, sorted(later[0] - earlier[1] for earlier, later in pairwise(moments))


def _jobs(product: Product, run_id: str) -> Iterator[dict]:
    part = run_id.replace("_", "-")
    page = product.api("GET", "/compute/jobs?project=bench&limit=200")["items"]
    return (job for job in page if part in job["name"])


def _at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@contextlib.contextmanager
def _running() -> Iterator[Counted]:
    # Where an installation's home is by default: below the user's, and not in the /tmp that jobs have for themselves.
    with tempfile.TemporaryDirectory(prefix=".nearline-bench-", dir=Path.home()) as folder:
        product = Counted(Path(folder) / "home").start()
        try:
            yield product
        finally:
            product.stop()


if __name__ == "__main__":
    main()
