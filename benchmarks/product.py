"""A product of its own for a benchmark: started, used through its CLI and API, stopped.

It is an embedded one; within `servers` and with `BENCH_FULL=1` a full one, of which each process is one of its own.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests import services
from tests.folders import open_folder
from tests.journeys.product import ROOT, Product, is_full


@contextlib.contextmanager
def servers() -> Iterator[None]:
    """Start the servers of a full installation, where one is asked for and none is there."""
    if not os.environ.get("BENCH_FULL") or is_full():
        yield
        return
    tools = services.find_tools()
    if missing := [name for name, path in tools.items() if path is None]:
        raise SystemExit(f"A full installation needs {', '.join(missing)}; see CONTRIBUTING.md.")
    with open_folder() as base, services.started(tools, base) as names:
        os.environ.update(names)
        yield


@contextlib.contextmanager
def running(**environment: str) -> Iterator[Product]:
    """Yield a running product with a temporary home."""
    with tempfile.TemporaryDirectory(prefix="nearline-bench-") as folder:
        product = Product(Path(folder) / "home", environment=environment).start()
        try:
            yield product
        finally:
            product.stop()


def shell(product: Product, script: str) -> str:
    """Run a script beside the product, on its database; return the last line that it prints."""
    command = [sys.executable, str(ROOT / "manage.py"), "shell", "-v", "0", "-c", script]
    done = subprocess.run(command, cwd=ROOT, env=product.environment, check=True, capture_output=True, text=True)
    return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""


def median(values: list[float]) -> float:
    """Return the middle value."""
    return sorted(values)[len(values) // 2]
