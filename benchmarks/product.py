"""An embedded product of its own for a benchmark: started, used through its CLI and API, stopped."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.journeys.product import Product


@contextlib.contextmanager
def running(**environment: str) -> Iterator[Product]:
    """Yield a running product with a temporary home."""
    with tempfile.TemporaryDirectory(prefix="nearline-bench-") as folder:
        product = Product(Path(folder) / "home", environment=environment).start()
        try:
            yield product
        finally:
            product.stop()


def median(values: list[float]) -> float:
    """Return the middle value."""
    return sorted(values)[len(values) // 2]
