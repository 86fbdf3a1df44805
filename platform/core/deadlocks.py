"""Repeats a use case that PostgreSQL ended, with all its changes, because it and another one waited for each other."""

from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from django.db import OperationalError, connection

P = ParamSpec("P")
R = TypeVar("R")

_DEADLOCK_DETECTED: Final = "40P01"
_TRIES: Final = 3


def repeated_after_deadlock(use_case: Callable[P, R]) -> Callable[P, R]:
    """Wrap a use case that is one transaction. Inside the transaction of a caller, that one has to be repeated."""

    @wraps(use_case)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        for _ in range(_TRIES - 1):
            try:
                return use_case(*args, **kwargs)
            except OperationalError as error:
                if getattr(error.__cause__, "sqlstate", "") != _DEADLOCK_DETECTED or connection.in_atomic_block:
                    raise
        return use_case(*args, **kwargs)

    return run
