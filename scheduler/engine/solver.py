"""Finding whom to move or stop so that a job can start: victims are tried in order, each set is played through.

A set is accepted only after all that it moves was placed again for certain and the rule of the action allows it, so a
"yes" is never a guess.
"""

from collections.abc import Callable, Iterator, Sequence

from scheduler.engine.forecast import Forecast
from scheduler.engine.jobs import Job, Task
from scheduler.engine.ledger import ACTIVE, HOLDING, NodeLedger
from scheduler.engine.placing import place
from scheduler.engine.rules.order import JobQueue
from scheduler.engine.session import Session
from scheduler.engine.victims import Unit, VictimQueue

Judge = Callable[[Sequence[Task], Sequence[Unit]], Callable[[Sequence[Unit]], bool]]
"""Given the tasks and the units before they are played through, returns what says whether losing some is allowed."""


def solve(session: Session, job: Job, candidates: Callable[[], VictimQueue], judge: Judge) -> bool:
    """Give the next tasks of a job room by evicting others; return whether it worked. Nothing is changed if not.

    The victims found for the first tasks are kept while more tasks are added, eight times as many each time.
    """
    tasks = job.next_tasks(retrial=True)
    recorded: list[Unit] = []
    size = 1
    while size < len(tasks):
        mark = session.mark()
        found = _try(session, job, tasks[:size], recorded, candidates(), judge)
        session.take_back(mark)
        if found is None:
            break
        recorded = found
        size *= 8
    return bool(tasks) and _try(session, job, tasks, recorded, candidates(), judge) is not None


def _try(  # noqa: PLR0917 (the parts of one question)
    session: Session, job: Job, tasks: Sequence[Task], recorded: list[Unit], candidates: VictimQueue, judge: Judge
) -> list[Unit] | None:
    """Make room for the tasks and return those who lost or changed their place; None, and nothing done, if none."""
    for units in _scenarios(session, tasks, candidates, recorded):
        mark = session.mark()
        is_allowed = judge(tasks, units)
        if _play(session, job, tasks, units) and is_allowed(_still(units, lambda task: task.state not in HOLDING)):
            return _still(units, lambda task: task.state not in ACTIVE)
        session.take_back(mark)
    return None


def _scenarios(
    session: Session, tasks: Sequence[Task], candidates: VictimQueue, recorded: list[Unit]
) -> Iterator[list[Unit]]:
    """Yield sets of victims worth playing through: those of one node first, then ever more of them."""
    known = {task for unit in recorded for task in unit}
    room = Forecast(session, tasks, recorded)
    if recorded and room.is_enough():
        yield recorded
    pool: list[Unit] = []
    on_node: dict[NodeLedger, list[Unit]] = {}
    enough: list[int] = []
    while (unit := candidates.pop()) is not None:
        fresh = [task for task in unit if task not in known]
        if not fresh:
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


def _play(session: Session, job: Job, tasks: Sequence[Task], units: Sequence[Unit]) -> bool:
    """Evict the victims, then serve the job and them in the usual order, with promises only."""
    for unit in units:
        for task in unit:
            if task.state in HOLDING:
                session.evict(task)
    wanted = list(tasks)

    def next_tasks(other: Job) -> list[Task]:
        return wanted if other is job else other.next_tasks(retrial=True)

    jobs = [job, *dict.fromkeys(task.job for unit in units for task in unit if task.job is not job)]
    waiting = JobQueue(session, jobs, next_tasks)
    is_served = False
    while (turn := waiting.pop()) is not None:
        other, next_up = turn
        if other is job:
            if not place(session, job, wanted, promise_only=True):
                return False
            is_served = True
        elif place(session, other, next_up, promise_only=True) and any(task.was_evicted for task in other.tasks):
            waiting.push(other)
    return is_served


def _still(units: Sequence[Unit], is_so: Callable[[Task], bool]) -> list[Unit]:
    """Return what of each unit is in some state, without the units of which nothing is."""
    parts = ([task for task in unit if is_so(task)] for unit in units)
    return [part for part in parts if part]
