"""The leader: every task with a period is run when due, by the one process that holds the lease.

Messages make the product quick; this loop makes it right. It runs periodic tasks in its own process, on threads of its
own, so that nothing depends on a message broker being there.
"""

import os
import socket
import threading
from collections.abc import Callable

import structlog
from django.db import Error as DatabaseError
from django.db import close_old_connections

from core import clock, leases, tasks
from core.local_queue import LocalQueue

log = structlog.get_logger(__name__)

_LEASE = "leader"
_LEASE_S = 10.0
_STEP_S = 0.25


def lead(
    queue: LocalQueue, stop: threading.Event, *, holder: str = "", on_lead: Callable[[], None] | None = None
) -> None:
    """Run periodic tasks until `stop` is set. `on_lead` is called once, when this process first becomes the leader."""
    holder = holder or f"{socket.gethostname()}:{os.getpid()}"
    due = dict.fromkeys((name for name, task in tasks.registered().items() if task.every_s), 0.0)
    renew_at, is_leader = 0.0, False
    tasks.install_threads(queue)
    while not stop.wait(_STEP_S):
        now = clock.monotonic()
        if now >= renew_at:
            was_leader, is_leader = is_leader, _take(holder)
            renew_at = now + _LEASE_S / 3
            if is_leader and not was_leader:
                log.info("leader.elected", holder=holder)
                if on_lead is not None:
                    on_lead()
                    on_lead = None
        if not is_leader:
            continue
        for name, task in tasks.registered().items():
            if task.every_s and now >= due[name]:
                due[name] = now + task.every_s
                queue.put(task, {})
    tasks.install_threads(None)
    if is_leader:
        leases.release_named(_LEASE, holder=holder)


def _take(holder: str) -> bool:
    try:
        close_old_connections()
        return leases.take_named(_LEASE, holder=holder, for_s=_LEASE_S)
    except DatabaseError as error:
        log.warning("leader.database_away", reason=str(error))
        return False
