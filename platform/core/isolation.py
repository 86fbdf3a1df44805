"""Periodic work on many items, in which one item that fails stops none of the others.

A failure is recorded (`core.models.Failure`), logged under the record's id, counted, and tried again after a delay
that doubles each time. What concerns the whole process, such as a database that is away, is recorded for no item.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

import structlog
from django.db import InterfaceError, OperationalError, connection
from django.db.models import F, Model, OuterRef, Q, QuerySet, Subquery
from prometheus_client import Counter

from core import clock, tasks
from core.errors import ErrorKind, PlatformError
from core.models import Failure
from core.prepared import prepared

T = TypeVar("T")
R = TypeVar("R")
M = TypeVar("M", bound=Model)
OnFailure = Callable[[T, Failure], object]

log = structlog.get_logger(__name__)

ITEM_FAILURES = Counter("nearline_item_failures_total", "Items of periodic work that failed", ["kind"])


@dataclass(frozen=True)
class FailureView:
    """A failure as its owner sees it. `log_id` names it in the log of the platform."""

    message: str
    attempts: int
    next_try_at: datetime
    log_id: str

    @classmethod
    def of(cls, failure: Failure, work: str) -> "FailureView":
        """Describe a failure; `work` is what could not be done, such as `advance this run`."""
        message = f"The platform could not {work}: {failure.error.rstrip('.')}."
        return cls(message, failure.attempts, failure.next_try_at, failure.pk)


FIRST_DELAY = timedelta(seconds=2)
LONGEST_DELAY = timedelta(minutes=10)
# A failure that nobody tried again for so long belongs to an item that is gone.
_KEEP = timedelta(days=7)
_LONGEST_NAME = 200
_MEMO = "failures"


def for_each(
    kind: str,
    items: Iterable[T],
    work: Callable[[T], R],
    *,
    key: Callable[[T], str] | None = None,
    on_failure: OnFailure[T] | None = None,
    concerns_all: tuple[type[Exception], ...] = (),
    executor: Executor | None = None,
) -> list[R]:
    """Do `work` for each item that is not delayed by an earlier failure, and return what it returned.

    With an executor the items are worked on side by side; then `work` must not use the database.

    `key` names an item; without it, a row is named by its primary key and anything else by its text. `on_failure` is
    called with the item and the record once a failure is recorded. Raises errors that concern all items: those in
    `concerns_all`, and OperationalError and InterfaceError; these at once when the database does not answer, else
    after the last item.
    """
    results: list[R] = []
    interruption: Exception | None = None
    due: Iterable[tuple[T, str, bool]] = _due(kind, items, key)
    begun: deque[Future[R]] = deque()
    if executor is not None:
        due = list(due)
        begun.extend(executor.submit(work, item) for item, _, _ in due)
    for item, item_id, has_failed in due:
        try:
            results.append(begun.popleft().result() if begun else work(item))
        except (OperationalError, InterfaceError) as error:
            if not _database_answers():
                raise
            interruption = interruption or error
        except concerns_all:
            raise
        except Exception as error:  # noqa: BLE001 (it is logged where it is recorded)
            _note(kind, item_id, item, error, on_failure)
        else:
            if has_failed:
                forget(kind, [item_id])
    if interruption is not None:
        raise interruption
    return results


def in_batch(
    kind: str,
    items: Sequence[T],
    work: Callable[[Sequence[T]], R],
    *,
    key: Callable[[T], str] | None = None,
    on_failure: OnFailure[T] | None = None,
) -> list[R]:
    """Do `work` once for all items; if that fails, for each of them alone, as `for_each` does.

    `work` must change nothing when it raises, as one transaction does. What failed before is tried alone.
    """
    if not items:
        return []
    known = _failures_of(kind)
    together = [item for item in items if _name(item, key) not in known]
    alone = [item for item in items if _name(item, key) in known]
    results: list[R] = []
    try:
        results += [work(together)] if together else []
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:  # noqa: BLE001 (it comes again where each item is tried alone)
        log.warning("isolation.one_by_one", kind=kind, items=len(together), error=type(error).__name__)
        alone = list(items)
    return results + for_each(kind, alone, lambda item: work([item]), key=key, on_failure=on_failure)


def take(kind: str, rows: QuerySet[M], count: int) -> list[M]:
    """Return the first rows on which work may be tried now, in their order; those on which it failed before come last.

    So rows that fail again and again hold up no other, however many they are. Rows are named by their primary key,
    which is a text.
    """
    failures = Failure.objects.filter(kind=kind, item_id=OuterRef("pk"))
    delays = rows.annotate(delay_ends_at=Subquery(failures.values("next_try_at")[:1]))
    now = clock.now()
    is_over = Q(delay_ends_at__lte=now) | Q(delay_ends_at__gt=now + LONGEST_DELAY)
    due = delays.filter(Q(delay_ends_at=None) | is_over)
    return list(due.order_by(F("delay_ends_at").asc(nulls_first=True), *rows.query.order_by)[:count])


def find(kinds: Collection[str], item_ids: Collection[str] | None = None) -> list[Failure]:
    """Return the failures of these kinds, of all items or of some, the oldest first; they are few."""
    if tasks.memo() is not None and item_ids is None:
        known = [failure for kind in kinds for failure in _failures_of(kind).values()]
        return sorted(known, key=lambda failure: failure.pk)
    failures = Failure.objects.filter(kind__in=kinds).order_by("pk")
    return list(failures if item_ids is None else failures.filter(item_id__in=item_ids))


def is_delayed(failure: Failure, now: datetime) -> bool:
    """Whether an item is left alone. No delay is that long which a clock wrote down that has been set back since."""
    return now < failure.next_try_at <= now + LONGEST_DELAY


def try_now(failure_ids: Collection[str]) -> None:
    """End the delays of these failures, because somebody asks for something new about their items."""
    _read_again()
    Failure.objects.filter(pk__in=failure_ids).update(next_try_at=clock.now())


def forget(kind: str, item_ids: Collection[str]) -> None:
    """Drop the records of items that succeeded, or that nobody tries again."""
    if not item_ids:
        return
    _read_again()
    Failure.objects.filter(kind=kind, item_id__in=item_ids).delete()


def _due(kind: str, items: Iterable[T], key: Callable[[T], str] | None) -> Iterator[tuple[T, str, bool]]:
    """Yield the items that may be tried now, with their names and whether they failed before."""
    known: Mapping[str, Failure] | None = None
    for item in items:
        known = _failures_of(kind) if known is None else known
        failure = known.get(item_id := _name(item, key))
        if failure is None or not is_delayed(failure, clock.now()):
            yield item, item_id, failure is not None


def _name(item: T, key: Callable[[T], str] | None) -> str:
    name = key(item) if key is not None else str(item.pk if isinstance(item, Model) else item)
    return name[:_LONGEST_NAME]


def _failures_of(kind: str) -> Mapping[str, Failure]:
    """Return the failures of a kind by item. They are few, so a task reads those of all kinds once."""
    memo = tasks.memo()
    if memo is None:
        return {failure.item_id: failure for failure in Failure.objects.filter(kind=kind)}
    if _MEMO not in memo:
        memo[_MEMO] = tasks.recently(_MEMO, _failures_by_kind)
    known: Mapping[str, Failure] = memo[_MEMO].get(kind, {})
    return known


def _failures_by_kind() -> Mapping[str, Mapping[str, Failure]]:
    by_kind: dict[str, dict[str, Failure]] = {}
    for failure in _all_failures():
        by_kind.setdefault(failure.kind, {})[failure.item_id] = failure
    return by_kind


@prepared
def _all_failures() -> QuerySet[Failure]:
    return Failure.objects.defer("error")


def _read_again() -> None:
    """Have failures read again by this task, because they changed."""
    tasks.read_anew(_MEMO)
    if (memo := tasks.memo()) is not None:
        memo.pop(_MEMO, None)


def _note(kind: str, item_id: str, item: T, error: Exception, on_failure: OnFailure[T] | None) -> None:
    failure = _record(kind, item_id, error)
    if on_failure is None:
        return
    try:
        on_failure(item, failure)
    except (OperationalError, InterfaceError):
        raise
    except Exception as further:  # noqa: BLE001 (the same)
        _record(kind, item_id, further)


def _record(kind: str, item_id: str, error: Exception) -> Failure:
    """Write a failure down. The error itself goes to the log only: what nobody foresaw may name anything."""
    _read_again()
    now = clock.now()
    text = error.message if isinstance(error, PlatformError) else f"an internal error ({type(error).__name__})"
    facts = {"error": _storable(text), "failed_at": now, "next_try_at": now}
    failure, _ = Failure.objects.get_or_create(kind=kind, item_id=item_id, defaults=facts)
    Failure.objects.filter(pk=failure.pk).update(attempts=F("attempts") + 1, **facts)
    failure.refresh_from_db()
    failure.next_try_at = now + min(FIRST_DELAY * 2 ** min(failure.attempts - 1, 20), LONGEST_DELAY)
    failure.save(update_fields=["next_try_at"])
    Failure.objects.filter(next_try_at__lt=now - _KEEP).delete()
    ITEM_FAILURES.labels(kind).inc()
    # What does not answer is no fault of ours, and its message says all there is to know.
    is_away = isinstance(error, PlatformError) and error.kind is ErrorKind.UNAVAILABLE
    noted = {"log_id": failure.pk, "kind": kind, "item": item_id, "attempts": failure.attempts}
    if is_away:
        log.warning("isolation.unavailable", **noted, error=text)
    else:
        log.error("isolation.failed", **noted, exc_info=error)
    return failure


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\0", "")[:2000]


def _database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Exception:  # noqa: BLE001 (whatever it says, it is no answer)
        return False
    return True
