"""What another process does between two statements of ours, at the same place in each run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from django.db import connection


@contextmanager
def happens_after(part: str, change: Callable[[], object], *, nth: int = 1) -> Iterator[None]:
    """Call `change` right after the statement of the block that is the `nth` with `part` in it."""
    numbers = count(1)

    def watch(execute, sql, params, many, context):
        is_due = part in sql and next(numbers) == nth
        result = execute(sql, params, many, context)
        if is_due:
            change()
        return result

    with connection.execute_wrapper(watch):
        yield
    assert next(numbers) > nth, f"no {nth} statements have '{part}'"
