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
from collections.abc import Callable, Sequence

import structlog
from django.db import Error as DatabaseError
from django.db import close_old_connections
from django.db.models import Exists, QuerySet

from core import clock, hosts, leases, tasks
from core.local_queue import LocalQueue
from core.models import Lease
from core.outages import find_outage
from core.prepared import Repeated
from core.tasks import Task

log = structlog.get_logger(__name__)

_LEASE = "leader"
_LEASE_S = 10.0
RENEW_S = 5.0
"""Between renewals of leases that this process holds. One that fails is tried again before they have run out."""
_STEP_S = 0.25
_MINUTE_S = 60.0


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
            renew_at = now + (RENEW_S if is_leader and has_host else _LEASE_S / 3)
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
        self._anyway_at = dict(self._due_at)
        self._questions: dict[tuple[int, frozenset[str]], _Question] = {}
        # Runs without work, and those of long periods, are spread over their period, so that no minute has all of them.
        self._first_anyway_s, self._phase_s = {}, {}
        for number, task in enumerate(self._tasks, start=1):
            assert task.every_s is not None  # noqa: S101 (only such tasks are here)
            self._first_anyway_s[task.name] = task.anyway_s * number / len(self._tasks)
            self._phase_s[task.name] = number * _MINUTE_S % task.every_s

    def take_due(self, now: float, *, is_leader: bool = True) -> list[Task]:
        """Return the tasks to run now: those that are due and have work, or had none for long (`Task.anyway_s`).

        For who does not lead: those that run on each host.
        """
        due = [task for task in self._tasks if (is_leader or task.on_each_host) and now >= self._due_at[task.name]]
        if not due:
            return []
        try:
            idle = self._find_idle(due)
        except DatabaseError as error:
            _tell(error)
            return []
        for task in due:
            assert task.every_s is not None  # noqa: S101 (only such tasks are here)
            # Whole periods keep tasks of several periods together, so that one statement asks about all of them.
            phase_s = self._phase_s[task.name]
            self._due_at[task.name] = ((now - phase_s) // task.every_s + 1) * task.every_s + phase_s
            if now >= self._anyway_at[task.name]:
                idle.discard(task.name)
            if task.name not in idle:
                self._anyway_at[task.name] = now + self._first_anyway_s.pop(task.name, task.anyway_s)
        return [task for task in due if task.name not in idle]

    def _find_idle(self, due: Sequence[Task]) -> set[str]:
        """Return the names of the tasks for which there is nothing to do, asking the database once."""
        asked = [task for task in due if task.find_work is not None]
        if not asked:
            return set()
        key = tasks.questions(), frozenset(task.name for task in asked)
        if key not in self._questions:
            # Periods are few, so due tasks are of few sets. What was asked before something changed is not asked again.
            self._questions = {known: each for known, each in self._questions.items() if known[0] == key[0]}
            self._questions[key] = _Question(asked)
        return self._questions[key].find_idle()


class _Question:
    """One statement that asks whether there is work for any of some tasks. Its SQL takes long to make: it is kept."""

    def __init__(self, asked: Sequence[Task]) -> None:
        self._names: list[str] = []
        self._query = Repeated(lambda: self._make(asked))

    def _make(self, asked: Sequence[Task]) -> "QuerySet[Lease, tuple[bool, ...]]":
        queries = [(task.name, query) for task in asked if task.find_work is not None for query in task.find_work()]
        self._names = [name for name, _ in queries]
        answers = {f"has_{number}": Exists(query) for number, (_, query) in enumerate(queries)}
        return Lease.objects.filter(pk=_LEASE).annotate(**answers).values_list(*answers)

    def find_idle(self) -> set[str]:
        """Return the names of the tasks for which there is nothing to do; none where nobody has ever led."""
        rows = self._query()
        if not rows:
            return set()
        return set(self._names) - {name for name, has_rows in zip(self._names, rows[0], strict=True) if has_rows}


def _take(holder: str) -> tuple[bool, bool]:
    """Return whether this process leads, and whether it is the one that works for its host."""
    try:
        close_old_connections()
        if leases.renew_all([_LEASE, hosts.lease_name()], holder=holder, for_s=_LEASE_S):
            return True, True
        return leases.take_named(_LEASE, holder=holder, for_s=_LEASE_S), hosts.take(holder=holder)
    except DatabaseError as error:
        _tell(error)
        return False, False


def _tell(error: Exception) -> None:
    """Log why the database did not answer; an outage is logged by what recognises it, every ten seconds."""
    if find_outage(error) is None:
        log.warning("leader.database_away", reason=str(error))
