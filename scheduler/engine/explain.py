"""Why a job waits: the proof in numbers, a sentence, and what would let it start.

Jobs that ask for the same in the same queue share one answer, so explaining thousands of them costs what one does.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduler.engine import wording
from scheduler.engine.decisions import Explain, WaitCode
from scheduler.engine.jobs import Job, Task
from scheduler.engine.proof import Bound, BoundKind, Cause, NodeShortfall, Proof, Resource, Unblock, Way
from scheduler.engine.rules import affinity, pools, reservation, topology
from scheduler.engine.session import Session
from scheduler.engine.shortfall import Flags, Look, Rooms, look
from scheduler.engine.snapshot import Placement

_LASTING = frozenset({WaitCode.NEVER_FITS, WaitCode.NOT_ALLOWED, WaitCode.UNREACHABLE, WaitCode.DRAINED})
_GRAVITY = [
    WaitCode.UNREACHABLE,
    WaitCode.NOT_ALLOWED,
    WaitCode.NEVER_FITS,
    WaitCode.DRAINED,
    WaitCode.NO_ROOM,
    WaitCode.KEPT,
    WaitCode.NOT_TOGETHER,
    WaitCode.NEXT_CYCLE,
]
_LIGHTNESS = {code: number for number, code in enumerate(_GRAVITY)}
_RESOURCES = (Resource.GPU, Resource.CPU, Resource.MEMORY)

_Answer = tuple[WaitCode, str, str, Proof]

_INCOMPLETE = (WaitCode.INCOMPLETE, "too few of its tasks are left to make up what it needs to start", "", Proof(0, 0))


@dataclass(frozen=True)
class _Part:
    """The tasks of one kind that should start together, and why they do not. `where` is how their nodes are called.

    `ruled` names the work that, by a rule of its queue, may not run on all of them.
    """

    code: WaitCode
    text: str
    look: Look
    needed: int
    placeable: int
    where: str
    ruled: str = ""


def explain(session: Session) -> list[Explain]:
    """Return the reason of each job of which tasks wait, by job id."""
    if not session.waiting:
        return []
    explainer = _Explainer(session)
    return [Explain(job_id, *explainer.answer(session.waiting[job_id])) for job_id in sorted(session.waiting)]


class _Explainer:
    """Answers for the jobs of one moment, each different question once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._rooms = Rooms(session.nodes)
        self._known: dict[object, _Answer] = {}

    def answer(self, job: Job) -> _Answer:
        """Return code, sentence, advice and proof for a job."""
        tasks, names = job.next_tasks(), pools.choices(job)
        placement = topology.placement_of(job)
        kinds = [(task.shape, affinity.rules_of(task.view)) for task in tasks]
        counts = tuple(Counter(kinds).items()) if len(kinds) > 1 else tuple(kinds)
        guarded = job if job in self._session.kept else None
        key = (counts, placement, job.queue, job.view.is_preemptible, guarded, names)
        known = self._known.get(key)
        if known is None:
            known = self._answer_for(names, job, tasks, placement) if tasks else _INCOMPLETE
            self._known[key] = known
        return known

    def _answer_for(self, names: Sequence[str], job: Job, tasks: list[Task], placement: Placement | None) -> _Answer:
        """Return the answer in the pools with these names, as one; without any, that in all that the tasks allow."""
        if not names:
            return self._answer(job, tasks, placement)
        written = {node.view.pool: node.view.pool_name for node in self._session.nodes}
        answers = {}
        for name in names:
            with pools.turned_to(self._session, tasks, name):
                answers[written.get(name) or name] = self._answer(job, tasks, placement)
        return _of_pools(answers) if len(answers) > 1 else next(iter(answers.values()))

    def _answer(self, job: Job, tasks: list[Task], placement: Placement | None) -> _Answer:
        with reservation.opened(self._session, job) as own:
            rooms = Rooms(self._session.nodes) if own else self._rooms
            parts = self._parts(tasks, placement, rooms)
        part = min(parts, key=lambda part: _LIGHTNESS[part.code])
        code, text = part.code, part.text
        bounds = self._bounds(job, tasks)
        if bounds and code not in _LASTING:
            code, text = wording.of_bounds(bounds)
        elif kept := [node.view.name for node in own if any(node.view.serves(task.shape.request) for task in tasks)]:
            text += f"; what gets free on {wording.list_names(kept)} is kept for it"
        nearest = part.look.nearest()
        unblock = self._ways(part, nearest) if code in _LASTING or not bounds else _ways_past(bounds)
        proof = Proof(
            sum(part.needed for part in parts),
            sum(part.placeable for part in parts),
            bounds,
            nearest,
            part.look.others(nearest),
            unblock,
        )
        return code, text, wording.advise(unblock), proof

    def _bounds(self, job: Job, tasks: Sequence[Task]) -> tuple[Bound, ...]:
        """Return the quotas that work must not pass which nobody may take away, or else the limits of all work."""
        if not self._session.policy.quotas:
            return ()
        amounts = self._session.charge_all(tasks)
        firm = () if job.view.is_preemptible else _passed(job, amounts, BoundKind.QUOTA)
        return firm or _passed(job, amounts, BoundKind.LIMIT)

    def _parts(self, tasks: Sequence[Task], placement: Placement | None, rooms: Rooms) -> list[_Part]:
        kinds: dict[object, list[Task]] = {}
        for task in tasks:
            kinds.setdefault((task.shape, affinity.rules_of(task.view)), []).append(task)
        parts = [_ruled(self._part(alike[0], len(alike), placement, rooms), alike[0]) for alike in kinds.values()]
        if len(parts) > 1 and all(part.code is WaitCode.NEXT_CYCLE for part in parts):
            text = f"needs room for {len(tasks)} unlike tasks at once; each kind of them alone would find enough"
            return [_Part(WaitCode.NO_ROOM, text, p.look, p.needed, p.placeable, p.where) for p in parts]
        return parts

    def _part(self, task: Task, count: int, placement: Placement | None, rooms: Rooms) -> _Part:
        seen = look(rooms, task.shape.request, self._allowed(task, rooms))
        where = _name_of(seen)
        reason = _lasting_reason(seen, count, where)
        if reason is not None:
            return _Part(*reason, seen, count, 0, where)
        free = seen.count_free()
        total = together = min(count, int(free.sum()))
        if placement is not None and self._session.policy.topology:
            domains = topology.required_domains(placement, seen.nodes(seen.is_mine))
            most = max((int(sum(free[node.index] for node in nodes)) for nodes in domains), default=0)
            together = min(count, most)
        if total < count:
            return _Part(*self._no_room(seen, count, total, where), seen, count, together, where)
        if together < count:
            text = wording.not_together(seen, count, together, placement.required if placement else None)
            return _Part(WaitCode.NOT_TOGETHER, text, seen, count, together, where)
        if not task.view.may_run_anywhere or placement is not None:
            text = "there is room for its tasks, but not in places that its rules of placement allow together"
            return _Part(WaitCode.NOT_TOGETHER, text, seen, count, together, where)
        text = "room for it has just become free; it is considered in the next cycle"
        return _Part(WaitCode.NEXT_CYCLE, text, seen, count, together, where)

    def _no_room(self, seen: Look, count: int, total: int, where: str) -> tuple[WaitCode, str]:
        if not seen.has(Cause.HAS_ROOM).any() and seen.has(Cause.KEPT).any():
            names = [node.view.name for node in seen.nodes(seen.has(Cause.KEPT))]
            return (
                WaitCode.KEPT,
                f"the room on {wording.list_names(names)} is kept for a big job whose turn comes first",
            )
        if count > 1:
            text = wording.too_few(seen, count, total, where)
        else:
            text = wording.compare(seen, seen.is_mine & ~seen.has(Cause.NOT_ALLOWED) & _is_open(seen), where, "free")
        return WaitCode.NO_ROOM, text + wording.closed(seen)

    def _kept_for(self, seen: Look) -> str:
        nodes = seen.nodes(seen.has(Cause.KEPT))
        return next(job.view.id for job, kept in self._session.kept.items() if nodes[0] in kept)

    def _allowed(self, task: Task, rooms: Rooms) -> Flags:
        if task.view.may_run_anywhere and task.shape.request.node_labels is None:
            return np.ones(len(rooms.nodes), bool)
        return np.array(affinity.allowed(self._session, task, rooms.nodes), bool)

    def _ways(self, part: _Part, nearest: Sequence[NodeShortfall]) -> tuple[Unblock, ...]:
        """Return what would let the tasks find room, the nearest first."""
        seen, ways = part.look, []
        if part.code is WaitCode.NEVER_FITS and nearest and nearest[0].cause is Cause.TOO_SMALL:
            ways += [
                Unblock(Way.ASK_LESS, nearest[0].node, s.resource, s.available, s.profile) for s in nearest[0].shortages
            ]
        elif part.code is WaitCode.NEVER_FITS:
            ways.append(Unblock(Way.ASK_LESS, part.where, Resource.TASKS, int(seen.count_empty().sum())))
        if part.code is WaitCode.KEPT:
            ways.append(Unblock(Way.WAIT_FOR_JOB, self._kept_for(seen)))
        elif part.code is WaitCode.NO_ROOM and part.needed > 1:
            ways.append(Unblock(Way.WAIT_FOR_ROOM, part.where, Resource.TASKS, part.needed - part.placeable))
        elif part.code is WaitCode.NO_ROOM and nearest:
            ways += [
                Unblock(Way.WAIT_FOR_NODE, nearest[0].node, s.resource, s.missing, s.profile)
                for s in nearest[0].shortages
            ]
        ways += [Unblock(Way.OPEN_NODE, node.view.name) for node in seen.nodes(seen.has(Cause.DRAINED))[:1]]
        ways += [Unblock(Way.REPAIR_NODE, node.view.name) for node in seen.nodes(seen.has(Cause.NOT_READY))[:1]]
        if seen.request.pool and seen.fits_elsewhere(part.needed):
            ways.append(Unblock(Way.DROP_POOL, part.where))
        if part.ruled and (part.code is WaitCode.NOT_ALLOWED or seen.fits_where_not_allowed()):
            ways.append(Unblock(Way.ALLOW_NODES, part.ruled))
        return tuple(ways)


