"""Nothing outside is asked while a transaction is open: it would hold its locks for as long as the answer takes."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps

import pytest
from django.db import connection

from compute.adapters.scripted import ScriptedDriver
from core.breaker import Breaker
from datasets.adapters.scoped import ScopedStore

RESOURCES = ((Breaker, "enter"), (ScriptedDriver, "_answer"))
"""What each question to a cluster, a host or a daemon passes, and each to a scripted resource."""
STORES = tuple((ScopedStore, name) for name in ("put", "get", "get_range", "stat", "list_blobs", "delete"))
"""What each question to a store passes."""


@contextmanager
def watching_questions(gates=RESOURCES) -> Iterator[list[str]]:
    """Yield the stacks of those questions that are asked within a transaction, from now on."""
    found: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in gates:
            patch.setattr(owner, name, _noting(getattr(owner, name), found))
        yield found


def _noting(ask, found: list[str]):
    @wraps(ask)
    def noting(*arguments, **options):
        blocks = connection.atomic_blocks
        if blocks and not blocks[-1]._from_testcase:  # that of the test itself holds up nobody
            found.append("".join(traceback.format_stack(limit=12)))
        return ask(*arguments, **options)

    return noting
