"""What drivers share: how `nearline.pod.copies` works on a copy, in a pod or on another host, and what a copy frees."""

import errno
import time
from collections.abc import Callable, Mapping
from typing import Any

from django.db.models import Max, QuerySet, Sum

from datasets.engine.cache_ports import CopyProgress, Damage, DamageKind, Findings
from datasets.errors import (
    CacheSiteFull,
    CacheSiteUnavailable,
    ContentCorrupt,
    CopyDiffers,
    CopyGone,
    RemovalHeldUp,
)
from datasets.models import CachedCommit
from nearline.content.paths import to_bytes

Json = Mapping[str, Any]

COUNTS = ("files_done", "bytes_done", "bytes_shared", "bytes_copied", "bytes_moved")
# So long one call waits for something to go; the next call goes on.
_REMOVAL_S, _PAUSE_S = 20.0, 0.2
_FULL = {errno.ENOSPC, errno.EDQUOT}


def read_progress(copies: "QuerySet[CachedCommit]", copy_id: str, waits_for: str) -> CopyProgress:
    """Return what who works on a copy has told the platform last."""
    row = copies.filter(pk=copy_id).values(*COUNTS, "rate_bytes_s").first() or {}
    return CopyProgress(**row, waits_for=waits_for[:300])


def ready(made: Json) -> CopyProgress:
    """Return how far a copy is whose mark tells what was made."""
    return CopyProgress(**{key: made[key] for key in COUNTS}, is_ready=True)


def freed_bytes(copies: "QuerySet[CachedCommit]", copy_id: str) -> int:
    """Return what the removal of one of a site's copies frees: its charge, less what was cloned from it and stays."""
    charged: int = copies.filter(pk=copy_id).aggregate(total=Sum("reserved_bytes"))["total"] or 0
    cloned: int = copies.filter(base=copy_id).aggregate(most=Max("bytes_shared"))["most"] or 0
    return max(0, charged - cloned)


def read_findings(result: Json) -> Findings:
    """Return what a verification has found and healed."""
    named = [
        Damage(to_bytes(path), DamageKind(kind), also=tuple((copy, to_bytes(name)) for copy, name in also))
        for path, kind, also in result.get("files", [])
    ]
    return Findings(result.get("damaged", 0), named)


def find_failure(result: Json, *, kind: type[CacheSiteUnavailable], unexplained: str) -> Exception:
    """Return the error for work that failed, from what was said at its end; of this kind where nothing else fits."""
    message = str(result.get("error") or unexplained)
    if result.get("errno") in _FULL:
        return CacheSiteFull(message)
    if result.get("code") == "host.copy_gone":
        return CopyGone(message)
    if result.get("code") == "client.not_the_commit":
        return CopyDiffers(message)
    details = result.get("details") or {}
    if result.get("code") == "client.damaged":
        pack = {"pack": details["id"]} if details.get("kind") == "pack" else {}
        return ContentCorrupt(message, **pack)
    return kind(message)


def wait_until_gone(step: Callable[[], str], keep_going: Callable[[], bool]) -> bool:
    """Repeat the next step of a removal, which says what it waits for, until it says nothing; False: told to stop.

    Raises RemovalHeldUp where that takes long.
    """
    give_up_at = time.monotonic() + _REMOVAL_S
    while held_by := step():
        if not keep_going():
            return False
        if time.monotonic() > give_up_at:
            raise RemovalHeldUp(held_by)
        time.sleep(_PAUSE_S)
    return True
