"""What the fuzzers count: requests, answers of 5xx, and tracebacks. The sums stand at the end of the run."""

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from django.core.signals import got_request_exception


class Tally(Counter):
    """Counts by name, and what is worth showing of each fault."""

    def __init__(self) -> None:
        super().__init__(requests=0, server_errors=0, tracebacks=0)
        self.faults: list[str] = []

    def note(self, status: int, what: str) -> None:
        """Count an answer. 503 is an answer too: a system that we depend on is away."""
        self["requests"] += 1
        if status >= 500 and status != 503:
            self["server_errors"] += 1
            self.faults.append(f"{status}: {what}")

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count every traceback that is logged or reaches Django's handler."""
        handler = _Tracebacks(self)
        got_request_exception.connect(handler.hear)
        logging.getLogger().addHandler(handler)
        try:
            yield
        finally:
            logging.getLogger().removeHandler(handler)
            got_request_exception.disconnect(handler.hear)


class _Tracebacks(logging.Handler):
    def __init__(self, tally: Tally) -> None:
        super().__init__(logging.WARNING)
        self._tally = tally

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self._add(f"{record.getMessage()}: {record.exc_info[1]!r}")

    def hear(self, **news: object) -> None:
        self._add(str(news.get("request")))

    def _add(self, what: str) -> None:
        self._tally["tracebacks"] += 1
        self._tally.faults.append(f"traceback: {what}")
