"""Which driver serves a resource: the one place where a kind becomes an adapter."""

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.conf import settings

from compute.adapters.local.driver import LocalDriver
from compute.adapters.local.nursery import find_refusal
from compute.adapters.local.views import Views
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
            return _local_driver(home)
        case ResourceKind.SIMULATED:
            # The id keeps a resource apart from an earlier one of the same name.
            return SimulatedDriver(home / "simulated" / f"{resource.name}-{resource.pk}", declared_nodes(resource))


def _local_driver(home: Path) -> LocalDriver:
    """Confine jobs if that is asked for and possible."""
    said = settings.NEARLINE
    refusal = find_refusal() if said.confine_jobs else "The setting NEARLINE_CONFINE_JOBS is 0."
    if refusal:
        return LocalDriver(home / "jobs", unconfined_reason=refusal)
    readable, writable = (_paths(text) for text in (said.job_readable_paths, said.job_writable_paths))
    return LocalDriver(home / "jobs", Views(hidden=[home], readable=readable, writable=writable))


def _paths(text: str) -> list[Path]:
    return [Path(part).expanduser() for part in text.split(os.pathsep) if part]


def _node(resource: str, declared: Mapping[str, Any]) -> NodeFacts:
    name = declared["name"]
    gpus = tuple(
        GpuFacts(index, f"SIMULATED-{resource}-{name}-{index}", declared["gpu_model"], declared["gpu_memory_bytes"])
        for index in range(declared["gpus"])
    )
    return NodeFacts(name, declared["cpu_millicores"], declared["memory_bytes"], gpus, {"simulated": "true"})
