"""Finding pods to move or stop so that a job can start: sets of victims are simulated in order.

A set is accepted only after all that it moves was placed again for certain and the rule of the action allows it, so a
"yes" is never a guess.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from scheduler.engine.claims import (
    MOST_LOOKS,
    MOST_PASSED_OVER,
    MOST_TRIED,
    ORDER_BY_LOSS,
    ORDER_OF_SERVICE,
    PassedOver,
    WhyNot,
)
from scheduler.engine.decisions import StopCode
from scheduler.engine.jobs import Job, Pod
from scheduler.engine.ledger import ACTIVE, HOLDING, NodeLedger
from scheduler.engine.lines import Unit, VictimQueue, line_up
from scheduler.engine.placing import place, place_as_asked
from scheduler.engine.rules import pools, quotas
from scheduler.engine.rules.order import JobQueue
from scheduler.engine.session import Session
from scheduler.engine.upper_bound import UpperBound

_GROWTH, _PARITY_GROWTH = 8, 2
_COMPARED = 256
"""How many sets of victims of one node are compared at once: on large clusters not all, which would take long."""

Wanted = Mapping[Job, list[Pod]]
"""The pods to place, by their jobs."""

Judge = Callable[[Sequence[Pod], Sequence[Unit]], Callable[[Sequence[Unit]], bool]]
"""Given the pods and the units before the simulation, returns what says whether losing some is allowed."""


def solve(session: Session, jobs: Sequence[Job], candidates: Callable[[], VictimQueue], judge: Judge) -> bool:
    """Place the next pods of a job by evicting others; return whether it worked. Nothing is changed if not.

    Several jobs must ask for as many GPUs, one pod each: they are served in one go, with the first victims that might
    be enough.
    """
    claims = {job: job.next_pods(retrial=len(jobs) == 1) for job in jobs}
    pods = [pod for pods in claims.values() for pod in pods]

    def attempt() -> bool:
        if len(jobs) > 1:
            return _try(session, claims, [], candidates(), judge, most=1) is not None
        return _grow(session, jobs[0], pods, candidates, judge)

    return bool(pods) and pools.in_order(session, jobs[0], pods, attempt)


def _grow(session: Session, job: Job, pods: list[Pod], candidates: Callable[[], VictimQueue], judge: Judge) -> bool:
    """Look for victims for ever more of the pods; return whether there are enough for all.

    The victims found for the first pods are kept while more pods are added, eight times as many each time. To the
    letter of the open-sourced Run:AI scheduler it is twice as many: the first victims of the queue are taken, even
    where later ones on fewer nodes would do.
    """
    growth = _GROWTH if session.policy.honors_reservations else _PARITY_GROWTH
    recorded: list[Unit] = []
    size = 1
    while size < len(pods):
        checkpoint = session.checkpoint()
        solution = _try(session, {job: pods[:size]}, recorded, candidates(), judge)
        session.rollback(checkpoint)
        if solution is None:
            break
        recorded = solution
        size *= growth
    return _try(session, {job: pods}, recorded, candidates(), judge) is not None


def _try(  # noqa: PLR0917 (the parts of one question)
    session: Session,
    claims: Wanted,
    recorded: list[Unit],
    candidates: VictimQueue,
    judge: Judge,
    most: int | None = None,
) -> list[Unit] | None:
    """Free capacity for the pods; return the units that lost or changed their place. None, and nothing done, if none.

    At most `most` sets of victims are simulated.
    """
    pods = [pod for pods in claims.values() for pod in pods]
    seen: list[Unit] = []
    untried: list[list[Unit]] = []
    for scenario in islice(_scenarios(session, pods, candidates, recorded, seen, untried), most):
        if session.cause.code is StopCode.MOVED:
            if session.trials_of_moves <= 0:
                return None
            session.trials_of_moves -= 1
        units = _with_rest(session, scenario)
        is_allowed = judge(pods, units)
        for is_wanted_first in _orders(session):
            checkpoint = session.checkpoint()
            is_served = _play(session, claims, units, is_wanted_first=is_wanted_first)
            if is_served and is_allowed(_still(units, lambda pod: pod.state not in HOLDING)):
                changed = _still(units, lambda pod: pod.state not in ACTIVE)
                if session.cause.claim is not None:
                    session.cause.claim.passed_over = _passed_over(session, pods, units, seen, untried, candidates)
                if len(claims) > 1:
                    _name_claimants(session, claims, changed)
                return changed
            session.rollback(checkpoint)
    return None


def _with_rest(session: Session, units: list[Unit]) -> list[Unit]:
    """Return units with what they leave of gangs that cannot go on without them: pods beyond the minimum elsewhere."""
    taken = {pod for unit in units for pod in unit}
    left = {
        job: rest
        for job in dict.fromkeys(pod.job for unit in units for pod in unit)
        if (rest := [pod for pod in job.pods if pod.state in HOLDING and pod not in taken])
    }
    if not left:
        return units
    checkpoint = session.checkpoint()
    _evict(session, units)
    halved = [rest for job, rest in left.items() if not job.is_whole()]
    session.rollback(checkpoint)
    return [*units, *halved]


def _orders(session: Session) -> tuple[bool, ...]:
    """Return whether the wanted jobs come first, in each attempt.

    Where all victims must find a place again the usual order may fail only because one returns to where it is in the
    way. Without stored reservations the next cycle would start all of them in the usual order, so there is no other.
    """
    return (False, True) if session.cause.code is StopCode.MOVED and session.policy.honors_reservations else (False,)


def _scenarios(  # noqa: PLR0917 (two of them are filled)
    session: Session,
    pods: Sequence[Pod],
    candidates: VictimQueue,
    recorded: list[Unit],
    seen: list[Unit],
    untried: list[list[Unit]],
) -> Iterator[list[Unit]]:
    """Yield sets of victims worth a simulation: none if what others leave is enough, those of one node, larger ones.

    To move work, of those of one node come first which add up to the fewest stops. The units that were looked at are
    added to `seen`; `untried` holds the sets that come next and might serve as well.
    """
    is_for_moves = session.cause.code is StopCode.MOVED and session.policy.honors_reservations
    compared = _COMPARED if is_for_moves else 1
    known = {pod for unit in recorded for pod in unit}
    may_help = _filter_of(session, pods)
    capacity = UpperBound(session, pods, recorded)
    if (recorded or (session.policy.honors_reservations and capacity.is_known)) and capacity.is_enough():
        yield recorded
    pool: list[Unit] = []
    on_node: dict[NodeLedger, list[Unit]] = {}
    of_one_node: list[list[Unit]] = []
    enough: list[int] = []
    while (unit := candidates.pop()) is not None:
        fresh = [pod for pod in unit if pod not in known]
        if not fresh or not may_help(fresh):
            continue
        seen.append(fresh)
        pool.append(fresh)
        nodes = dict.fromkeys(pod.node for pod in fresh if pod.node is not None)
        capacity.free(fresh)
        if capacity.is_enough():
            if not capacity.may_be_one_node:
                yield [*recorded, *pool]
                continue
            enough.append(len(pool))
        for node in nodes:
            on_node.setdefault(node, []).append(fresh)
            if capacity.is_enough_on(node):
                of_one_node.append([*recorded, *on_node[node]])
                if len(of_one_node) == compared:
                    yield from _fewest_stops_first(of_one_node, untried)
                    of_one_node.clear()
    yield from _fewest_stops_first(of_one_node, untried)
    for count in _doubling(enough) if session.policy.honors_reservations else enough:
        yield [*recorded, *pool[:count]]


def _fewest_stops_first(sets: Iterable[list[Unit]], untried: list[list[Unit]]) -> Iterator[list[Unit]]:
    untried.extend(sorted(sets, key=_count_stops))
    while untried:
        yield untried.pop(0)


def _count_stops(units: Sequence[Unit]) -> int:
    """Return how often the jobs of some units will have been stopped if they are: each allows at most so many stops."""
    return sum(1 + unit[0].job.view.evictions for unit in units)


def _doubling(counts: Sequence[int]) -> list[int]:
    """Return the 1st, 2nd, 4th, 8th … and last of some counts.

    Victims are served again after those who want their place, so of too many, who need not leave stays. One by one
    would cost the square of what runs, whenever nothing helps.
    """
    places = {min(1 << power, len(counts)) - 1 for power in range(len(counts).bit_length() + 1)} if counts else ()
    return [counts[place] for place in sorted(places)]


def _passed_over(  # noqa: PLR0917 (the parts of one question)
    session: Session,
    pods: Sequence[Pod],
    taken: Sequence[Unit],
    seen: Sequence[Unit],
    untried: Sequence[Sequence[Unit]],
    candidates: VictimQueue,
) -> tuple[PassedOver, ...]:
    """Return some units that were not evicted, the first victims first: tried without a result, then the next ones."""
    evicted = {pod for unit in taken for pod in unit}
    tried = [unit for unit in seen if evicted.isdisjoint(unit)][:MOST_TRIED]
    may_help = _filter_of(session, pods)
    candidates.look_at_most(MOST_LOOKS)
    last = {pod.job.queue: pod.job for unit in taken for pod in unit}

    def spare(unit: Sequence[Pod], *, is_no_help: bool) -> PassedOver:
        job = unit[0].job
        victim = last.get(job.queue)
        later = WhyNot.OTHER_QUEUE if victim is None else _why_after(session, job, victim)
        return PassedOver(job, session.charge_all(unit)[0], WhyNot.NOT_ENOUGH if is_no_help else later)

    might_serve = {units[-1][0] for units in untried}
    alternatives = [spare(unit, is_no_help=unit[0] not in might_serve) for unit in tried]
    while len(alternatives) < MOST_PASSED_OVER and (unit := candidates.pop()) is not None:
        if evicted.isdisjoint(unit) and may_help(unit):
            alternatives.append(spare(unit, is_no_help=False))
    return tuple(alternatives)


def _why_after(session: Session, job: Job, victim: Job) -> WhyNot:
    """Return by which rule a job comes after a victim of its queue."""
    key, victim_key = session.victim_lines.key_of(job), session.victim_lines.key_of(victim)
    reasons = ORDER_BY_LOSS if session.policy.honors_reservations else ORDER_OF_SERVICE
    differing = (why for why, ours, theirs in zip(reasons, key, victim_key, strict=False) if ours != theirs)
    why = next(differing, WhyNot.OLDER)
    return WhyNot.FREES_MORE if why is WhyNot.FREES_LESS and key > victim_key else why


def _filter_of(session: Session, pods: Sequence[Pod]) -> Callable[[Unit], bool]:
    """Return what says whether the pods might be helped if a unit left.

    A unit on none of the nodes that serve them would only be moved; but it frees what a limit holds back.
    """
    requests = {shape.request for shape in {pod.shape for pod in pods}}
    if any(request.is_for_all_nodes for request in requests):
        return lambda _unit: True
    if not quotas.may_hold(session, pods[0].job, session.charge_all(pods)):
        return lambda _unit: True
    return lambda unit: any(
        pod.node is not None and pod.node.view.serves(request) for pod in unit for request in requests
    )


def _play(session: Session, claims: Wanted, units: Sequence[Unit], *, is_wanted_first: bool) -> bool:
    """Evict the victims, then serve the jobs and the victims in the usual order, with reservations only."""
    _evict(session, units)
    victims = [pod.job for unit in units for pod in unit]
    if is_wanted_first:
        return _serve(session, claims, claims) == len(claims) and not _serve(session, claims, victims)
    return _serve(session, claims, [*claims, *victims]) == len(claims)


def _evict(session: Session, units: Iterable[Unit]) -> None:
    for pod in (pod for unit in units for pod in unit if pod.state in HOLDING):
        session.evict(pod)


def _serve(session: Session, claims: Wanted, jobs: Iterable[Job]) -> int:
    """Serve some jobs in the usual order; return how many of the wanted ones were served, 0 if not all could be."""

    def next_pods(job: Job) -> list[Pod]:
        return claims[job] if job in claims else job.next_pods(retrial=True)

    waiting = JobQueue(session, line_up(dict.fromkeys(jobs), session.policy), next_pods)
    served = 0
    while (turn := waiting.pop()) is not None:
        job, next_up = turn
        if job in claims:
            if not place_as_asked(session, job, next_up, reserve_only=True):
                return 0
            served += 1
        elif place(session, job, next_up, reserve_only=True):
            if any(pod.was_evicted for pod in job.pods):
                waiting.push(job)
        elif not any(pod.was_evicted_from_slices() for pod in job.pods):
            waiting.pass_over()
    return served


def _name_claimants(session: Session, jobs: Iterable[Job], victims: Sequence[Unit]) -> None:
    """Note for which of several jobs each victim is evicted: one that starts on its node."""
    coming: dict[NodeLedger | None, list[Job]] = defaultdict(list)
    for job in jobs:
        coming[job.pods[0].node].append(job)
    for pod in (pod for unit in victims for pod in unit if pod in session.causes):
        claimants = coming[session.node_of[pod.moved_from[0]] if pod.moved_from is not None else pod.node]
        claimant = (claimants.pop() if len(claimants) > 1 else claimants[0]) if claimants else session.cause.job
        session.causes[pod] = session.cause._replace(job=claimant)


def _still(units: Sequence[Unit], is_so: Callable[[Pod], bool]) -> list[Unit]:
    """Return what of each unit is in some state, without the units of which nothing is."""
    parts = ([pod for pod in unit if is_so(pod)] for unit in units)
    return [part for part in parts if part]
