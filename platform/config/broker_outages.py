"""An outage of the message broker in the log: one line every ten seconds, whoever meets it."""

import logging

import redis
from kombu.exceptions import OperationalError

from core import outages

_CONSUMER, _STEPS = "celery.worker.consumer.consumer", "celery.bootsteps"
_CONSUMER_SAYS = ("consumer: Connection to broker lost", "consumer: Cannot connect to")


def tell(reason: object) -> None:
    """Log that the broker does not answer, at most every ten seconds."""
    outages.tell("broker.unavailable", reason)


def shorten_log() -> None:
    """Have Celery's own lines about an outage, with their tracebacks, replaced by ours."""
    for name in (_CONSUMER, _STEPS):
        logging.getLogger(name).addFilter(_is_no_outage)
    logging.getLogger("py.warnings").addFilter(_is_no_announcement)


def _is_no_announcement(record: logging.LogRecord) -> bool:
    """Leave out what another release of Celery will do by default, which it announces whenever a connection is lost."""
    return "worker_cancel_long_running_tasks_on_connection_loss" not in record.getMessage()


def _is_no_outage(record: logging.LogRecord) -> bool:
    text = record.getMessage()
    error = record.exc_info[1] if record.exc_info else None
    if not text.startswith(_CONSUMER_SAYS) and not _comes_from_broker(error):
        return True
    tell(" ".join(text.split()))
    return False


def _comes_from_broker(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, redis.RedisError | OperationalError):
            return True
        error = error.__cause__ or error.__context__
    return False
