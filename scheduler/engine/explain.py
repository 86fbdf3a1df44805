"""Why a job waits: the proof in numbers, a sentence, and what would let it start.

Jobs that ask for the same share one answer, so explaining thousands of them costs what one does.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from operator import attrgetter, itemgetter

import numpy as np

from core.units import ONE_GPU
from scheduler.engine import placing, wording
from scheduler.engine.decisions import Answer, Explain, WaitCode
from scheduler.engine.jobs import Job, Pod
from scheduler.engine.node_table import Flags
from scheduler.engine.proof import Bound, BoundKind, Cause, NodeShortfall, Proof, Remedy, Resource, Suggestion
from scheduler.engine.rules import affinity, pools, reservation
from scheduler.engine.session import Session
from scheduler.engine.shapes import Shape
from scheduler.engine.shortfall import FitReport, NodeCapacities, assess
from scheduler.engine.snapshot import Request

_LASTING = frozenset({WaitCode.NEVER_FITS, WaitCode.NOT_ALLOWED, WaitCode.UNREACHABLE, WaitCode.DRAINED})
_GRAVITY = [
    WaitCode.UNREACHABLE,
    WaitCode.NOT_ALLOWED,
    WaitCode.NEVER_FITS,
    WaitCode.DRAINED,
    WaitCode.NO_CAPACITY,
    WaitCode.RESERVED,
    WaitCode.NOT_TOGETHER,
    WaitCode.NEXT_CYCLE,
]
_LIGHTNESS = {code: number for number, code in enumerate(_GRAVITY)}
_RESOURCES = (Resource.GPU, Resource.CPU, Resource.MEMORY)

_Answer = tuple[WaitCode, str, str, Proof]

_INCOMPLETE = (WaitCode.INCOMPLETE, "too few of its pods are left to make up what it needs to start", "", Proof(0, 0))


@dataclass(frozen=True)
class _Part:
    """The pods of one kind that should start together, and why they do not. `where` is how their nodes are called.

    `ruled` names the work that, by a rule of its queue, may not run on all of them. `most` is how much all nodes have
    of what unlike pods need more of together.
    """

    code: WaitCode
    text: str
    report: FitReport
    needed: int
    placeable: int
    where: str
    ruled: str = ""
    most: tuple[Resource, int] | None = None


def explain(session: Session) -> list[Explain]:
    """Return the reason of each job of which pods wait, by job id."""
    answers = {job_id: answer for answer in list_answers(session) for job_id in answer.job_ids}
    return [
        Explain(job_id, answer.code, answer.text, answer.advice, answer.proof)
        for job_id, answer in sorted(answers.items(), key=itemgetter(0))
    ]


def list_answers(session: Session) -> list[Answer]:
    """Return why jobs of which pods wait do so: one answer for all that ask the same."""
    if not session.waiting:
        return []
    explainer, guarded = _Explainer(session), session.reserved_nodes
    for kinds in session.waiting_lines.settled().values():
        for kind, line in kinds.items():
            alike: list[str] | None = None
            for _, job in line:
                if kind is None or job.waiting < len(job.pods) or (guarded and job in guarded):
                    explainer.answer(job).append(job.view.id)
                else:
                    alike = explainer.answer(job) if alike is None else alike
                    alike.append(job.view.id)
    return explainer.answers()


class _Explainer:
    """Answers for the jobs of one moment, each different question once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._capacities = self._read_capacities()
        self._reports: dict[Shape, FitReport] = {}
        self._known: dict[tuple[object, ...], tuple[_Answer, list[str]]] = {}

    def answers(self) -> list[Answer]:
        """Return what has been answered."""
        return [Answer(question, *answer, job_ids) for question, (answer, job_ids) in self._known.items()]

    def answer(self, job: Job) -> list[str]:
        """Answer for a job; return the ids of those that ask the same."""
        pods, names = job.next_pods(), pools.choices(job)
        counts = Counter((pod.shape.request, *_rules_of(pod)) for pod in pods)
        kinds = tuple((_written(request), tuple(rules), count) for (request, *rules), count in counts.items())
        queue = (job.queue.view.id, job.view.is_preemptible) if self._is_of_queue(job, counts) else None
        guarded_id = job.view.id if job in self._session.reserved_nodes else None
        question = (kinds, names, queue, guarded_id)
        if question not in self._known:
            answer = self._answer_for(names, job, pods) if pods else _INCOMPLETE
            self._known[question] = answer, []
        return self._known[question][1]

    def _is_of_queue(self, job: Job, kinds: Iterable[tuple[Request, *tuple[object, ...]]]) -> bool:
        """Return whether the rules of its queue may have a part in the answer: bounds, and where its work may run."""
        bounds = [queue.view.limit for queue in job.line]
        if not job.view.is_preemptible:
            bounds += [queue.view.quota for queue in job.line]
        has_bounds = self._session.policy.quotas and any(each is not None for bound in bounds for each in bound)
        return has_bounds or any(request.node_labels is not None for request, *_ in kinds)

    def _read_capacities(self) -> NodeCapacities:
        reserved = [node for nodes in self._session.reserved_nodes.values() for node in nodes]
        return NodeCapacities(self._session.table, reserved)

    def _answer_for(self, names: Sequence[str], job: Job, pods: list[Pod]) -> _Answer:
        """Return the answer in the pools with these names, as one; without any, that in all that the pods allow."""
        if not names:
            return self._answer(job, pods)
        written = {node.view.pool: node.view.pool_name for node in self._session.nodes}
        answers = {}
        for name in names:
            with pools.turned_to(self._session, pods, name):
                answers[written.get(name) or name] = self._answer(job, pods)
        return _of_pools(answers) if len(answers) > 1 else next(iter(answers.values()))

    def _answer(self, job: Job, pods: list[Pod]) -> _Answer:
        with reservation.opened(self._session, job) as own:
            capacities = self._read_capacities() if own else self._capacities
            parts = self._parts(pods, capacities)
        part = min(parts, key=lambda part: _LIGHTNESS[part.code])
        code, text = part.code, part.text
        bounds = self._bounds(job, pods)
        if bounds and code not in _LASTING:
            code, text = wording.of_bounds(bounds)
        elif reserved_names := [
            node.view.name for node in own if any(node.view.serves(pod.shape.request) for pod in pods)
        ]:
            text += f"; what gets free on {wording.list_names(reserved_names)} is reserved for it"
        nearest = part.report.nearest
        suggestions = (
            self._suggestions_for(part, nearest) if code in _LASTING or not bounds else _suggestions_past(bounds)
        )
        proof = Proof(
            sum(part.needed for part in parts),
            sum(part.placeable for part in parts),
            bounds,
            nearest,
            part.report.others(nearest),
            suggestions,
        )
        return code, text, wording.advise(suggestions), proof

    def _bounds(self, job: Job, pods: Sequence[Pod]) -> tuple[Bound, ...]:
        """Return the quotas that a job which is not preemptible would pass, else the limits that any job would pass."""
        if not self._session.policy.quotas:
            return ()
        amounts = self._session.charge_all(pods)
        firm = () if job.view.is_preemptible else _passed(job, amounts, BoundKind.QUOTA)
        return firm or _passed(job, amounts, BoundKind.LIMIT)

    def _parts(self, pods: Sequence[Pod], capacities: NodeCapacities) -> list[_Part]:
        kinds: dict[object, list[Pod]] = {}
        for pod in pods:
            kinds.setdefault((pod.shape, *_rules_of(pod)), []).append(pod)
        parts = [self._ruled(self._part(alike[0], len(alike), capacities), alike[0]) for alike in kinds.values()]
        if len(parts) > 1 and (most := _most_of_all(pods, parts)) is not None:
            where = wording.list_names(list(dict.fromkeys(part.where for part in parts)))
            text = f"never fits: {wording.too_large(len(pods), *most, where)}"
            return [
                _Part(WaitCode.NEVER_FITS, text, p.report, p.needed, 0, p.where, most=(most[0], most[2])) for p in parts
            ]
        if len(parts) > 1 and all(part.code is WaitCode.NEXT_CYCLE for part in parts):
            text = f"needs capacity for {len(pods)} unlike pods at once; each kind of them alone would find enough"
            return [_Part(WaitCode.NO_CAPACITY, text, p.report, p.needed, p.placeable, p.where) for p in parts]
        return parts

    def _part(self, pod: Pod, count: int, capacities: NodeCapacities) -> _Part:
        report = self._report(pod, capacities)
        where = _name_of(report)
        reason = _lasting_reason(report, count, where)
        if reason is not None:
            return _Part(*reason, report, count, 0, where)
        free = report.count_free()
        total = together = min(count, int(free.sum()))
        constraint = placing.constraint_of(pod)
        if constraint is not None and self._session.policy.topology:
            domains = placing.required_domains(constraint, report.nodes(report.in_pool))
            most = max((int(sum(free[node.index] for node in nodes)) for nodes in domains), default=0)
            together = min(count, most)
        if total < count:
            return _Part(*self._no_capacity(report, count, total, where), report, count, together, where)
        if together < count:
            text = wording.not_together(report, count, together, constraint.required if constraint else None)
            return _Part(WaitCode.NOT_TOGETHER, text, report, count, together, where)
        if not pod.view.may_run_anywhere or constraint is not None:
            text = "there is capacity for its pods, but not in places that its rules of placement allow together"
            return _Part(WaitCode.NOT_TOGETHER, text, report, count, together, where)
        text = "capacity for it has just become free; it is considered in the next cycle"
        return _Part(WaitCode.NEXT_CYCLE, text, report, count, together, where)

    def _no_capacity(self, report: FitReport, count: int, total: int, where: str) -> tuple[WaitCode, str]:
        if not report.has(Cause.HAS_CAPACITY).any() and report.has(Cause.RESERVED).any():
            names = [node.view.name for node in report.nodes(report.has(Cause.RESERVED))]
            return (
                WaitCode.RESERVED,
                f"the capacity on {wording.list_names(names)} is reserved for a big job whose turn comes first",
            )
        if count > 1:
            text = wording.too_few(report, count, total, where)
        else:
            text = wording.compare(
                report, report.in_pool & ~report.has(Cause.NOT_ALLOWED) & _is_open(report), where, "free"
            )
        return WaitCode.NO_CAPACITY, text + wording.closed(report)

    def _reserved_for(self, report: FitReport) -> str:
        nodes = report.nodes(report.has(Cause.RESERVED))
        return next(
            job.view.id for job, nodes_of_job in self._session.reserved_nodes.items() if nodes[0] in nodes_of_job
        )

    def _report(self, pod: Pod, capacities: NodeCapacities) -> FitReport:
        """Return how what a pod asks for fits each node: once for all that may run anywhere."""
        request = pod.shape.request
        if not pod.view.may_run_anywhere:
            return assess(capacities, request, np.array(affinity.allowed(self._session, pod, capacities.nodes), bool))
        admitting = self._session.table.admitting(request)
        if capacities is not self._capacities:
            return assess(capacities, request, admitting)
        if pod.shape not in self._reports:
            self._reports[pod.shape] = assess(capacities, request, admitting)
        return self._reports[pod.shape]

    def _ruled(self, part: _Part, pod: Pod) -> _Part:
        """Return a part that names what excludes nodes: its selector, their taints, and the rule of its queue."""
        request = pod.shape.request
        if part.code is WaitCode.NEXT_CYCLE:
            return part
        table, in_pool = self._session.table, part.report.in_pool
        if not table.admitting(replace(request, node_labels=None))[in_pool].all():
            nodes = [node.view for node in part.report.nodes(in_pool)]
            part = replace(part, text=f"{part.text}; {wording.kept_off(request, nodes)}")
        labels = request.node_labels
        if labels is None or all(node.view.bears(labels) for node in part.report.nodes(in_pool)):
            return part
        work = wording.kind_of_work(pod.job)
        return replace(part, text=f"{part.text}; {wording.bound_to(work, labels)}", ruled=work)

    def _suggestions_for(self, part: _Part, nearest: Sequence[NodeShortfall]) -> tuple[Suggestion, ...]:
        """Return what would let the pods find capacity, the nearest first."""
        report, ways = part.report, []
        if part.code is WaitCode.NEVER_FITS and part.most is None and nearest and nearest[0].cause is Cause.TOO_SMALL:
            ways += [
                Suggestion(Remedy.ASK_LESS, nearest[0].node, s.resource, s.available, s.profile)
                for s in nearest[0].shortages
            ]
        elif part.most is not None:
            ways.append(Suggestion(Remedy.ASK_LESS, part.where, *part.most))
        elif part.code is WaitCode.NEVER_FITS:
            ways.append(Suggestion(Remedy.ASK_LESS, part.where, Resource.PODS, int(report.count_empty().sum())))
        if part.code is WaitCode.RESERVED:
            ways.append(Suggestion(Remedy.WAIT_FOR_JOB, self._reserved_for(report)))
        elif part.code is WaitCode.NO_CAPACITY and part.needed > 1:
            ways.append(Suggestion(Remedy.WAIT_FOR_CAPACITY, part.where, Resource.PODS, part.needed - part.placeable))
        elif part.code is WaitCode.NO_CAPACITY and nearest:
            ways += [
                Suggestion(Remedy.WAIT_FOR_NODE, nearest[0].node, s.resource, s.missing, s.profile)
                for s in nearest[0].shortages
            ]
        ways += [Suggestion(Remedy.OPEN_NODE, node.view.name) for node in report.nodes(report.has(Cause.DRAINED))[:1]]
        ways += [
            Suggestion(Remedy.REPAIR_NODE, node.view.name) for node in report.nodes(report.has(Cause.NOT_READY))[:1]
        ]
        if report.request.pool and report.fits_elsewhere(part.needed):
            ways.append(Suggestion(Remedy.DROP_POOL, part.where))
        if part.ruled and (part.code is WaitCode.NOT_ALLOWED or report.fits_where_not_allowed()):
            ways.append(Suggestion(Remedy.ALLOW_NODES, part.ruled))
        return tuple(ways)