def _ruled(part: _Part, task: Task) -> _Part:
    """Return a part that names the rule of its queue, if that keeps it from nodes."""
    labels = task.shape.request.node_labels
    if labels is None or part.code is WaitCode.NEXT_CYCLE:
        return part
    if all(node.view.bears(labels) for node in part.look.nodes(part.look.is_mine)):
        return part
    work = wording.kind_of_work(task.job)
    return replace(part, text=f"{part.text}; {wording.bound_to(work, labels)}", ruled=work)


def _of_pools(answers: Mapping[str, _Answer]) -> _Answer:
    """Return as one answer those of several pools by their names: that of the pool nearest to serving the job."""
    code, text, _, proof = max(answers.values(), key=lambda answer: _LIGHTNESS.get(answer[0], len(_GRAVITY)))
    if code in _LIGHTNESS:
        text = wording.of_pools({name: answer[1] for name, answer in answers.items()})
    proofs = {name: answer[3] for name, answer in answers.items()}
    ways = dict.fromkeys(way for each in proofs.values() for way in each.unblock if way.way is not Way.DROP_POOL)
    if all(any(way.way is Way.DROP_POOL for way in each.unblock) for each in proofs.values()):
        ways[Unblock(Way.DROP_POOL, wording.list_names(list(proofs)))] = None
    proof = replace(proof, unblock=tuple(ways), pools=tuple(proofs.items()))
    return code, text, wording.advise(proof.unblock), proof


