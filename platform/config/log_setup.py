"""Structured logs: one event a line on stderr, as key=value for people or JSON for machines.

`manage.py up` speaks to a person in the terminal: its log goes to a file, and the terminal names the file.
"""

import logging
import re
import sys
from collections.abc import Mapping
from http import HTTPStatus
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TextIO

import structlog
from structlog.typing import Processor

from core import clock
from core.outages import find_outage

_SECRET_PATH = re.compile(r"(?<=^/store/).+|(?<=^/sign-in/).+")
"""What lets whoever knows it in, of the path of a request."""
_FILE_BYTES = 10 * 2**20
_SILENCE_S = 60.0


def configure(options: Mapping[str, str]) -> None:
    """Send our events and those of libraries to stderr. Called by Django with its LOGGING setting.

    Each call of `django.setup` is one of these, such as that of the ASGI application: a log in a file stays there.
    """
    if any(isinstance(handler, _Sentences) for handler in logging.getLogger().handlers):
        return
    level = logging.getLevelName(options["level"])
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    is_terminal = sys.stderr.isatty()
    renderer: Processor = structlog.dev.ConsoleRenderer() if is_terminal else structlog.processors.JSONRenderer()
    tail: list[Processor] = [] if is_terminal else [structlog.processors.format_exc_info]
    structlog.configure(
        processors=[*shared, *tail, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(
        level=max(level, logging.WARNING), stream=sys.stderr, format="%(levelname)s %(name)s %(message)s"
    )
    # A refused request is an answer, told to whoever asked; it is no event of ours.
    requests = logging.getLogger("django.request")
    requests.setLevel(logging.ERROR)
    requests.addFilter(_is_no_outage)
    requests.addFilter(_hide_secrets)


def _is_no_outage(record: logging.LogRecord) -> bool:
    """Leave out the tracebacks of requests that an outage failed: it is told once for all of them."""
    error = record.exc_info[1] if record.exc_info else None
    return error is None or find_outage(error) is None


def _hide_secrets(record: logging.LogRecord) -> bool:
    """Leave out of the path of a request what only its sender is to know."""
    if isinstance(record.args, tuple):
        record.args = tuple(_SECRET_PATH.sub("...", arg) if isinstance(arg, str) else arg for arg in record.args)
    return True


def move_to_file(path: Path, terminal: TextIO) -> None:
    """Write the log to a file from now on, 10 MiB of it and as much of what was before in `.1`.

    The terminal gets a sentence about an error, at most one a minute.
    """
    file = RotatingFileHandler(path, maxBytes=_FILE_BYTES, backupCount=1, encoding="utf-8", errors="backslashreplace")
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))
    root = logging.getLogger()
    for handler in root.handlers[:]:
        root.removeHandler(handler)
    root.addHandler(file)
    root.addHandler(_Sentences(path, terminal))
    ours = logging.getLogger("nearline")
    ours.setLevel(logging.DEBUG)  # what is too little to be written is left out by structlog
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
        ],
        logger_factory=lambda *_names: ours,
    )


class _Sentences(logging.Handler):
    """Says that something went wrong, and where the rest stands."""

    def __init__(self, path: Path, terminal: TextIO) -> None:
        super().__init__(logging.ERROR)
        self._path = path
        self._terminal = terminal
        self._silent_until = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        # Django logs every answer of 500 and more as an error: 503 is a cluster that is away, 507 a full disk.
        if getattr(record, "status_code", HTTPStatus.INTERNAL_SERVER_ERROR) != HTTPStatus.INTERNAL_SERVER_ERROR:
            return
        now = clock.monotonic()
        if now >= self._silent_until:
            self._silent_until = now + _SILENCE_S
            print(f"Internal error. The log says what: {self._path}", file=self._terminal, flush=True)
