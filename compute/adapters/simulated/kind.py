"""Resources of kind `simulated`: declared nodes that do not exist. For schedules and quotas without a cluster."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django import forms

from compute.adapters.form_fields import MOST_CORES
from compute.adapters.kinds import Config, ConfigForm, Credentials, ResourceKind
from compute.adapters.simulated.driver import SimulatedDriver
from compute.engine.mounts import SourceKind
from compute.engine.ports import GpuFacts, NodeFacts
from compute.errors import InvalidResource
from compute.models import Resource
from core import bounds
from core.form_fields import SizeField

_MOST_NODES = 1000


class SimulatedForm(ConfigForm):
    """How many nodes there are to be, and what each of them has."""

    nodes = forms.IntegerField(min_value=1, max_value=_MOST_NODES, initial=2, label="Nodes")
    cpu = forms.IntegerField(min_value=1, max_value=MOST_CORES, initial=40, label="CPU cores of each")
    memory = SizeField(most=bounds.MAX_QUANTITY, initial="512 GiB", label="Memory of each")
    gpus = forms.IntegerField(min_value=0, max_value=64, initial=8, label="GPUs of each")
    gpu_model = forms.CharField(max_length=100, initial="V100 32GB", required=False, label="GPU model")
    gpu_memory = SizeField(most=bounds.MAX_QUANTITY, initial="32 GiB", label="Memory of each GPU")

    def read_config(self, name: str) -> Config:
        """Return nodes that are named after the resource."""
        fields = self.cleaned_data
        shape = {
            "cpu_millicores": 1000 * fields["cpu"],
            "memory_bytes": fields["memory"],
            "gpus": fields["gpus"],
            "gpu_model": fields["gpu_model"],
            "gpu_memory_bytes": fields["gpu_memory"],
        }
        return {"nodes": [{"name": f"{name}-{number}", **shape} for number in range(1, fields["nodes"] + 1)]}


def check(config: Config, credentials: Credentials) -> None:
    """Require nodes, each with a name of its own. Raises InvalidResource."""
    nodes = config.get("nodes")
    if not nodes or credentials or set(config) != {"nodes"}:
        raise InvalidResource("A simulated resource declares its nodes; every other kind finds them by itself.")
    if len({node["name"] for node in nodes}) != len(nodes):
        raise InvalidResource("Two of the nodes have the same name.")


def open_driver(resource: Resource, home: Path, _credentials: Credentials) -> SimulatedDriver:
    """Return the driver."""
    nodes = [_node(resource.name, declared) for declared in resource.config.get("nodes", ())]
    return SimulatedDriver(resource, nodes, empty=home / "empty")


def _node(resource: str, declared: Mapping[str, Any]) -> NodeFacts:
    name = declared["name"]
    gpus = tuple(
        GpuFacts(index, f"SIMULATED-{resource}-{name}-{index}", declared["gpu_model"], declared["gpu_memory_bytes"])
        for index in range(declared["gpus"])
    )
    return NodeFacts(name, declared["cpu_millicores"], declared["memory_bytes"], gpus, {"simulated": "true"})


KIND = ResourceKind(
    name="simulated",
    label="simulated: nodes that do not exist, with real bookkeeping",
    form=SimulatedForm,
    check=check,
    mountable=frozenset(SourceKind),
    open=open_driver,
    is_simulated=True,
    runs_gangs=True,
)