def _ways_past(bounds: Sequence[Bound]) -> tuple[Unblock, ...]:
    """Return what would let the job stay within the bounds that it would pass."""
    is_quota = bounds[0].kind is BoundKind.QUOTA
    way = Way.RAISE_QUOTA if is_quota else Way.RAISE_LIMIT
    raises = [Unblock(way, bound.queue, bound.resource, bound.missing) for bound in bounds]
    return (*raises, Unblock(Way.BE_PREEMPTIBLE) if is_quota else Unblock(Way.WAIT_FOR_QUEUE, bounds[0].queue))


def _passed(job: Job, amounts: Sequence[int], kind: BoundKind) -> tuple[Bound, ...]:
    found = []
    for queue in job.line:
        bounds, held = (queue.view.quota, queue.firm) if kind is BoundKind.QUOTA else (queue.view.limit, queue.held)
        found += [
            Bound(queue.view.id, queue.view.name, kind, resource, bound, int(have), asked)
            for resource, bound, have, asked in zip(_RESOURCES, bounds, held, amounts, strict=True)
            if bound is not None and asked and have + asked > bound
        ]
    return tuple(found)


def _name_of(seen: Look) -> str:
    """Return what the nodes of a request are called together."""
    if not seen.request.pool or not seen.is_mine.any():
        return "the cluster"
    return seen.rooms.nodes[int(seen.is_mine.argmax())].view.pool_name or "the cluster"


def _is_open(seen: Look) -> Flags:
    flags: Flags = seen.rooms.is_ready & ~seen.rooms.is_drained
    return flags


def _lasting_reason(seen: Look, count: int, where: str) -> tuple[WaitCode, str] | None:
    """Return why no waiting helps, if none does: nodes are missing, too small, closed or not for this task."""
    known = int(seen.is_mine.sum())
    if not known:
        return WaitCode.UNREACHABLE, "resource unreachable: it has not reported any node yet"
    allowed = seen.is_mine & ~seen.has(Cause.NOT_ALLOWED)
    if not allowed.any():
        return WaitCode.NOT_ALLOWED, f"may run on none of the {known} nodes of {where}"
    if not (allowed & ~seen.has(Cause.TOO_SMALL)).any():
        return WaitCode.NEVER_FITS, f"never fits: {wording.compare(seen, allowed, where, 'has')}"
    if count > 1 and (most := int(seen.count_empty().sum())) < count:
        return WaitCode.NEVER_FITS, f"never fits: {wording.too_many(seen, count, most, where)}"
    return None if (allowed & _is_open(seen)).any() else _closed_reason(seen, allowed, where)


def _closed_reason(seen: Look, allowed: Flags, where: str) -> tuple[WaitCode, str]:
    """Return why nothing can start on any node: all are drained, or away."""
    drained = seen.nodes(allowed & seen.rooms.is_ready)
    if drained:
        names = wording.list_names([node.view.name for node in drained])
        return WaitCode.DRAINED, f"drained: {where} takes no new work on {names} until an admin opens it again"
    known = int(allowed.sum())
    if known < int(seen.is_mine.sum()):
        return WaitCode.UNREACHABLE, f"resource unreachable: none of the {known} nodes of {where} for it is ready"
    nodes = "its only node is" if known == 1 else f"none of its {known} nodes is"
    return WaitCode.UNREACHABLE, f"resource unreachable: {where} does not answer, {nodes} ready"
