"""What the scheduler is told of how the replicas of a job are to be placed."""

from typing import Any

from compute.engine.placing import Placing
from compute.engine.pod_options import PodOptions


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
