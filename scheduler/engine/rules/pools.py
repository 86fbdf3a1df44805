"""Pools in the order in which a job wants them: one of them serves all of it.

A pod looks for capacity in a pool by taking on, for the time of the attempt, the shape that its request has there. What
it counts is the same in all of them, so this may be done in any state.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from scheduler.engine.jobs import Job, Pod
from scheduler.engine.ledger import HOLDING
from scheduler.engine.session import Session


def choices(job: Job) -> tuple[str, ...]:
    """Return the pools in which what comes next of a job may go, best first; none where its requests say it all.

    Once a part of the job is up, the rest follows there.
    """
    if job.view.pools and job.holding:
        for pod in job.pods:
            if pod.state in HOLDING and pod.node is not None:
                return (pod.node.view.pool,)
    return job.view.pools


@contextmanager
def turned_to(session: Session, pods: Sequence[Pod], pool: str) -> Iterator[None]:
    """Let pods look for capacity in one pool only."""
    own = [pod.shape for pod in pods]
    there = {shape: session.shape_of(replace(shape.request, pool=pool)) for shape in set(own)}
    for pod in pods:
        pod.shape = there[pod.shape]
    try:
        yield
    finally:
        for pod, shape in zip(pods, own, strict=True):
            pod.shape = shape


def in_order(session: Session, job: Job, pods: Sequence[Pod], attempt: Callable[[], bool]) -> bool:
    """Make an attempt in one pool after the other until one succeeds; without a choice of pools just once.

    A pod that this cycle evicts stays in its pool if it can.
    """
    names = choices(job)
    if not names or not pods:
        return attempt()
    left = pods[0].node.view.pool if pods[0].was_evicted and pods[0].node is not None else None
    for name in sorted(names, key=lambda name: name != left):
        with turned_to(session, pods, name):
            if attempt():
                return True
    return False
