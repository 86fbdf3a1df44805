"""The settings of one queue, as people write them."""

from collections.abc import Sequence

from django import forms
from django.http import QueryDict

from core import units
from core.form_fields import SizeField
from core.units import ONE_GPU
from scheduler.models import Queue
from scheduler.services.queues import MOST_RANK, QueueSettings
from scheduler.web.sharing_form import QUEUE_RULES, RuleValue
from web.refused_forms import name_field

_HOUR_S = 3600
_MAIN = ("gpus", "cpu", "memory", "weight", "rank")
_HOURS = {
    "run_training": "training_run_at_most_s",
    "run_interactive": "interactive_run_at_most_s",
    "idle_training": "training_idle_at_most_s",
    "idle_interactive": "interactive_idle_at_most_s",
}
SETTINGS = {
    "gpus": "gpu_quota_milli",
    "cpu": "cpu_quota_millicores",
    "memory": "memory_quota_bytes",
    "weight": "over_quota_weight",
    "rank": "pool_rank",
    "limit": "gpu_limit_milli",
    "department": "department",
    "nodes_training": "training_node_labels",
    "nodes_interactive": "interactive_node_labels",
    **_HOURS,
    **{rule.field: rule.column for rule in QUEUE_RULES},
}
"""What each field is called in the settings of a queue."""


def _hours(what: str) -> forms.FloatField:
    label = f"{what} for so many hours (empty: as the department rules)"
    return forms.FloatField(min_value=0, max_value=10**5, required=False, label=label)


def _labels(label: str) -> forms.CharField:
    widget = forms.TextInput({"placeholder": "type=a100"})
    return forms.CharField(max_length=1000, required=False, label=label, widget=widget)


class DepartmentForm(forms.Form):
    """A new department."""

    name = name_field()

    def __init__(self, data: QueryDict | None = None) -> None:
        super().__init__(data, auto_id="department-%s")


class QuotaForm(forms.Form):
    """What a project, or a department, is guaranteed.

    Left empty: CPU and memory without bound, a weight as the GPU quota, no limit, the rules of the department. Limits
    and rules that the form was sent without stay.
    """

    gpus = forms.FloatField(min_value=0, max_value=10**6, label="GPUs")
    cpu = forms.FloatField(min_value=0, max_value=10**9, required=False, label="CPU cores (empty: no limit)")
    memory = SizeField(
        required=False, label="Memory (empty: no limit)", widget=forms.TextInput({"placeholder": "512 GiB"})
    )
    weight = forms.FloatField(
        min_value=0, max_value=10**9, required=False, label="Over-quota weight (empty: as the quota)"
    )
    rank = forms.IntegerField(
        min_value=1,
        max_value=MOST_RANK,
        required=False,
        label="Place of this pool for jobs that name none (1: first; empty: never)",
    )
    limit = forms.FloatField(min_value=0, max_value=10**6, required=False, label="Limit (empty: none)")
    department = forms.CharField(max_length=63, required=False, widget=forms.Select())
    run_training = _hours("Training may run")
    run_interactive = _hours("Interactive work may run")
    idle_training = _hours("Training may be idle")
    idle_interactive = _hours("Interactive work may be idle")
    nodes_training = _labels("Nodes for training, by label (empty: as the department rules)")
    nodes_interactive = _labels("Nodes for interactive work, by label")

    def __init__(self, queue: Queue | None = None, data: QueryDict | None = None) -> None:
        """Take what is said of a queue; None: of any."""
        super().__init__(data, auto_id="quota-%s")
        self.queue = queue
        self.fields.update({rule.field: rule.make_field(is_required=False) for rule in QUEUE_RULES})

    def show(self, queue: Queue, departments: Sequence[Queue], rules: Sequence[RuleValue], *, has_pools: bool) -> None:
        """Show what a queue has, with what there is to choose from and what it inherits."""
        parent = next((each.name for each in departments if each.pk == queue.parent_id), "")
        self.initial = _write(queue) | {"department": parent} | {each.rule.field: each.text for each in rules}
        names = [each.name for each in departments]
        self.fields["department"].widget.choices = [("", "none"), *((name, name) for name in names)]
        for each in rules:
            self.fields[each.rule.field].label = f"{each.rule.label} (empty: {each.inherited})"
        if not departments:
            del self.fields["department"]
        if not has_pools or queue.project_id is None:
            del self.fields["rank"]

    @property
    def main_fields(self) -> list[forms.BoundField]:
        """What is said of most queues."""
        return [field for field in self if field.name in _MAIN]

    @property
    def rules(self) -> list[forms.BoundField]:
        """Limits and rules, which few queues have."""
        return [field for field in self if field.name not in _MAIN]

    @property
    def has_faulty_rule(self) -> bool:
        """Whether something is wrong with a limit or a rule."""
        return any(field.errors for field in self.rules)

    def read(self) -> QueueSettings:
        """Return what the fields say."""
        values = self.cleaned_data
        quota = QueueSettings(
            gpu_quota_milli=round(ONE_GPU * values["gpus"]),
            cpu_quota_millicores=_scaled(values["cpu"], 1000),
            memory_quota_bytes=values["memory"],
            over_quota_weight=values["weight"],
        )
        rules: dict[str, object] = {
            "limit": _scaled(values["limit"], ONE_GPU),
            "department": values["department"] or None,
            **{name: _scaled(values[name], _HOUR_S) for name in _HOURS},
            "nodes_training": values["nodes_training"].split(),
            "nodes_interactive": values["nodes_interactive"].split(),
            "rank": values["rank"],
            **{rule.field: _scaled(values[rule.field], rule.unit_s) for rule in QUEUE_RULES},
        }
        for name, value in rules.items():
            if name in self.data:
                quota[SETTINGS[name]] = value  # type: ignore[literal-required]  # a key of QueueSettings
        return quota


def _write(queue: Queue) -> dict[str, object]:
    """Return what a queue has as its fields say it."""
    weight, cpu, memory = queue.over_quota_weight, queue.cpu_quota_millicores, queue.memory_quota_bytes
    hours = {name: getattr(queue, column) for name, column in _HOURS.items()}
    return {
        "gpus": units.format_gpus(queue.gpu_quota_milli),
        "cpu": None if cpu is None else units.format_cpu(cpu),
        "memory": None if memory is None else units.format_memory(memory),
        "weight": None if weight is None else f"{weight:.5g}",
        "rank": queue.pool_rank,
        "limit": None if queue.gpu_limit_milli is None else units.format_gpus(queue.gpu_limit_milli),
        "nodes_training": " ".join(queue.training_node_labels),
        "nodes_interactive": " ".join(queue.interactive_node_labels),
        **{name: None if seconds is None else f"{seconds / _HOUR_S:g}" for name, seconds in hours.items()},
    }


def _scaled(amount: float | None, unit: int) -> int | None:
    return None if amount is None else round(unit * amount)
