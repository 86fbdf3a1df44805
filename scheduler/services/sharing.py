"""The rules by which the queues of a pool share: how soon, how often and from whom they take capacity back."""

from dataclasses import asdict
from typing import Unpack

from django.db import transaction

from accounts import audit
from accounts.actor import Actor
from core import tasks
from scheduler.engine.sharing import Rules, with_changes
from scheduler.models import Pool
from scheduler.selectors.snapshots import view_rules
from scheduler.services import queues


@transaction.atomic
def set_rules(*, actor: Actor, pool: Pool, **changes: Unpack[Rules]) -> Pool:
    """Change rules of a pool; what is not named stays. The next cycle works with them. Raises InvalidQuota."""
    queues.require_set_quota(actor=actor)
    locked = Pool.objects.select_for_update().get(pk=pool.pk)
    changed = asdict(with_changes(view_rules(locked), changes))
    for name, value in changed.items():
        setattr(locked, name, value)
    locked.save(update_fields=list(changed))
    audit.record(actor, "scheduler.set_sharing", locked, **changes)
    tasks.enqueue_on_commit("scheduler.cycle")
    return locked
