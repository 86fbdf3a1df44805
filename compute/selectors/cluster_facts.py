"""What was found out of an attached cluster besides its nodes."""

from collections.abc import Mapping
from typing import Any

from compute.models import Resource


def of_resource(resource: Resource) -> Mapping[str, Any] | None:
    """Return the `ClusterFacts` of a resource as they were written down; None: there are none."""
    cluster: Mapping[str, Any] | None = resource.facts.get("cluster")
    return cluster


def list_warnings(resource: Resource) -> list[str]:
    """Return, as sentences, what a cluster keeps jobs from, and what its account may not do."""
    cluster = of_resource(resource) or {}
    return [*cluster.get("warnings", ()), *cluster.get("lacks", ())]
