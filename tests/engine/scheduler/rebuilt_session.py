"""Whether a cached session still equals one that is built from the same views."""

from collections.abc import Iterator

from scheduler.engine.ledger import NodeLedger
from scheduler.engine.session import Session
from scheduler.engine.snapshot import Snapshot

_CAPACITY = tuple(name for name in NodeLedger.__slots__ if name not in {"_changes", "index", "view"})
_QUEUE = ("held", "firm", "waiting", "fair", "may_hold")
_JOBS = ("waiting", "reserved", "partial")


def differences(session: Session) -> list[str]:
    """Return in what a session, before anything is decided on it, differs from a new one; nothing is right."""
    views = [job.view for job in session.jobs.values()]
    nodes, queues = [node.view for node in session.nodes], [queue.view for queue in session.queues.values()]
    rebuilt = Session(Snapshot(nodes, queues, views), session.policy)
    return [*_in_capacity(session, rebuilt), *_in_queues(session, rebuilt), *_in_order(session, rebuilt)]


def _in_capacity(cached: Session, rebuilt: Session) -> Iterator[str]:
    for before, after in zip(cached.nodes, rebuilt.nodes, strict=True):
        yield from _in_fields(f"node {before.view.name}", before, after, _CAPACITY)
    for request, shape in cached.shapes.items():
        best = shape.best(cached.table, cached.policy)
        other = rebuilt.shape_of(request).best(rebuilt.table, rebuilt.policy)
        if (best and best.index) != (other and other.index):
            yield f"the best node for {request} is {best and best.view.name}, not {other and other.view.name}"


def _in_queues(cached: Session, rebuilt: Session) -> Iterator[str]:
    for queue_id, queue in cached.queues.items():
        yield from _in_fields(f"queue {queue_id}", queue, rebuilt.queues[queue_id], _QUEUE)


def _in_order(cached: Session, rebuilt: Session) -> Iterator[str]:
    for queue_id in cached.queues:
        ours, theirs = (
            [job.view.id for _, job in session.victim_lines.of(session.queues[queue_id])]
            for session in (cached, rebuilt)
        )
        if ours != theirs:
            yield f"queue {queue_id}: its victims stand in another order"
        if _in_lines(cached, queue_id) != _in_lines(rebuilt, queue_id):
            yield f"queue {queue_id}: those who wait stand in other lines"
    for name in _JOBS:
        if alone := getattr(cached, name).keys() ^ getattr(rebuilt, name).keys():
            yield f"{name} jobs: {sorted(alone)} are in one of the two only"


def _in_lines(session: Session, queue_id: str) -> list[list[str]]:
    kinds = session.waiting_lines.settled().get(session.queues[queue_id], {})
    return sorted([job.view.id for _, job in line] for line in kinds.values())


def _in_fields(label: str, before: object, after: object, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        if getattr(before, name) != getattr(after, name):
            yield f"{label}: {name} is {getattr(before, name)}, not {getattr(after, name)}"
