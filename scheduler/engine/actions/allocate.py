"""Allocate: give free room to those who wait, queue by queue in fair order, without taking from anyone.

A workload that does not fit is passed over and the next one is tried, so no room stays idle that somebody could use.
"""

import heapq
from collections import deque
from collections.abc import Sequence

from scheduler.engine.decisions import Place
from scheduler.engine.rules import order, quota
from scheduler.engine.rules.order import QueueKey
from scheduler.engine.session import Session
from scheduler.engine.snapshot import Shape, Waiting


def allocate(session: Session, waiting: Sequence[Waiting]) -> tuple[list[Place], list[Waiting]]:
    """Return what is placed, in order of decision, and who is left waiting.

    Room only shrinks within a cycle, so a shape that once found none is not tried again.
    """
    lines: dict[str, deque[Waiting]] = {}
    for workload in sorted(waiting, key=order.workload_key):
        lines.setdefault(workload.queue_id, deque()).append(workload)
    turns = [_turn(session, line) for line in lines.values()]
    heapq.heapify(turns)
    placed: list[Place] = []
    left: list[Waiting] = []
    full: set[Shape] = set()
    while turns:
        queue_id = heapq.heappop(turns)[-1]
        line = lines[queue_id]
        workload = line.popleft()
        if not quota.may_start(workload, session.queues[queue_id], session.usage[queue_id]):
            session.pass_over(workload.shape)
            left.append(workload)
        elif (room := session.find_node(workload.shape)) is None:
            full.add(workload.shape)
            session.pass_over(workload.shape)
            left.append(workload)
        else:
            placed.append(session.place(workload, room))
        while line and line[0].shape in full:
            session.pass_over(line[0].shape)
            left.append(line.popleft())
        if line:
            heapq.heappush(turns, _turn(session, line))
    return placed, left


def _turn(session: Session, line: deque[Waiting]) -> QueueKey:
    queue_id = line[0].queue_id
    queue, usage, share = session.queues[queue_id], session.usage[queue_id], session.shares[queue_id]
    return order.queue_key(queue, usage, share, line[0], session.total)
