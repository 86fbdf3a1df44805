"""Structured logs: one event a line on stderr, as key=value for people or JSON for machines."""

import logging
import sys
from collections.abc import Mapping

import structlog
from structlog.typing import Processor


def configure(options: Mapping[str, str]) -> None:
    """Send our events and those of libraries to stderr. Called by Django with its LOGGING setting."""
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
    logging.getLogger("django.request").setLevel(logging.ERROR)
