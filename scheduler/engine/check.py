"""Whether a session that was kept from cycle to cycle still says what one made anew would say."""

from collections.abc import Iterator

from scheduler.engine.ledger import NodeLedger
from scheduler.engine.session import Session
from scheduler.engine.snapshot import Snapshot

_ROOM = tuple(name for name in NodeLedger.__slots__ if name not in {"_changes", "index", "view"})
_QUEUE = ("held", "firm", "waiting", "fair", "may_hold")
_JOBS = ("waiting", "promised", "partial")


def differences(session: Session) -> list[str]:
    """Return in what a session, before anything is decided on it, differs from one made anew; nothing is right."""
    views = [job.view for job in session.jobs.values()]
    nodes, queues = [node.view for node in session.nodes], [queue.view for queue in session.queues.values()]
    anew = Session(Snapshot(nodes, queues, views), session.policy)
    return [*_in_room(session, anew), *_in_queues(session, anew), *_in_order(session, anew)]


def _in_room(kept: Session, anew: Session) -> Iterator[str]:
    for before, after in zip(kept.nodes, anew.nodes, strict=True):
        yield from _in_fields(f"node {before.view.name}", before, after, _ROOM)
    for request, shape in kept.shapes.items():
        best = shape.best(kept.nodes, kept.changes, kept.policy)
        other = anew.shape_of(request).best(anew.nodes, anew.changes, anew.policy)
        if (best and best.index) != (other and other.index):
            yield f"the best node for {request} is {best and best.view.name}, not {other and other.view.name}"


def _in_queues(kept: Session, anew: Session) -> Iterator[str]:
    for queue_id, queue in kept.queues.items():
        yield from _in_fields(f"queue {queue_id}", queue, anew.queues[queue_id], _QUEUE)


def _in_order(kept: Session, anew: Session) -> Iterator[str]:
    for queue_id in kept.queues:
        ours, theirs = (
            [job.view.id for _, job in session.lines.of(session.queues[queue_id])] for session in (kept, anew)
        )
        if ours != theirs:
            yield f"queue {queue_id}: its victims stand in another order"
        if _in_lines(kept, queue_id) != _in_lines(anew, queue_id):
            yield f"queue {queue_id}: those who wait stand in other lines"
    for name in _JOBS:
        if alone := getattr(kept, name).keys() ^ getattr(anew, name).keys():
            yield f"{name} jobs: {sorted(alone)} are in one of the two only"


def _in_lines(session: Session, queue_id: str) -> list[list[str]]:
    kinds = session.waiting_lines.settled().get(session.queues[queue_id], {})
    return sorted([job.view.id for _, job in line] for line in kinds.values())


def _in_fields(label: str, before: object, after: object, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        if getattr(before, name) != getattr(after, name):
            yield f"{label}: {name} is {getattr(before, name)}, not {getattr(after, name)}"
