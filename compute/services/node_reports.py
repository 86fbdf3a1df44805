"""Writing what a probe of a resource found: its nodes for the scheduler, and that it has answered."""

from collections.abc import Sequence

from compute.engine.ports import NodeFacts
from compute.models import Resource, ResourceState
from core import clock
from scheduler.services import nodes
from scheduler.services.nodes import GpuReport, NodeReport


def write(resource: Resource, found: Sequence[NodeFacts]) -> None:
    """Report the nodes of a resource to the scheduler, inside the caller's transaction if it has one."""
    nodes.report_nodes(
        resource_id=resource.pk,
        resource_name=resource.name,
        is_simulated=resource.is_simulated,
        nodes=[_report_of(node) for node in found],
    )
    resource.unconfined_reason = next((node.unconfined_reason for node in found if node.unconfined_reason), "")
    resource.save(update_fields=["unconfined_reason"])
    write_contact(resource)


def write_contact(resource: Resource) -> None:
    """Note that a resource has answered now."""
    resource.state, resource.error, resource.last_contact_at = ResourceState.READY, "", clock.now()
    resource.save(update_fields=["state", "error", "last_contact_at"])


def _report_of(node: NodeFacts) -> NodeReport:
    gpus = tuple(GpuReport(gpu.index, gpu.uuid, gpu.model, gpu.memory_bytes) for gpu in node.gpus)
    return NodeReport(
        name=node.name,
        cpu_millicores=node.cpu_millicores,
        memory_bytes=node.memory_bytes,
        gpus=gpus,
        is_ready=node.is_ready,
        labels=node.labels,
    )
