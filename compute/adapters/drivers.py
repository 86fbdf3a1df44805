"""Which driver serves a resource: the one place where a kind becomes an adapter."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.conf import settings

from compute.adapters.local.driver import LocalDriver
from compute.adapters.simulated import SimulatedDriver
from compute.engine.ports import ComputeDriver, GpuFacts, NodeFacts
from compute.models import Resource, ResourceKind

_guard = threading.Lock()
_drivers: dict[tuple[Path, str], ComputeDriver] = {}


def driver_of(resource: Resource) -> ComputeDriver:
    """Return the driver of a resource, the same object each time within a process."""
    home = Path(settings.NEARLINE.home)
    with _guard:
        driver = _drivers.get((home, resource.pk))
        if driver is None:
            driver = _drivers[home, resource.pk] = _make(resource, home)
        return driver


def install(resource: Resource, driver: ComputeDriver) -> None:
    """Serve a resource by this driver within this process. For tests."""
    with _guard:
        _drivers[Path(settings.NEARLINE.home), resource.pk] = driver


def declared_nodes(resource: Resource) -> Sequence[NodeFacts]:
    """Return the nodes that a simulated resource is declared to have."""
    return [_node(resource.name, declared) for declared in resource.nodes]


def _make(resource: Resource, home: Path) -> ComputeDriver:
    match ResourceKind(resource.kind):
        case ResourceKind.LOCAL:
            return LocalDriver(home / "jobs")
        case ResourceKind.SIMULATED:
            # The id keeps a resource apart from an earlier one of the same name.
            return SimulatedDriver(home / "simulated" / f"{resource.name}-{resource.pk}", declared_nodes(resource))


def _node(resource: str, declared: Mapping[str, Any]) -> NodeFacts:
    name = declared["name"]
    gpus = tuple(
        GpuFacts(index, f"SIMULATED-{resource}-{name}-{index}", declared["gpu_model"], declared["gpu_memory_bytes"])
        for index in range(declared["gpus"])
    )
    return NodeFacts(name, declared["cpu_millicores"], declared["memory_bytes"], gpus, {"simulated": "true"})
