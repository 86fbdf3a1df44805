"""Which nodes a pod may run on at all: those named, those that its queue rules, and those with or without others."""

from collections.abc import Sequence

from scheduler.engine.jobs import Pod
from scheduler.engine.ledger import HOLDING, NodeLedger
from scheduler.engine.session import Session
from scheduler.engine.snapshot import PodView


def rules_of(view: PodView) -> object:
    """Return what tells apart where pods may run: pods with equal rules may run on the same nodes."""
    if view.may_run_anywhere:
        return None
    return view.allowed_nodes, view.together_by, view.apart_by, tuple(sorted(view.labels.items()))


def allows(session: Session, pod: Pod, node: NodeLedger) -> bool:
    """Return whether a pod may run on a node, whatever capacity it has."""
    return allowed(session, pod, [node])[0]


def allowed(session: Session, pod: Pod, nodes: Sequence[NodeLedger]) -> list[bool]:
    """Return for each node whether a pod may run there, whatever capacity it has."""
    view, request = pod.view, pod.shape.request
    near = _values_with(session, pod, view.together_by) if view.together_by is not None else set()
    far = _values_with(session, pod, view.apart_by) if view.apart_by is not None else set()

    def is_allowed(node: NodeLedger) -> bool:
        if not node.view.admits(request):
            return False
        if view.allowed_nodes is not None and node.view.id not in view.allowed_nodes:
            return False
        if near and node.view.labels.get(view.together_by or "") not in near:
            return False
        return not far or node.view.labels.get(view.apart_by or "") not in far

    return [is_allowed(node) for node in nodes]


def _values_with(session: Session, pod: Pod, label: str) -> set[str | None]:
    """Return the values of a node label where pods with the same labels run."""
    return {
        other.node.view.labels.get(label)
        for job in session.jobs.values()
        for other in job.pods
        if other is not pod
        and other.state in HOLDING
        and other.node is not None
        and dict(other.view.labels) == dict(pod.view.labels)
    }
