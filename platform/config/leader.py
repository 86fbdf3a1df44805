"""The leader: every task with a period is run when due, by the one process that holds the lease.

What belongs to a host is worked on there: on each host one controller holds the host's lease, and runs the tasks that
say so, leader or not.

Messages make the product quick; this loop makes it right. It runs periodic tasks in its own process, on threads of its
own, so that nothing depends on a message broker being there. Whether there is work is asked in one statement for all of
them, so an idle installation leaves its database alone.
"""

import os
import socket
import threading
from collections.abc import Callable, Collection, Sequence

import structlog
from django.db import Error as DatabaseError
from django.db import close_old_connections
from django.db.models import Exists

from core import clock, hosts, leases, tasks
from core.local_queue import LocalQueue
from core.models import Lease
from core.tasks import Task

log = structlog.get_logger(__name__)

_LEASE = "leader"
_LEASE_S = 10.0
_STEP_S = 0.25
_SURELY_EVERY_S = 60.0


def lead(
    queue: LocalQueue, stop: threading.Event, *, holder: str = "", on_lead: Callable[[], None] | None = None
) -> None:
    """Run periodic tasks until `stop` is set.

    `on_lead` is called once, when this process first becomes the leader, or the one that works for its host.
    """
    holder = holder or f"{socket.gethostname()}:{os.getpid()}"
    schedule = Schedule()
    renew_at, is_leader, has_host = 0.0, False, False
    tasks.install_threads(queue)
    while not stop.wait(_STEP_S):
        now = clock.monotonic()
        if now >= renew_at:
            was_leader, (is_leader, has_host) = is_leader, _take(holder)
            renew_at = now + _LEASE_S / 3
            if is_leader and not was_leader:
                log.info("leader.elected", holder=holder)
            if (is_leader or has_host) and on_lead is not None:
                on_lead()
                on_lead = None
        if is_leader or has_host:
            for task in schedule.take_due(now, is_leader=is_leader):
                queue.put(task, {})
    tasks.install_threads(None)
    if has_host:
        hosts.release(holder=holder)
    if is_leader:
        leases.release_named(_LEASE, holder=holder)


class Schedule:
    """Which tasks are due. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._tasks = [task for task in tasks.registered().values() if task.every_s]
        self._due_at = {task.name: 0.0 for task in self._tasks}
        self._surely_at = dict(self._due_at)

    def take_due(self, now: float, *, is_leader: bool = True) -> list[Task]:
        """Return the tasks to run now: those that are due and have work, and each of them once a minute anyway.

        For who does not lead: those that run on each host.
        """
        due = [task for task in self._tasks if (is_leader or task.on_each_host) and now >= self._due_at[task.name]]
        if not due:
            return []
        try:
            idle = _find_idle([task for task in due if now < self._surely_at[task.name]])
        except DatabaseError as error:
            log.warning("leader.database_away", reason=str(error))
            return []
        for task in due:
            assert task.every_s is not None  # noqa: S101 (only such tasks are here)
            # Whole periods keep tasks of several periods together, so that one statement asks about all of them.
            self._due_at[task.name] = (now // task.every_s + 1) * task.every_s
            if task.name not in idle:
                self._surely_at[task.name] = now + _SURELY_EVERY_S
        return [task for task in due if task.name not in idle]


def _find_idle(due: Sequence[Task]) -> Collection[str]:
    """Return the names of the tasks for which there is nothing to do, asking the database once."""
    questions = [(task.name, query) for task in due if task.find_work is not None for query in task.find_work()]
    if not questions:
        return ()
    answers = Lease.objects.filter(pk=_LEASE).values_list(*(Exists(query) for _, query in questions)).first()
    if answers is None:
        return ()
    busy = {name for (name, _), has_rows in zip(questions, answers, strict=True) if has_rows}
    return {name for name, _ in questions} - busy


def _take(holder: str) -> tuple[bool, bool]:
    """Return whether this process leads, and whether it is the one that works for its host."""
    try:
        close_old_connections()
        if leases.renew_all([_LEASE, hosts.lease_name()], holder=holder, for_s=_LEASE_S):
            return True, True
        return leases.take_named(_LEASE, holder=holder, for_s=_LEASE_S), hosts.take(holder=holder)
    except DatabaseError as error:
        log.warning("leader.database_away", reason=str(error))
        return False, False
