"""Which nodes a task may run on at all: those named, those that its queue rules, and those with or without others."""

from collections.abc import Sequence

from scheduler.engine.jobs import Task
from scheduler.engine.ledger import HOLDING, NodeLedger
from scheduler.engine.session import Session
from scheduler.engine.snapshot import TaskView


def rules_of(view: TaskView) -> object:
    """Return what tells apart where tasks may run: tasks with equal rules may run on the same nodes."""
    if view.may_run_anywhere:
        return None
    return view.allowed_nodes, view.together_by, view.apart_by, tuple(sorted(view.labels.items()))


def allows(session: Session, task: Task, node: NodeLedger) -> bool:
    """Return whether a task may run on a node, whatever room it has."""
    return allowed(session, task, [node])[0]


def allowed(session: Session, task: Task, nodes: Sequence[NodeLedger]) -> list[bool]:
    """Return for each node whether a task may run there, whatever room it has."""
    view, labels = task.view, task.shape.request.node_labels
    near = _values_with(session, task, view.together_by) if view.together_by is not None else set()
    far = _values_with(session, task, view.apart_by) if view.apart_by is not None else set()

    def is_allowed(node: NodeLedger) -> bool:
        if labels is not None and not node.view.bears(labels):
            return False
        if view.allowed_nodes is not None and node.view.id not in view.allowed_nodes:
            return False
        if near and node.view.labels.get(view.together_by or "") not in near:
            return False
        return not far or node.view.labels.get(view.apart_by or "") not in far

    return [is_allowed(node) for node in nodes]


def _values_with(session: Session, task: Task, label: str) -> set[str | None]:
    """Return the values of a node label where tasks with the same labels run."""
    return {
        other.node.view.labels.get(label)
        for job in session.jobs.values()
        for other in job.tasks
        if other is not task
        and other.state in HOLDING
        and other.node is not None
        and dict(other.view.labels) == dict(task.view.labels)
    }
