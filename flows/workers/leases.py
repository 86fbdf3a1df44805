"""Who may advance a run now: a lease on its row, taken by compare-and-set, good on every database.

A lease keeps workers from doing the same thing twice in vain; `fence` is what makes it right: a worker that lost its
lease while it slept writes nothing.
"""

import secrets
from datetime import timedelta

from core import clock
from flows.errors import LeaseLost
from flows.models import AttemptInput, Run

_LENGTH = timedelta(seconds=5)


def take(run_id: str) -> str | None:
    """Take the lease of a live run and return its token; None when somebody holds it or the run has ended."""
    now = clock.now()
    token = secrets.token_hex(16)
    free = Run.objects.filter(pk=run_id, is_live=True, locked_until__lte=now)
    return token if free.update(lock_token=token, locked_until=now + _LENGTH) else None


def give_back(run_id: str, token: str) -> None:
    """End the lease, if it still is this one."""
    Run.objects.filter(pk=run_id, lock_token=token).update(lock_token="", locked_until=clock.now())


def fence(run_id: str, token: str) -> None:
    """Lengthen the lease inside the caller's transaction, holding the row. Raises LeaseLost."""
    held = Run.objects.filter(pk=run_id, lock_token=token)
    if not held.update(locked_until=clock.now() + _LENGTH):
        raise LeaseLost("Another worker goes on with this run.")


def void_leases() -> None:
    """End the leases of workers that are known to be dead, so that others go on at once."""
    now = clock.now()
    Run.objects.filter(locked_until__gt=now).update(lock_token="", locked_until=now)
    AttemptInput.objects.filter(locked_until__gt=now).update(locked_until=now)
