"""Leases: the right of one worker to work on a row, until it expires or is renewed, taken by compare-and-set.

A lease only keeps workers from doing the same work twice. Its token is the fence that makes it right: who
renews it inside the transaction of a write holds the row, and who has lost it writes nothing. `rows` is a query of one
row of a model that is `core.orm.Leased`; what has no row of its own to lease, such as leading, has one in
`core.models.Lease`. Without a controller that leads nothing starts or moves on.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from django.db.models import Q, QuerySet

from core import clock
from core.models import Lease
from core.orm import Leased
from core.prepared import prepared

M = TypeVar("M", bound=Leased)
T = TypeVar("T")

LEADER = "leader"
_LATE = timedelta(seconds=30)
LONGEST_S = 6 * 3600.0
"""No lease is taken for longer."""
# So long after its beginning work renews its lease at the earliest, which is less than any lease is taken for.
_MOMENT_S = 1.0


@dataclass
class _Kept:
    """The lease under which a thread works, and when it is to be renewed next."""

    renew: Callable[[], object]
    every_s: float
    due_at: float = field(default_factory=lambda: clock.monotonic() + _MOMENT_S)


_lease_at_work: ContextVar[_Kept | None] = ContextVar("kept", default=None)


def new_token() -> str:
    """Return a token that nobody had before."""
    return secrets.token_hex(16)


def is_free(now: datetime, latest_end: datetime) -> Q:
    """Return the condition for rows whose lease nobody holds.

    A lease that ends after the latest end of one that is taken now was taken by a clock that was ahead: it is free.
    """
    return Q(lease_expires_at=None) | Q(lease_expires_at__lte=now) | Q(lease_expires_at__gt=latest_end)


def latest_end(now: datetime) -> datetime:
    """Return when the longest lease ends that is taken now."""
    return now + timedelta(seconds=LONGEST_S)


def take(rows: QuerySet[M], *, for_s: float) -> str | None:
    """Take the lease of a row and return its token; None when another holds it or there is no such row."""
    now = clock.now()
    token = new_token()
    rows_changed = rows.filter(is_free(now, latest_end(now))).update(
        lease_token=token, lease_expires_at=now + timedelta(seconds=for_s)
    )
    return token if rows_changed else None


def renew(rows: QuerySet[M], token: str, *, for_s: float) -> bool:
    """Lengthen a lease if nobody took it since, even after its expiry; else False.

    Inside a transaction the row stays locked until its end, so nobody can take the lease in between: this is the fence.
    """
    return rows.filter(lease_token=token).update(lease_expires_at=clock.now() + timedelta(seconds=for_s)) == 1


@contextmanager
def kept(rows: QuerySet[M], token: str, *, for_s: float) -> Iterator[None]:
    """Return a context in which `keep` renews a lease, for so long each time.

    What is over within a moment renews nothing.
    """
    outer = _lease_at_work.set(_Kept(lambda: renew(rows, token, for_s=for_s), for_s / 2))
    try:
        yield
    finally:
        _lease_at_work.reset(outer)


def keep() -> None:
    """Renew the lease under which this thread works, if that is due. Called again and again by what may take long."""
    if (held := _lease_at_work.get()) is not None and clock.monotonic() >= held.due_at:
        held.due_at = clock.monotonic() + held.every_s
        held.renew()


def keep_for_each(items: Iterable[T]) -> Iterator[T]:
    """Yield the items, and `keep` the lease before each."""
    for item in items:
        keep()
        yield item


def release(rows: QuerySet[M], token: str) -> None:
    """End a lease early, if it still is this one, so that a successor need not wait for its expiry."""
    rows.filter(lease_token=token).update(lease_expires_at=clock.now())


def void(rows: QuerySet[M]) -> None:
    """End the leases of workers that are known to be dead, so that others go on at once."""
    now = clock.now()
    rows.filter(lease_expires_at__gt=now).update(lease_expires_at=now)


def take_named(name: str, *, holder: str, for_s: float) -> bool:
    """Take or renew the lease `name` for `holder`, which is its token; False when another holds it."""
    return name in take_all([name], holder=holder, for_s=for_s)


def take_all(names: Sequence[str], *, holder: str, for_s: float) -> set[str]:
    """Take or renew those of several leases that nobody else holds; return the names of those that `holder` has then.

    One statement where it has all of them, two where others hold some.
    """
    now = clock.now()
    lease = {"lease_token": holder, "lease_expires_at": now + timedelta(seconds=for_s)}
    held = {name for (name,) in _takeable.update_returning(lease, ["name"], names, holder, now, latest_end(now))}
    if others := set(names) - held:
        missing = sorted(others - set(Lease.objects.filter(pk__in=others).values_list("pk", flat=True)))
        held |= {name for name in missing if Lease.objects.get_or_create(pk=name, defaults=lease)[1]}
    return held


def take_named_since(name: str, token: str | None, *, holder: str, for_s: float) -> bool:
    """Take the lease `name` for `holder` if nobody had it since it was free and had this token; None: it was not."""
    now = clock.now()
    lease = {"lease_token": holder, "lease_expires_at": now + timedelta(seconds=for_s)}
    return token is not None and _unchanged.update(lease, name, token, now) == 1


def renew_named(name: str, *, holder: str, for_s: float) -> bool:
    """Lengthen the lease `name`, as `renew` does."""
    return _held.update({"lease_expires_at": clock.now() + timedelta(seconds=for_s)}, name, holder) == 1


def release_named(name: str, *, holder: str) -> None:
    """End the lease `name` early, as `release` does."""
    _held.update({"lease_expires_at": clock.now()}, name, holder)


def end_named(name: str, *, holder: str) -> None:
    """End the lease `name` and forget it, which is for work that is done once."""
    Lease.objects.filter(pk=name, lease_token=holder).delete()


def find_held(prefix: str) -> set[str]:
    """Return the names of the leases that somebody holds, of those that begin like this."""
    now = clock.now()
    held = Lease.objects.filter(name__startswith=prefix).exclude(is_free(now, latest_end(now)))
    return set(held.values_list("name", flat=True))


def has_leader() -> bool:
    """Whether a controller leads, or did a moment ago."""
    lease = Lease.objects.filter(pk=LEADER).first()
    return lease is not None and lease.is_leased_at(clock.now() - _LATE)


def find_standstill() -> datetime | None:
    """Return since when no controller has led; None: one does, or none ever has."""
    late = Lease.objects.filter(pk=LEADER, lease_expires_at__lte=clock.now() - _LATE)
    return late.values_list("lease_expires_at", flat=True).first()


@prepared
def _takeable(names: Sequence[str], holder: str, now: datetime, latest: datetime) -> QuerySet[Lease]:
    return Lease.objects.filter(Q(lease_token=holder) | is_free(now, latest), pk__in=names)


@prepared
def _unchanged(name: str, token: str, now: datetime) -> QuerySet[Lease]:
    return Lease.objects.filter(pk=name, lease_token=token, lease_expires_at__lte=now)


@prepared
def _held(name: str, holder: str) -> QuerySet[Lease]:
    return Lease.objects.filter(pk=name, lease_token=holder)
