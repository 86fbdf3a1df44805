"""Nothing outside is asked while a transaction is open: it would hold its locks for as long as the answer takes."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps

import pytest
from django.db import connection, transaction

from compute.adapters.scripted import ScriptedDriver
from core.breaker import Breaker
from datasets.adapters.folder import FolderStore
from datasets.adapters.scoped import ScopedStore
from datasets.adapters.sources.folder import SourceFolder

RESOURCES = ((Breaker, "enter"), (ScriptedDriver, "_answer"))
"""What each question to a cluster, a host or a daemon passes, and each to a scripted resource."""
_OF_STORES = ("get", "get_range", "stat", "list_blobs", "delete")
STORES = (
    *((store, name) for store, own in ((ScopedStore, "put"), (FolderStore, "open_put")) for name in (own, *_OF_STORES)),
    *((SourceFolder, name) for name in ("list_files", "open", "read")),
)
"""What each question to a store passes, and to a source of files: what is a folder here is a bucket elsewhere."""


@contextmanager
def undone() -> Iterator[None]:
    """Undo at the end what is done within, by a transaction of the test itself."""
    block = transaction.atomic()
    block._from_testcase = True
    with block:
        yield
        transaction.set_rollback(True)


@contextmanager
def watching_questions() -> Iterator[list[str]]:
    """Yield the stacks of those questions that are asked within a transaction, from now on."""
    found: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in RESOURCES + STORES:
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