_FIELDS = attrgetter(*(field.name for field in fields(Request)))


@lru_cache(maxsize=10_000)
def _written(request: Request) -> tuple[object, ...]:
    """Return a request as values whose text is the same in each process."""
    return tuple(tuple(sorted(value)) if isinstance(value, frozenset) else value for value in _FIELDS(request))


def _rules_of(pod: Pod) -> tuple[object, object]:
    """Return what of a pod, besides its request, decides where it may run."""
    return affinity.rules_of(pod.view), placing.constraint_of(pod)


def _most_of_all(pods: Sequence[Pod], parts: Sequence[_Part]) -> tuple[Resource, int, int] | None:
    """Return of which resource unlike pods need more together than their nodes have: what they need, and what is there.

    None where none is short, or where a kind of them alone is told why it finds nothing.
    """
    if any(part.code in _LASTING for part in parts):
        return None
    nodes = {node for part in parts for node in part.report.nodes(part.report.in_pool)}
    requests = [pod.shape.request for pod in pods]
    sums = (
        (Resource.GPU, (ONE_GPU * r.gpus for r in requests), (ONE_GPU * len(n.view.devices) for n in nodes)),
        (Resource.CPU, (r.cpu_millicores for r in requests), (n.view.cpu_millicores for n in nodes)),
        (Resource.MEMORY, (r.memory_bytes for r in requests), (n.view.memory_bytes for n in nodes)),
    )
    amounts = ((resource, sum(asked), sum(there)) for resource, asked, there in sums)
    return next((each for each in amounts if each[1] > each[2]), None)


