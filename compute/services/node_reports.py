"""Writing what a probe of a resource found: its nodes for the scheduler, and that it has answered."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from enum import Enum
from typing import Any

from django.db import transaction

from accounts import audit
from accounts.permissions import Actor
from compute.engine.node_faults import find_fault
from compute.engine.placing import PodOptions
from compute.engine.ports import ClusterFacts, ForeignUse, NodeFacts
from compute.models import Resource, ResourceState
from compute.selectors.resource_events import BACK
from core import clock
from core.taints import left_over
from scheduler.services import resource_nodes
from scheduler.services.resource_nodes import GpuReport, MigStrategy, NodeReport

_LONGEST_NAME = 253


class Contact(Enum):
    """What an answer of a resource means: it has answered before, it is back, or it was detached meanwhile."""

    KEPT = "kept"
    BACK = "back"
    DETACHED = "detached"


@transaction.atomic
def write(resource: Resource, nodes: Sequence[NodeFacts], known: Sequence[Any] | None = None) -> None:
    """Report the nodes of a resource to the scheduler. One that was detached since it was asked has none.

    One that cannot be what is said of it is left out, and named on the page of the resource. What is `known` to the
    scheduler of a resource that has answered all along is not reported again.
    """
    checked = [(node, find_fault(node)) for node in nodes]
    faults = {node.name[:_LONGEST_NAME]: fault for node, fault in checked if fault}
    sound = [node for node, fault in checked if not fault]
    if any(node.taints for node in sound):
        templates = [PodOptions.read(pod) for pod in resource.templates.order_by("pk").values_list("pod", flat=True)]
        sound = [_for_templates(node, templates) for node in sound]
    resource.unconfined_reason = next((node.unconfined_reason for node in sound if node.unconfined_reason), "")
    foreign = {node.name: asdict(node.foreign) for node in sound if node.foreign != ForeignUse()}
    moment = clock.now().isoformat()
    resource.facts = {**resource.facts, "foreign": foreign, "faults": faults, "nodes_at": moment}
    contact = write_contact(resource, "unconfined_reason", "facts")
    if contact is Contact.DETACHED:
        return
    reports = [_report_of(node) for node in sound]
    name, is_simulated = resource.name, resource.is_simulated
    is_known = known is not None and resource_nodes.says_nothing_new(known, name, reports, is_simulated=is_simulated)
    if is_known and contact is Contact.KEPT:
        return
    resource_nodes.report_nodes(resource_id=resource.pk, resource_name=name, is_simulated=is_simulated, nodes=reports)


def write_facts(resource: Resource, facts: ClusterFacts) -> None:
    """Note what a cluster is, and when it said so. Which one it is stays known where that cannot be read any more."""
    known = resource.facts.get("cluster", {})
    cluster = {**asdict(facts), "id": facts.id or known.get("id", "")}
    resource.facts, resource.facts_at = {**resource.facts, "cluster": cluster}, clock.now()
    resource.save(update_fields=["facts", "facts_at"])


def write_contact(resource: Resource, *fields: str) -> Contact:
    """Note that a resource has answered now, and the columns of what it has told."""
    resource.state, resource.error, resource.last_contact_at = ResourceState.READY, "", clock.now()
    values = {field: getattr(resource, field) for field in ("state", "error", "last_contact_at", *fields)}
    attached = Resource.objects.filter(pk=resource.pk, detached_at=None)
    if attached.exclude(state=ResourceState.UNREACHABLE).update(**values):
        return Contact.KEPT
    if not attached.filter(state=ResourceState.UNREACHABLE).update(**values):
        return Contact.DETACHED
    audit.record(Actor.system("asks compute resources for their nodes"), BACK, resource)
    return Contact.BACK


def _for_templates(node: NodeFacts, templates: Sequence[PodOptions]) -> NodeFacts:
    """Return a node as not ready where its taints keep off the jobs of all templates."""
    is_open = not node.taints or any(not left_over(node.taints, each.parsed_tolerations) for each in templates)
    return replace(node, is_ready=node.is_ready and is_open)


def _report_of(node: NodeFacts) -> NodeReport:
    gpus = tuple(GpuReport(gpu.index, gpu.uuid, gpu.model, gpu.memory_bytes) for gpu in node.gpus)
    return NodeReport(
        name=node.name,
        cpu_millicores=node.cpu_millicores,
        memory_bytes=node.memory_bytes,
        gpus=gpus,
        is_ready=node.is_ready,
        labels=node.labels,
        taints=node.taints,
        max_pods=node.max_pods,
        mig_strategy=MigStrategy(node.mig_strategy),
        mig=node.mig,
    )
