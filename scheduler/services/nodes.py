"""What admins do to the nodes of compute resources."""

from django.db import transaction

from accounts import audit
from accounts.permissions import Actor, require_site_admin
from core import tasks
from scheduler.models import Node


@transaction.atomic
def set_drained(*, actor: Actor, node: Node, is_drained: bool) -> Node:
    """Let a node take nothing new from now on, or open it again. What runs there goes on."""
    require_site_admin(actor, "drain nodes")
    node = Node.objects.select_for_update().get(pk=node.pk)
    if node.is_drained != is_drained:
        node.is_drained = is_drained
        node.revision += 1
        node.save(update_fields=["is_drained", "revision"])
        audit.record(actor, "scheduler.drain_node" if is_drained else "scheduler.open_node", node)
        tasks.enqueue_on_commit("scheduler.cycle")
    return node
