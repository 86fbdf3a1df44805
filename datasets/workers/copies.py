"""What the pods that fill and verify a cached copy ask of the platform, with a token that is good for that copy alone.

They may read objects of the dataset that the copy is of, and say how far the copy is: nothing else. An object is asked
for by its hash, and a token tells the root of one commit only.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from accounts.errors import NotSignedIn
from accounts.permissions import Actor
from datasets.adapters.copy_tokens import read_copy
from datasets.engine.cache_states import WORKING, CacheState
from datasets.models import CachedCommit
from datasets.services import downloads
from datasets.services.cache_rows import tell_changed
from datasets.services.downloads import Download, Wanted

_SYSTEM = Actor.system("pods of cached commits")


def authenticate(secret: str) -> CachedCommit:
    """Return the copy that a token is for. Raises NotSignedIn when that is neither made nor there any more."""
    copy_id = read_copy(secret)
    if copy_id is None:
        raise NotSignedIn("This is no token of a cached commit.")
    rows = CachedCommit.objects.select_related("commit", "dataset__project", "dataset__store")
    row = rows.filter(pk=copy_id, state__in=[*WORKING, CacheState.READY]).first()
    if row is None:
        raise NotSignedIn("The cached commit that this token is for is not wanted any more.")
    return row


def sign_downloads(*, copy: CachedCommit, objects: Sequence[Wanted]) -> list[Download]:
    """Sign a GET for each object of the copy's dataset."""
    return downloads.sign_below(actor=_SYSTEM, dataset=copy.dataset, objects=objects)


def report_progress(
    *, copy: CachedCommit, rate_bytes_s: float, share: int = 0, shares: int = 1, **counts: int
) -> Sequence[str]:
    """Note how far a copy is that is being filled; return the packs that jobs which read it meanwhile need next.

    Of several `shares` it is how far one is; the copy is as far as they are together. Of one that is ready nothing
    changes.
    """
    rows = CachedCommit.objects.filter(pk=copy.pk, state__in=WORKING)
    report: dict[str, Any] = {**counts, "rate_bytes_s": rate_bytes_s}
    if shares == 1:
        is_noted = rows.update(attempts=0, waits_for="", **report)
    else:
        is_noted = _note_share(rows, report, share, shares)
    if is_noted and counts["bytes_done"] and not copy.bytes_done:
        tell_changed(copy)
    next_packs: Sequence[str] = copy.next_packs
    return next_packs


@transaction.atomic
def _note_share(rows: QuerySet[CachedCommit], report: Mapping[str, Any], share: int, shares: int) -> bool:
    """Note the report of one share, and the sums of all; say whether the copy is still being filled."""
    row = rows.select_for_update().first()
    if row is None or share >= shares:
        return False
    reports = row.share_reports if len(row.share_reports) == shares else [{}] * shares
    reports[share] = report
    sums = {key: sum(each.get(key, 0) for each in reports) for key in report}
    rows.update(attempts=0, waits_for="", share_reports=reports, **sums)
    return True


def report_damage(*, copy: CachedCommit, packs: Sequence[str]) -> None:
    """Read packs that a pod found damaged, and note which are."""
    downloads.report_packs(actor=_SYSTEM, dataset=copy.dataset, names=packs)
