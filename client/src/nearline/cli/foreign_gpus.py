"""GPUs that pods of others hold: the lists of nodes leave them out, and the compute resources tell their number."""

from collections.abc import Mapping, Sequence

from nearline.client import Client
from nearline.models import Node


def count_foreign(client: Client, nodes: Sequence[Node]) -> Mapping[str, int]:
    """Return how many GPUs of each of these nodes others hold, by the ids of the nodes."""
    held = {each.name: each.foreign_gpus or {} for each in client.compute.list()} if nodes else {}
    return {node.id: held.get(node.resource or "", {}).get(node.name, 0) for node in nodes}