def _of_pools(answers: Mapping[str, _Answer]) -> _Answer:
    """Return as one answer those of several pools by their names: that of the pool nearest to serving the job."""
    code, text, _, proof = max(answers.values(), key=lambda answer: _LIGHTNESS.get(answer[0], len(_GRAVITY)))
    if code in _LIGHTNESS:
        text = wording.of_pools({name: answer[1] for name, answer in answers.items()})
    proofs = {name: answer[3] for name, answer in answers.items()}
    ways = dict.fromkeys(
        way for each in proofs.values() for way in each.suggestions if way.remedy is not Remedy.DROP_POOL
    )
    if all(any(way.remedy is Remedy.DROP_POOL for way in each.suggestions) for each in proofs.values()):
        ways[Suggestion(Remedy.DROP_POOL, wording.list_names(list(proofs)))] = None
    proof = replace(proof, suggestions=tuple(ways), pools=tuple(proofs.items()))
    return code, text, wording.advise(proof.suggestions), proof


def _suggestions_past(bounds: Sequence[Bound]) -> tuple[Suggestion, ...]:
    """Return what would let the job stay within the bounds that it would pass."""
    is_quota = bounds[0].kind is BoundKind.QUOTA
    way = Remedy.RAISE_QUOTA if is_quota else Remedy.RAISE_LIMIT
    raises = [Suggestion(way, bound.queue, bound.resource, bound.missing) for bound in bounds]
    return (
        *raises,
        Suggestion(Remedy.BE_PREEMPTIBLE) if is_quota else Suggestion(Remedy.WAIT_FOR_QUEUE, bounds[0].queue),
    )


