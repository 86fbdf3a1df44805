"""What the scheduler is told of how the replicas of a job are to be placed."""

from collections.abc import Sequence
from typing import Any

from compute.engine.placing import Placing, PodOptions
from core.taints import Toleration
from scheduler.services.workloads import PodSet


def placing_of(placing: Placing, pod: PodOptions) -> dict[str, Any]:
    """Return what a `PodSet` says besides size and number."""
    return {
        "selector": sorted(pod.node_selector.items()),
        "tolerations": pod.parsed_tolerations,
        "gpu_memory_bytes": placing.gpu_memory_bytes,
        "mig_profile": placing.mig_profile,
        "node_labels": [tuple(label.split("=", 1)) for label in placing.node_labels],
        "required_level": placing.required_level,
        "preferred_level": placing.preferred_level,
        "min_count": placing.min_replicas or None,
    }


def launcher_of(placing: Placing, tolerations: Sequence[Toleration]) -> PodSet | None:
    """Return the launcher of a gang, whose nodes need no labels: it runs on any node. None: it has none."""
    if (launcher := placing.launcher) is None:
        return None
    return PodSet(
        name="launcher",
        cpu_millicores=launcher.cpu_millicores,
        memory_bytes=launcher.memory_bytes,
        tolerations=tolerations,
    )
