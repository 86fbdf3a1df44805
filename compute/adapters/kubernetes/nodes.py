"""From the nodes and pods of a cluster to what our scheduler can give away there: pure.

What pods of others ask for is used, as the cluster will not give it to ours. Their GPUs are taken from the end of the
list: which devices they have is known to their node alone.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from types import MappingProxyType
from typing import Any

from compute.adapters.kubernetes.gpu_shares import is_reservation
from compute.adapters.kubernetes.manifests import MIG
from compute.engine.node_faults import MOST_GPUS
from compute.engine.placing import is_profile
from compute.engine.ports import ForeignUse, GpuFacts, NodeFacts
from core import bounds
from core.taints import left_over, read_taints, read_toleration

Json = Mapping[str, Any]

_MODEL, _MEMORY_MIB = "nvidia.com/gpu.product", "nvidia.com/gpu.memory"
_MIB = 2**20
_UNITS = {
    **{unit: Decimal(1024) ** power for power, unit in enumerate(("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))},
    **{unit: Decimal(1000) ** power for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    "m": Decimal("0.001"),
    "u": Decimal("0.000001"),
    "n": Decimal("0.000000001"),
}
# Kubernetes' own limit. A sum of a thousand of them is still written down quickly.
_MOST = Decimal(2**63 - 1)
_ENDED = frozenset({"Succeeded", "Failed"})
_ALL: Mapping[str, str] = MappingProxyType({})


def parse_quantity(text: str) -> Decimal:
    """Return a quantity of Kubernetes as a number: `500m`, `16Gi`, `1e3`. What cannot be read is 0."""
    number = text.rstrip("numkKMGTPEi") if not text[-1:].isdecimal() else text
    try:
        quantity = Decimal(number) * _UNITS[text[len(number) :]]
    except (InvalidOperation, KeyError):
        return Decimal(0)
    return min(quantity, _MOST) if quantity.is_finite() else Decimal(0)


def read_nodes(
    nodes: Iterable[Json],
    pods: Iterable[Json],
    *,
    gpu_resource: str,
    is_ours: Any,
    tolerations: Sequence[Json] = (),
    node_selector: Mapping[str, str] = _ALL,
) -> list[NodeFacts]:
    """Return what each node has left once the pods of others have what they ask for, by the nodes' names.

    `tolerations` and `node_selector` are those of all our pods.
    """
    foreign: dict[str, dict[str, Decimal]] = {}
    holders: dict[str, list[str]] = {}
    for pod in pods:
        node = pod.get("spec", {}).get("nodeName")
        if node and pod.get("status", {}).get("phase") not in _ENDED and (is_reservation(pod) or not is_ours(pod)):
            used = foreign.setdefault(node, {})
            # What a reservation of ours holds are the shares of jobs; that it is a pod as well is known to nobody else.
            asked = requests_of(pod) if not is_ours(pod) else {}
            for resource, amount in {**asked, "pods": Decimal(1)}.items():
                used[resource] = used.get(resource, Decimal(0)) + amount
                if resource == gpu_resource and amount:
                    meta = pod["metadata"]
                    holders.setdefault(node, []).append(f"{meta.get('namespace', '')}/{meta.get('name', '')}")
    tolerated = list(map(read_toleration, tolerations))
    facts = [
        replace(
            _facts(node, foreign.get(node["metadata"]["name"], {}), gpu_resource),
            is_ready=_is_ready(node, node_selector),
            taints=left_over(read_taints(node.get("spec", {}).get("taints") or []), tolerated),
        )
        for node in nodes
    ]
    named = [_with_holders(node, holders.get(node.name, ())) for node in facts]
    return sorted(named, key=lambda node: node.name)


def _with_holders(node: NodeFacts, holders: Iterable[str]) -> NodeFacts:
    return replace(node, foreign=replace(node.foreign, holders=tuple(sorted(holders))))


def requests_of(pod: Json) -> dict[str, Decimal]:
    """Return what a pod holds of its node: what its containers ask for together, or one init container alone.

    What the pod asks for as a whole, as it may from Kubernetes 1.34 on, counts in place of that.
    """
    spec = pod.get("spec", {})
    init = spec.get("initContainers") or []
    sidecars = [container for container in init if container.get("restartPolicy") == "Always"]
    together = _sum([*(spec.get("containers") or []), *sidecars])
    for container in init:
        for resource, amount in _sum([container]).items():
            together[resource] = max(together.get(resource, Decimal(0)), amount)
    together |= _sum([spec])
    for resource, text in (spec.get("overhead") or {}).items():
        together[resource] = together.get(resource, Decimal(0)) + parse_quantity(str(text))
    return together


def _sum(containers: Collection[Json]) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    for container in containers:
        resources = container.get("resources") or {}
        for resource, text in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
            total[resource] = total.get(resource, Decimal(0)) + parse_quantity(str(text))
    return total


def _facts(node: Json, foreign: Mapping[str, Decimal], gpu_resource: str) -> NodeFacts:
    meta, status = node["metadata"], node.get("status", {})
    labels = {key: str(value) for key, value in (meta.get("labels") or {}).items()}
    allocatable = {key: parse_quantity(str(text)) for key, text in (status.get("allocatable") or {}).items()}

    def left(resource: str) -> Decimal:
        return max(Decimal(0), allocatable.get(resource, Decimal(0)) - foreign.get(resource, Decimal(0)))

    slices = {} if gpu_resource.startswith(MIG) else _slices_of({name: int(left(name)) for name in allocatable})
    # A slice of a GPU has labels of its own, named after its resource.
    memory = labels.get(f"{gpu_resource}.memory") or labels.get(_MEMORY_MIB, "")
    gpu_bytes = int(memory) * _MIB if memory.isdecimal() else 0
    model = labels.get(f"{gpu_resource}.product") or labels.get(_MODEL, gpu_resource)
    return NodeFacts(
        name=meta["name"],
        cpu_millicores=int(left("cpu") * 1000),
        memory_bytes=int(left("memory")),
        gpus=tuple(
            GpuFacts(index, f"{meta['uid']}-{index}", model, gpu_bytes)
            for index in range(min(int(left(gpu_resource)), MOST_GPUS + 1))  # one more, so that it is found out
        ),
        labels=labels,
        foreign=ForeignUse(
            cpu_millicores=_whole(foreign.get("cpu", Decimal(0)) * 1000),
            memory_bytes=_whole(foreign.get("memory", Decimal(0))),
            gpus=_whole(foreign.get(gpu_resource, Decimal(0))),
        ),
        max_pods=int(left("pods")) if "pods" in allocatable else None,
        mig_strategy="mixed" if slices else "off",
        mig=slices,
    )


def _slices_of(amounts: Mapping[str, int]) -> dict[str, int]:
    """Return how many slices of GPUs (MIG) there are of each profile. Those that are shared in time are none."""
    profiles = {name.removeprefix(MIG): amount for name, amount in amounts.items() if name.startswith(MIG)}
    return {profile: amount for profile, amount in sorted(profiles.items()) if is_profile(profile) and amount}


def _whole(amount: Decimal) -> int:
    """Return an amount as we write it down: many pods may ask for more than fits."""
    return int(min(amount, Decimal(bounds.MAX_QUANTITY)))


def _is_ready(node: Json, node_selector: Mapping[str, str]) -> bool:
    spec, labels = node.get("spec", {}), node["metadata"].get("labels") or {}
    conditions = node.get("status", {}).get("conditions") or []
    is_up = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return is_up and node_selector.items() <= labels.items() and not spec.get("unschedulable")