def _passed(job: Job, amounts: Sequence[int], kind: BoundKind) -> tuple[Bound, ...]:
    causes = []
    for queue in job.line:
        bounds, held = (queue.view.quota, queue.firm) if kind is BoundKind.QUOTA else (queue.view.limit, queue.held)
        causes += [
            Bound(queue.view.id, queue.view.name, kind, resource, bound, int(have), asked)
            for resource, bound, have, asked in zip(_RESOURCES, bounds, held, amounts, strict=True)
            if bound is not None and asked and have + asked > bound
        ]
    return tuple(causes)


def _name_of(report: FitReport) -> str:
    """Return what the nodes of a request are called together."""
    if not report.request.pool or not report.in_pool.any():
        return "the cluster"
    return report.capacities.nodes[int(report.in_pool.argmax())].view.pool_name or "the cluster"


def _is_open(report: FitReport) -> Flags:
    flags: Flags = report.capacities.is_ready & ~report.capacities.is_drained
    return flags


def _lasting_reason(report: FitReport, count: int, where: str) -> tuple[WaitCode, str] | None:
    """Return why no waiting helps, if none does: nodes are missing, too small, closed or not for this pod."""
    known = int(report.in_pool.sum())
    if not known:
        return WaitCode.UNREACHABLE, "resource unreachable: it has not reported any node yet"
    allowed = report.in_pool & ~report.has(Cause.NOT_ALLOWED)
    if not allowed.any():
        which = "may not run on the only node" if known == 1 else f"may run on none of the {known} nodes"
        return WaitCode.NOT_ALLOWED, f"{which} of {where}"
    if not (allowed & ~report.has(Cause.TOO_SMALL)).any():
        return WaitCode.NEVER_FITS, f"never fits: {wording.compare(report, allowed, where, 'has')}"
    if count > 1 and (most := int(report.count_empty().sum())) < count:
        return WaitCode.NEVER_FITS, f"never fits: {wording.too_many(report, count, most, where)}"
    return None if (allowed & _is_open(report)).any() else _closed_reason(report, allowed, where)


def _closed_reason(report: FitReport, allowed: Flags, where: str) -> tuple[WaitCode, str]:
    """Return why nothing can start on any node: all are drained, or away."""
    drained = report.nodes(allowed & report.capacities.is_ready)
    if drained:
        names = wording.list_names([node.view.name for node in drained])
        return WaitCode.DRAINED, f"drained: {where} takes no new work on {names} until an admin opens it again"
    known = int(allowed.sum())
    if known < int(report.in_pool.sum()):
        if known == 1:
            return WaitCode.UNREACHABLE, f"resource unreachable: the only node of {where} for it is not ready"
        return WaitCode.UNREACHABLE, f"resource unreachable: none of the {known} nodes of {where} for it is ready"
    nodes = "its only node is" if known == 1 else f"none of its {known} nodes is"
    return WaitCode.UNREACHABLE, f"resource unreachable: {where} does not answer, {nodes} ready"
