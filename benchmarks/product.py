"""An embedded product of its own for a benchmark: started, used through its CLI and API, stopped."""

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.journeys.product import ROOT, Product


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
