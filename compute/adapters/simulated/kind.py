"""Resources of kind `simulated`: declared nodes that do not exist. For schedules and quotas without a cluster."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django import forms

from compute.adapters.kinds import MOST_CORES, Config, ConfigForm, Credentials, ResourceKind
from compute.adapters.simulated.driver import SimulatedDriver
from compute.engine.job_spec import SourceKind
from compute.engine.ports import GpuFacts, NodeFacts
from compute.errors import InvalidResource
from compute.models import Resource
from core import bounds
from core.form_fields import SizeField
from scheduler.selectors.nodes import can_be_cut

_MOST_NODES = 1000
_NUMBERED = re.compile(r"\{([1-9][0-9]{0,3})\}")


class SimulatedForm(ConfigForm):
    """How many nodes there are to be, and what each of them has."""

    nodes = forms.IntegerField(min_value=1, max_value=_MOST_NODES, initial=2, label="Nodes")
    cpu = forms.IntegerField(min_value=1, max_value=MOST_CORES, initial=40, label="CPU cores of each")
    memory = SizeField(most=bounds.MAX_QUANTITY, initial="512 GiB", label="Memory of each")
    gpus = forms.IntegerField(min_value=0, max_value=64, initial=8, label="GPUs of each")
    gpu_model = forms.CharField(max_length=100, initial="V100 32GB", required=False, label="GPU model")
    gpu_memory = SizeField(most=bounds.MAX_QUANTITY, initial="32 GiB", label="Memory of each GPU")
    mig = forms.ChoiceField(
        required=False,
        choices=[("", "Whole, or shared"), ("dynamic", "Cut into MIG slices as jobs come")],
        label="GPUs are given out",
        help_text="Slices need a model that can be cut: A30, A100, H100 or H200, with its real memory.",
    )
    labels = forms.CharField(
        max_length=2000,
        required=False,
        label="Labels of its nodes",
        widget=forms.TextInput(attrs={"placeholder": "gpu=a100, rack=r{2}"}),
        help_text="key=value; {2} is a number that grows by one after every two nodes.",
    )

    def clean(self) -> dict[str, Any] | None:
        """Refuse labels that are none, and slices of GPUs that cannot be cut."""
        fields = super().clean() or self.cleaned_data
        try:
            _labels_of(fields.get("labels", ""), 0)
        except ValueError as error:
            self.add_error("labels", str(error))
        model, memory = fields.get("gpu_model", ""), fields.get("gpu_memory") or 0
        if fields.get("mig") and not can_be_cut(model, memory):
            self.add_error("mig", f"A GPU '{model}' with this memory is not known to be cut into slices.")
        return fields

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
        if fields["mig"]:
            shape["mig_strategy"] = fields["mig"]
        nodes = range(1, fields["nodes"] + 1)
        labels = [_labels_of(fields["labels"], number - 1) for number in nodes]
        return {
            "nodes": [
                {"name": f"{name}-{number}", **shape, **({"labels": own} if own else {})}
                for number, own in zip(nodes, labels, strict=True)
            ]
        }


def _labels_of(text: str, position: int) -> dict[str, str]:
    """Return the labels of the node at a position, counted from 0. Raises ValueError."""
    pairs = [label.partition("=") for label in text.replace(",", " ").split()]
    if bad := [key for key, sign, value in pairs if not (key and sign and value)]:
        raise ValueError(f"'{bad[0]}' is no label; write key=value.")
    return {key: _NUMBERED.sub(lambda match: str(position // int(match[1])), value) for key, _, value in pairs}


def check(config: Config, credentials: Credentials) -> None:
    """Require nodes, each with a name of its own. Raises InvalidResource."""
    nodes = config.get("nodes")
    if not nodes or credentials or set(config) != {"nodes"}:
        raise InvalidResource("A simulated resource declares its nodes; every other kind finds them by itself.")
    if len({node["name"] for node in nodes}) != len(nodes):
        raise InvalidResource("Two of the nodes have the same name.")
    for node in nodes:
        is_cut = node.get("mig_strategy", "off") != "off"
        if is_cut and not can_be_cut(node["gpu_model"], node["gpu_memory_bytes"]):
            raise InvalidResource(f"A GPU '{node['gpu_model']}' with this memory is not known to be cut into slices.")


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
    return NodeFacts(
        name,
        declared["cpu_millicores"],
        declared["memory_bytes"],
        gpus,
        {**declared.get("labels", {}), "simulated": "true"},
        mig_strategy=declared.get("mig_strategy", "off"),
    )


KIND = ResourceKind(
    name="simulated",
    label="simulated: nodes that do not exist, with real bookkeeping",
    form=SimulatedForm,
    check=check,
    mountable=frozenset(SourceKind),
    open=open_driver,
    is_simulated=True,
    runs_gangs=True,
    bursts_gpus=True,
    resizes_gangs=True,
)
