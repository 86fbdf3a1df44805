"""10,000 experiments with 50 metrics each: the table sorted, filtered and grouped, on SQLite and on PostgreSQL.

Each figure is a whole answer of a running product, asked over HTTP: sign-in, query, JSON. The peer is what a list
without an index does: all last values of one metric read into Python and sorted there. PostgreSQL is started for it
where its programs are installed.
"""

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

from benchmarks.product import median
from tests import services
from tests.journeys.product import BIN, ROOT, Product

EXPERIMENTS = int(os.environ.get("BENCH_EXPERIMENTS", "10000"))
METRICS = int(os.environ.get("BENCH_METRICS", "50"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "15"))
RUNS = 20

SEED = f"""
from accounts.models import Project
from django.db import connection
from tests.factories.experiments import describe_training, make_experiments, make_run
project, _ = Project.objects.get_or_create(name="bench")
each = {EXPERIMENTS} // {RUNS}
for number in range({RUNS}):
    first = number * each
    make_experiments(make_run(project, number=number + 1), each, lambda index: describe_training(first + index, metrics={METRICS}))
with connection.cursor() as cursor:
    cursor.execute("ANALYZE")
"""
PEER = """
import time
from experiments.models import MetricLast
started = time.perf_counter()
rows = MetricLast.objects.filter(key="val_auc").select_related("experiment")
sorted(rows, key=lambda row: row.value or 0.0, reverse=True)[:50]
print(time.perf_counter() - started)
"""
QUESTIONS = {
    "newest first": {},
    "sorted by a metric": {"sort": "-metrics.val_auc"},
    "sorted by a parameter": {"sort": "params.lr"},
    "filtered by two metrics and a parameter, sorted": {
        "filter": "metrics.val_auc > 0.9 and metrics.val_loss < 0.3 and params.lr in (0.1, 0.01) and not tags.best",
        "sort": "-metrics.val_auc",
    },
}


def main() -> None:
    for name, database in (("SQLite", _sqlite), ("PostgreSQL", _postgres)):
        with contextlib.ExitStack() as stack:
            environment = stack.enter_context(database())
            if environment is None:
                print(f"\n{name}: its programs are not installed here.")
                continue
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nearline-bench-")))
            product = Product(folder / "home", environment=environment).start()
            stack.callback(product.stop)
            _manage(product, SEED)
            _measure(name, product)


def _measure(name: str, product: Product) -> None:
    print(f"\n{name}: {EXPERIMENTS} experiments, {METRICS} metrics each; 50 rows as JSON, {ROUNDS} times")
    print(f"{'milliseconds':<52}{'median':>8}{'fastest':>9}")
    rows = {label: _timed(product, "/experiments", {"project": "bench", **query}) for label, query in QUESTIONS.items()}
    rows["peer: one metric of all read and sorted in Python"] = [float(_manage(product, PEER)) for _ in range(3)]
    for label, seconds in rows.items():
        print(f"{label:<52}{median(seconds) * 1000:>8.0f}{min(seconds) * 1000:>9.0f}")


def _timed(product: Product, path: str, query: dict[str, str]) -> list[float]:
    address = f"{path}?{urlencode({**query, 'limit': '50'})}"
    assert product.api("GET", address)["items"]
    seconds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        product.api("GET", address)
        seconds.append(time.perf_counter() - started)
    return seconds


def _manage(product: Product, code: str) -> str:
    command = [BIN / "python", "manage.py", "shell", "-v", "0", "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=product.environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@contextlib.contextmanager
def _sqlite() -> Iterator[dict[str, str] | None]:
    yield {}


@contextlib.contextmanager
def _postgres() -> Iterator[dict[str, str] | None]:
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), reverse=True)
    if not places:
        yield None
        return
    import psycopg

    with tempfile.TemporaryDirectory(prefix="nearline-bench-") as folder:
        Path(folder).chmod(0o755)
        with services.postgres(places[0].parent, Path(folder)) as environment:
            with psycopg.connect(environment["NEARLINE_TEST_POSTGRES"], autocommit=True) as connection:
                connection.execute("CREATE DATABASE nearline")
            yield {"DATABASE_URL": environment["DATABASE_URL"]}
