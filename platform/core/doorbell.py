"""Background work: what can be rung for, and the port through which the ring travels.

A ring says "look again", never "do this": the database row says what there is to do. So a ring may be lost, doubled
or reordered without harm, and every handler can be repeated. A handler's periodic tick finds what a lost ring left.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from django.db import transaction

from core.metrics import TASK_FAILURES, TASK_SECONDS


class Lane(StrEnum):
    """Handlers in one lane may wait for each other; lanes never do (a slow hydration cannot starve `advance`).

    TIDY is for what may take hours and nobody waits for: what somebody asked for never stands behind it.
    """

    ADVANCE = "advance"
    CACHE = "cache"
    WATCH = "watch"
    NOTIFY = "notify"
    TIDY = "tidy"


Handler = Callable[..., None]


@dataclass(frozen=True)
class Task:
    """Something that can be rung for. `every_s` is the period of its tick in seconds; None means it has none."""

    name: str
    lane: Lane
    handler: Handler
    every_s: float | None


class Doorbell(Protocol):
    """Carries a ring to a worker. May lose, double or reorder rings; never blocks for long."""

    def ring(self, task: Task, ids: dict[str, str]) -> None:
        """Ask for `task` to be run with `ids` as keyword arguments, soon, somewhere."""


class Lanes(Doorbell, Protocol):
    """Threads of this process that run tasks. The leader has them; what they run never depends on a message."""

    def queue(self, task: Task, ids: dict[str, str]) -> None:
        """Have `task` run here, soon, unless the same waits already."""


class Silent:
    """A doorbell that carries nothing: rings are found by the next tick. For tests and one-off commands."""

    def ring(self, task: Task, ids: dict[str, str]) -> None:
        """Drop the ring."""


_tasks: dict[str, Task] = {}
_doorbell: Doorbell = Silent()
_lanes: Lanes | None = None


def task(name: str, *, lane: Lane, every_s: float | None = None) -> Callable[[Handler], Handler]:
    """Register a function under `name`. One with a period takes no ids when it is ticked."""

    def register(handler: Handler) -> Handler:
        _tasks[name] = Task(name, lane, handler, every_s)
        return handler

    return register


def registered() -> dict[str, Task]:
    """Return every task by name."""
    return dict(_tasks)


def run(name: str, ids: dict[str, str]) -> None:
    """Run a task here and now."""
    with TASK_FAILURES.labels(name).count_exceptions(), TASK_SECONDS.labels(name).time():
        _tasks[name].handler(**ids)


def install(doorbell: Doorbell) -> Doorbell:
    """Choose the doorbell of this process and return the one before it. Called by `config.wiring` and by tests."""
    global _doorbell
    before, _doorbell = _doorbell, doorbell
    return before


def install_lanes(lanes: Lanes | None) -> None:
    """Say which threads of this process run what its ticks find; None: it has none. Called by the leader."""
    global _lanes  # noqa: PLW0603 (a process has one set of lanes, as it has one doorbell)
    _lanes = lanes


def ring(name: str, **ids: str) -> None:
    """Ring for a task now."""
    _doorbell.ring(_tasks[name], ids)


def ring_surely(name: str, **ids: str) -> None:
    """Ring for what a tick found: for any worker, and on this process's own threads, where no message can be lost.

    Whoever comes second finds nothing left to do. A task without a tick of its own is rung for in this way by the tick
    that finds its work.
    """
    if _lanes is not None:
        _lanes.queue(_tasks[name], ids)
    if _doorbell is not _lanes:
        ring(name, **ids)


def enqueue_on_commit(name: str, **ids: str) -> None:
    """Ring for a task once the surrounding transaction has committed."""
    transaction.on_commit(lambda: ring(name, **ids))
