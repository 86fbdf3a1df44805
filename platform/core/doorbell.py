"""Background work: what can be rung for, and the port through which the ring travels.

A ring says "look again", never "do this": the database row says what there is to do. So a ring may be lost, doubled
or reordered without harm, and every handler can be repeated. A handler's periodic tick finds what a lost ring left.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from django.db import transaction

from core.metrics import TASK_SECONDS


class Lane(StrEnum):
    """Handlers in one lane may wait for each other; lanes never do (a slow hydration cannot starve `advance`)."""

    ADVANCE = "advance"
    CACHE = "cache"
    WATCH = "watch"
    NOTIFY = "notify"


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


class Silent:
    """A doorbell that carries nothing: rings are found by the next tick. For tests and one-off commands."""

    def ring(self, task: Task, ids: dict[str, str]) -> None:
        """Drop the ring."""


_tasks: dict[str, Task] = {}
_doorbell: Doorbell = Silent()


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
    with TASK_SECONDS.labels(name).time():
        _tasks[name].handler(**ids)


def install(doorbell: Doorbell) -> Doorbell:
    """Choose the doorbell of this process and return the one before it. Called by `config.wiring` and by tests."""
    global _doorbell
    before, _doorbell = _doorbell, doorbell
    return before


def ring(name: str, **ids: str) -> None:
    """Ring for a task now."""
    _doorbell.ring(_tasks[name], ids)


def enqueue_on_commit(name: str, **ids: str) -> None:
    """Ring for a task once the surrounding transaction has committed."""
    transaction.on_commit(lambda: ring(name, **ids))
