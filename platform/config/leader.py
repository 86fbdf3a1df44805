"""The leader: every task with a period is run when due, by the one process that holds the lease.

What belongs to a host is worked on there: on each host one controller holds the host's lease, and runs the tasks that
say so, leader or not.

Messages make the product quick; this loop makes it right. It runs periodic tasks in its own process, on threads of its
own, so that nothing depends on a message broker being there. Whether there is work is asked in one statement for all of
them, which renews the leases too when that is due, so an idle installation leaves its database alone.
"""

import os
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import structlog
from django.db import Error as DatabaseError
from django.db.models import Exists, QuerySet

from core import clock, connections, hosts, leases, tasks
from core.local_queue import LocalQueue
from core.models import Lease
from core.outages import find_outage
from core.prepared import Repeated, RepeatedUpdate
from core.tasks import Task

log = structlog.get_logger(__name__)

_LEASE_S = 10.0
_RENEW_S = 5.0
"""Between renewals of leases that this process holds. One that fails is tried again before they have run out."""
_RENEW_EARLY_S = 1.5
_STEP_S = 0.25
_MINUTE_S = 60.0


def lead(
    queue: LocalQueue, stop: threading.Event, *, holder: str = "", on_lead: Callable[[], None] | None = None
) -> None:
    """Run periodic tasks until `stop` is set.

    `on_lead` is called once, when this process first becomes the leader, or the one that works for its host.
    """
    held = HeldLeases(holder or f"{socket.gethostname()}:{os.getpid()}")
    schedule = Schedule(held)
    tasks.install_threads(queue)
    while not stop.wait(_STEP_S):
        now = clock.monotonic()
        was_leader = held.is_leader
        if held.are_due(now):
            with suppress(DatabaseError):  # the next statement tells it
                connections.keep_usable()
        held.take(now)
        if held.is_leader and not was_leader:
            log.info("leader.elected", holder=held.holder)
        if (held.is_leader or held.has_host) and on_lead is not None:
            on_lead()
            on_lead = None
        if held.is_leader or held.has_host:
            for task in schedule.take_due(now):
                queue.put(task, {})
    tasks.install_threads(None)
    if held.has_host:
        hosts.release(holder=held.holder)
    if held.is_leader:
        leases.release_named(leases.LEADER, holder=held.holder)


class HeldLeases:
    """The leases of this process: whether it leads, and whether it is the one that works for its host."""

    def __init__(self, holder: str) -> None:
        self.holder = holder
        self.is_leader = self.has_host = False
        self._take_at = 0.0

    def take(self, now: float) -> None:
        """Take or renew the leases, if that is due."""
        if now < self._take_at:
            return
        try:
            taken = leases.take_all([leases.LEADER, hosts.lease_name()], holder=self.holder, for_s=_LEASE_S)
        except DatabaseError as error:
            _tell(error)
            taken = set()
        self.is_leader, self.has_host = leases.LEADER in taken, hosts.lease_name() in taken
        self._take_at = now + (_RENEW_S if self.is_leader and self.has_host else _LEASE_S / 3)

    def are_due(self, now: float) -> bool:
        """Whether the leases are to be taken or renewed, now or soon."""
        return now >= self._take_at - _RENEW_EARLY_S

    def are_renewable(self, now: float) -> bool:
        """Whether this process has both leases, and a statement for something else may renew them along with it."""
        return self.is_leader and self.has_host and self.are_due(now)

    def note(self, now: float, *, are_renewed: bool) -> None:
        """Note that both leases were renewed; else what is left of them is found out at once."""
        self._take_at = now + _RENEW_S if are_renewed else now


class Schedule:
    """Which tasks are due, for the process that holds these leases. Times are seconds of a monotonic clock."""

    def __init__(self, held: HeldLeases) -> None:
        self._held = held
        self._tasks = [task for task in tasks.registered().values() if task.every_s]
        self._due_at = {task.name: 0.0 for task in self._tasks}
        self._anyway_at = dict(self._due_at)
        self._questions: dict[tuple[int, bool, frozenset[str]], _Question] = {}
        # Runs without work, and those of long periods, are spread over their period, so that no minute has all of them.
        self._first_anyway_s, self._phase_s = {}, {}
        for number, task in enumerate(self._tasks, start=1):
            assert task.every_s is not None  # noqa: S101 (only such tasks are here)
            self._first_anyway_s[task.name] = task.anyway_s * number / len(self._tasks)
            self._phase_s[task.name] = number * _MINUTE_S % task.every_s

    def take_due(self, now: float) -> list[Task]:
        """Return the tasks to run now: those that are due and have work, or had none for long (`Task.anyway_s`).

        For who does not lead: those that run on each host.
        """
        ours = [task for task in self._tasks if self._held.is_leader or task.on_each_host]
        due = [task for task in ours if now >= self._due_at[task.name]]
        if not due:
            return []
        try:
            idle = self._find_idle(due, now)
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

    def _find_idle(self, due: Sequence[Task], now: float) -> set[str]:
        """Return the names of the tasks for which there is nothing to do, asking the database once.

        The same statement renews the leases of this process, when that is due soon.
        """
        asked = [task for task in due if task.find_work is not None]
        if not asked:
            return set()
        if self._held.are_renewable(now):
            idle = self._question(asked, renews=True).find_idle()
            self._held.note(now, are_renewed=idle is not None)
            if idle is not None:
                return idle
        return self._question(asked, renews=False).find_idle() or set()

    def _question(self, asked: Sequence[Task], *, renews: bool) -> "_Question":
        key = tasks.questions(), renews, frozenset(task.name for task in asked)
        if key not in self._questions:
            # Periods are few, so due tasks are of few sets. What was asked before something changed is not asked again.
            self._questions = {known: each for known, each in self._questions.items() if known[0] == key[0]}
            self._questions[key] = _Question(asked, self._held.holder if renews else None)
        return self._questions[key]


class _Question:
    """One statement that asks whether there is work for any of some tasks. Its SQL takes long to make: it is kept.

    With a holder it renews the two leases of that process as well.
    """

    def __init__(self, asked: Sequence[Task], renews_for: str | None) -> None:
        self._names: list[str] = []
        self._ask: Callable[[], list[Any]]
        if renews_for is None:
            self._least_rows = 1
            self._ask = Repeated(lambda: self._make(asked, Lease.objects.filter(pk=leases.LEADER)))
        else:
            names = [leases.LEADER, hosts.lease_name()]
            self._least_rows = len(names)
            rows = Lease.objects.filter(pk__in=names, lease_token=renews_for)
            self._ask = RepeatedUpdate(lambda: self._make(asked, rows), "lease_expires_at", _LEASE_S)

    def _make(self, asked: Sequence[Task], rows: "QuerySet[Lease]") -> "QuerySet[Lease, tuple[bool, ...]]":
        queries = [(task.name, query) for task in asked if task.find_work is not None for query in task.find_work()]
        self._names = [name for name, _ in queries]
        answers = {f"has_{number}": Exists(query) for number, (_, query) in enumerate(queries)}
        return rows.annotate(**answers).values_list(*answers)

    def find_idle(self) -> set[str] | None:
        """Return the names of the tasks for which there is nothing to do.

        None where nobody has ever led, or the holder has lost one of its leases.
        """
        rows = self._ask()
        if len(rows) < self._least_rows:
            return None
        return set(self._names) - {name for name, has_rows in zip(self._names, rows[0], strict=True) if has_rows}


def _tell(error: Exception) -> None:
    """Log why the database did not answer; an outage is logged by what recognises it, every ten seconds."""
    if find_outage(error) is None:
        log.warning("leader.database_away", reason=str(error))
