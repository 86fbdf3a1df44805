"""The whole scheduler in one call.

The actions run from the least to the most disruptive. Only `allocate` exists so far, which takes room from nobody.
"""

from scheduler.engine.actions.allocate import allocate
from scheduler.engine.decisions import Decision
from scheduler.engine.explain import explain
from scheduler.engine.session import Session
from scheduler.engine.snapshot import Policy, Snapshot


def run_cycle(snapshot: Snapshot, policy: Policy) -> list[Decision]:
    """Decide placements for one moment. Same input, same output: no clock, no I/O, no hidden order.

    Every waiting workload gets exactly one decision: `Place`, in the order in which room is given, or `Explain`.
    """
    session = Session(snapshot, policy)
    placed, left = allocate(session, snapshot.waiting)
    return [*placed, *explain(session, left)]
