"""What it costs when a step ends and the next one starts: SQL statements, CPU and time, and what idling costs.

A chain of `true` steps runs in the embedded product; within `tests/services.py`'s environment, in the full one on
PostgreSQL, Redis and S3. Then it idles. Both are measured in an empty installation and in one with many runs that have
ended. CPU is that of the platform's own processes, without the jobs, their shims and the process that forks those. A
hand-over is the time between the end of a step's process and the start of the next one's, as their resource reports
them.
"""

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from benchmarks.counted import read_counts
from benchmarks.product import shell
from tests.journeys.product import Product

STEPS = int(os.environ.get("BENCH_STEPS", "40"))
HISTORY = [int(count) for count in os.environ.get("BENCH_HISTORY", "0,10000").split(",")]
IDLE_S = float(os.environ.get("BENCH_IDLE_S", "15"))
_TICKS = os.sysconf("SC_CLK_TCK")

_SEED = """
from flows.models import Run
from tests.factories.history import copy_run
copy_run(Run.objects.get(), {count})
"""
_UNSTORED = "from compute.models import Job; print(Job.objects.filter(log_stored_at=None).count())"
# Asked of the database by a process of its own: an answer of the platform costs more than the step that it tells about.
_WAIT = """
import time
from flows.models import Run
while Run.objects.filter(pk="{run_id}", is_live=True).exists():
    time.sleep(0.2)
"""


Spent = tuple[int, float]
"""Statements, and seconds of CPU."""


class Counted(Product):
    """A product whose processes count their statements."""

    def spawn(self, name: str, command: list[str]) -> None:
        """Start a process of this installation that counts."""
        (self.home.parent / "counts").mkdir(exist_ok=True)
        self.environment["BENCH_COUNTS"] = str(self.home.parent / "counts")
        super().spawn(name, [command[0], "-m", "benchmarks.counted", *command[1:]])

    def spent(self) -> Spent:
        """Return the statements and the CPU seconds so far."""
        seconds = 0.0
        for process in self.processes.values():
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            seconds += (int(fields[11]) + int(fields[12])) / _TICKS
        return read_counts(self.home.parent / "counts"), seconds


def main() -> None:
    print("ended runs  statements/step  CPU ms/step  hand-over ms p50   p99   idle statements/s  idle CPU %")
    for count in HISTORY:
        with _running() as product:
            product.api("POST", "/projects", {"name": "bench"})
            if count:
                _run(product, "past", 10)
                product.wait_for(lambda: shell(product, _UNSTORED), lambda count: int(count) == 0)
                product.stop()
                shell(product, _SEED.format(count=count))
                product.start()
            _run(product, "warm", STEPS)
            before, after, delays = _run(product, "chain", STEPS)
            time.sleep(3)
            resting = product.spent()
            time.sleep(IDLE_S)
            rested = product.spent()
        statements, cpu = (last - first for first, last in zip(before, after, strict=True))
        idle, idle_cpu = (last - first for first, last in zip(resting, rested, strict=True))
        p50, p99 = delays[len(delays) // 2] * 1000, delays[int(len(delays) * 0.99)] * 1000
        print(
            f"{count:10,}  {statements / STEPS:15.1f}  {cpu / STEPS * 1000:11.1f}  {p50:16.1f}  {p99:5.0f}"
            f"  {idle / IDLE_S:17.1f}  {idle_cpu / IDLE_S * 100:10.2f}",
            flush=True,
        )


def _run(product: Counted, flow: str, steps: int) -> tuple[Spent, Spent, list[float]]:
    """Run a chain of so many steps; return what was spent at its start and its end, and the seconds of its hand-overs.

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
    after = product.spent()
    done = product.api("GET", f"/runs/{run['id']}")
    if done["state"] != "succeeded":
        raise SystemExit(f"The run {done['state']}: {done['reason']}")
    moments = sorted((_at(job["started_at"]), _at(job["finished_at"])) for job in _jobs(product, run["id"]))
    return before, after, sorted(later[0] - earlier[1] for earlier, later in pairwise(moments))


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
