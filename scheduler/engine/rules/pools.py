"""Pools in the order in which a job wants them: one of them serves all of it.

A task looks for room in a pool by taking on, for the time of the attempt, the shape that its request has there. What
it counts is the same in all of them, so this may be done in any state.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from scheduler.engine.jobs import Job, Task
from scheduler.engine.ledger import HOLDING
from scheduler.engine.session import Session


def choices(job: Job) -> tuple[str, ...]:
    """Return the pools in which what comes next of a job may go, best first; none where its requests say it all.

    Once a part of the job is up, the rest follows there.
    """
    if job.view.pools and job.holding:
        for task in job.tasks:
            if task.state in HOLDING and task.node is not None:
                return (task.node.view.pool,)
    return job.view.pools


@contextmanager
def turned_to(session: Session, tasks: Sequence[Task], pool: str) -> Iterator[None]:
    """Let tasks look for room in one pool only."""
    own = [task.shape for task in tasks]
    there = {shape: session.shape_of(replace(shape.request, pool=pool)) for shape in set(own)}
    for task in tasks:
        task.shape = there[task.shape]
    try:
        yield
    finally:
        for task, shape in zip(tasks, own, strict=True):
            task.shape = shape


def in_order(session: Session, job: Job, tasks: Sequence[Task], attempt: Callable[[], bool]) -> bool:
    """Make an attempt in one pool after the other until one succeeds; without a choice of pools just once.

    Who was told to leave in this cycle stays in his pool if he can.
    """
    names = choices(job)
    if not names or not tasks:
        return attempt()
    left = tasks[0].node.view.pool if tasks[0].was_evicted and tasks[0].node is not None else None
    for name in sorted(names, key=lambda name: name != left):
        with turned_to(session, tasks, name):
            if attempt():
                return True
    return False
