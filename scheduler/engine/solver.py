"""Finding whom to move or stop so that a job can start: victims are tried in order, each set is played through.

A set is accepted only after all that it moves was placed again for certain and the rule of the action allows it, so a
"yes" is never a guess.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from scheduler.engine.forecast import Forecast
from scheduler.engine.jobs import Job, Task
from scheduler.engine.ledger import ACTIVE, HOLDING, NodeLedger
from scheduler.engine.placing import place, place_as_asked
from scheduler.engine.rules import limits, pools
from scheduler.engine.rules.order import JobQueue
from scheduler.engine.session import Session
from scheduler.engine.victims import Unit, VictimQueue
from scheduler.engine.waiting import line_up

Wanted = Mapping[Job, list[Task]]
"""The tasks that are to get room, by their jobs."""

Judge = Callable[[Sequence[Task], Sequence[Unit]], Callable[[Sequence[Unit]], bool]]
"""Given the tasks and the units before they are played through, returns what says whether losing some is allowed."""


def solve(session: Session, jobs: Sequence[Job], candidates: Callable[[], VictimQueue], judge: Judge) -> bool:
    """Give the next tasks of a job room by evicting others; return whether it worked. Nothing is changed if not.

    Several jobs must ask for the same, one task each: they are served in one go, with the first victims that might be
    enough.
    """
    wanted = {job: job.next_tasks(retrial=len(jobs) == 1) for job in jobs}
    tasks = [task for tasks in wanted.values() for task in tasks]

    def attempt() -> bool:
        if len(jobs) > 1:
            return _try(session, wanted, [], candidates(), judge, most=1) is not None
        return _grow(session, jobs[0], tasks, candidates, judge)

    return bool(tasks) and pools.in_order(session, jobs[0], tasks, attempt)


def _grow(session: Session, job: Job, tasks: list[Task], candidates: Callable[[], VictimQueue], judge: Judge) -> bool:
    """Look for victims for ever more of the tasks; return whether there are enough for all.

    The victims found for the first tasks are kept while more tasks are added, eight times as many each time.
    """
    recorded: list[Unit] = []
    size = 1
    while size < len(tasks):
        mark = session.mark()
        found = _try(session, {job: tasks[:size]}, recorded, candidates(), judge)
        session.take_back(mark)
        if found is None:
            break
        recorded = found
        size *= 8
    return _try(session, {job: tasks}, recorded, candidates(), judge) is not None


def _try(  # noqa: PLR0917 (the parts of one question)
    session: Session,
    wanted: Wanted,
    recorded: list[Unit],
    candidates: VictimQueue,
    judge: Judge,
    most: int | None = None,
) -> list[Unit] | None:
    """Make room for the tasks and return those who lost or changed their place; None, and nothing done, if none.

    At most so many sets of victims are played through.
    """
    tasks = [task for tasks in wanted.values() for task in tasks]
    for units in islice(_scenarios(session, tasks, candidates, recorded), most):
        mark = session.mark()
        is_allowed = judge(tasks, units)
        if _play(session, wanted, units) and is_allowed(_still(units, lambda task: task.state not in HOLDING)):
            changed = _still(units, lambda task: task.state not in ACTIVE)
            if len(wanted) > 1:
                _name_claimants(session, wanted, changed)
            return changed
        session.take_back(mark)
    return None


def _scenarios(
    session: Session, tasks: Sequence[Task], candidates: VictimQueue, recorded: list[Unit]
) -> Iterator[list[Unit]]:
    """Yield sets of victims worth playing through: those of one node first, then ever more of them."""
    known = {task for unit in recorded for task in unit}
    may_help = _filter_of(session, tasks)
    room = Forecast(session, tasks, recorded)
    if recorded and room.is_enough():
        yield recorded
    pool: list[Unit] = []
    on_node: dict[NodeLedger, list[Unit]] = {}
    enough: list[int] = []
    while (unit := candidates.pop()) is not None:
        fresh = [task for task in unit if task not in known]
        if not fresh or not may_help(fresh):
            continue
        pool.append(fresh)
        nodes = dict.fromkeys(task.node for task in fresh if task.node is not None)
        room.free(fresh)
        if room.is_enough():
            if not room.may_be_one_node:
                yield [*recorded, *pool]
                continue
            enough.append(len(pool))
        for node in nodes:
            on_node.setdefault(node, []).append(fresh)
            if room.is_enough_on(node):
                yield [*recorded, *on_node[node]]
    for count in enough:
        yield [*recorded, *pool[:count]]


def _filter_of(session: Session, tasks: Sequence[Task]) -> Callable[[Unit], bool]:
    """Return what says whether the tasks might be helped if a unit left.

    Who is on none of the nodes that serve them would only be moved about; but he too frees what a limit holds back.
    """
    requests = {shape.request for shape in {task.shape for task in tasks}}
    if any(request.is_for_all_nodes for request in requests):
        return lambda _unit: True
    if not limits.may_hold(session, tasks[0].job, session.charge_all(tasks)):
        return lambda _unit: True
    return lambda unit: any(
        task.node is not None and task.node.view.serves(request) for task in unit for request in requests
    )


def _play(session: Session, wanted: Wanted, units: Sequence[Unit]) -> bool:
    """Evict the victims, then serve the jobs and them in the usual order, with promises only."""
    for task in (task for unit in units for task in unit if task.state in HOLDING):
        session.evict(task)

    def next_tasks(job: Job) -> list[Task]:
        return wanted[job] if job in wanted else job.next_tasks(retrial=True)

    jobs = dict.fromkeys([*wanted, *(task.job for unit in units for task in unit)])
    waiting = JobQueue(session, line_up(jobs, session.policy), next_tasks)
    served = 0
    while (turn := waiting.pop()) is not None:
        job, next_up = turn
        if job in wanted:
            if not place_as_asked(session, job, next_up, promise_only=True):
                return False
            served += 1
        elif place(session, job, next_up, promise_only=True):
            if any(task.was_evicted for task in job.tasks):
                waiting.push(job)
        elif not any(task.has_left_slices() for task in job.tasks):
            waiting.pass_over()
    return served == len(wanted)


def _name_claimants(session: Session, jobs: Iterable[Job], victims: Sequence[Unit]) -> None:
    """Note for which of several jobs each victim goes: one that comes to the node which it leaves."""
    coming: dict[NodeLedger | None, list[Job]] = defaultdict(list)
    for job in jobs:
        coming[job.tasks[0].node].append(job)
    code, first = session.cause
    for task in (task for unit in victims for task in unit if task in session.causes):
        claimants = coming[session.node_of[task.left[0]] if task.left is not None else task.node]
        session.causes[task] = (code, (claimants.pop() if len(claimants) > 1 else claimants[0]) if claimants else first)


def _still(units: Sequence[Unit], is_so: Callable[[Task], bool]) -> list[Unit]:
    """Return what of each unit is in some state, without the units of which nothing is."""
    parts = ([task for task in unit if is_so(task)] for unit in units)
    return [part for part in parts if part]
