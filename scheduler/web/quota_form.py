"""The settings of one queue, as people write them."""

from typing import Any

from django import forms

from core.form_fields import SizeField
from core.units import ONE_GPU
from scheduler.services.queues import MOST_RANK, QueueSettings
from scheduler.web.sharing_form import QUEUE_RULES

_HOUR_S = 3600


class QuotaForm(forms.Form):
    """What a project, or a department, is guaranteed.

    Left empty: CPU and memory without bound, a weight as the GPU quota, no limit, the rules of the department. Limits
    and rules that the form was sent without stay.
    """

    gpus = forms.FloatField(min_value=0, max_value=10**6, label="GPUs")
    cpu = forms.FloatField(min_value=0, max_value=10**9, required=False, label="CPU cores")
    memory = SizeField(required=False, label="Memory")
    weight = forms.FloatField(min_value=0, max_value=10**9, required=False, label="Over-quota weight")
    limit = forms.FloatField(min_value=0, max_value=10**6, required=False, label="Limit")
    department = forms.CharField(max_length=63, required=False, label="Department")
    run_training = forms.FloatField(min_value=0, max_value=10**5, required=False, label="Training runs for")
    run_interactive = forms.FloatField(min_value=0, max_value=10**5, required=False, label="Interactive work runs for")
    idle_training = forms.FloatField(min_value=0, max_value=10**5, required=False, label="Training is idle for")
    idle_interactive = forms.FloatField(
        min_value=0, max_value=10**5, required=False, label="Interactive work is idle for"
    )
    nodes_training = forms.CharField(max_length=1000, required=False, label="Nodes for training")
    nodes_interactive = forms.CharField(max_length=1000, required=False, label="Nodes for interactive work")
    rank = forms.IntegerField(min_value=1, max_value=MOST_RANK, required=False, label="Place in the order of pools")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields.update({rule.field: rule.make_field(is_required=False) for rule in QUEUE_RULES})

    def read(self) -> QueueSettings:
        """Return what the fields say."""
        values = self.cleaned_data
        quota = QueueSettings(
            gpu_quota_milli=round(ONE_GPU * values["gpus"]),
            cpu_quota_millicores=_scaled(values["cpu"], 1000),
            memory_quota_bytes=values["memory"],
            over_quota_weight=values["weight"],
        )
        rules: dict[str, tuple[str, Any]] = {
            "limit": ("gpu_limit_milli", _scaled(values["limit"], ONE_GPU)),
            "department": ("department", values["department"] or None),
            "run_training": ("training_run_at_most_s", _scaled(values["run_training"], _HOUR_S)),
            "run_interactive": ("interactive_run_at_most_s", _scaled(values["run_interactive"], _HOUR_S)),
            "idle_training": ("training_idle_at_most_s", _scaled(values["idle_training"], _HOUR_S)),
            "idle_interactive": ("interactive_idle_at_most_s", _scaled(values["idle_interactive"], _HOUR_S)),
            "nodes_training": ("training_node_labels", values["nodes_training"].split()),
            "nodes_interactive": ("interactive_node_labels", values["nodes_interactive"].split()),
            "rank": ("pool_rank", values["rank"]),
        }
        rules |= {rule.field: (rule.column, _scaled(values[rule.field], rule.unit_s)) for rule in QUEUE_RULES}
        for field, (name, value) in rules.items():
            if field in self.data:
                quota[name] = value  # type: ignore[literal-required]  # a key of QueueSettings
        return quota


def _scaled(amount: float | None, unit: int) -> int | None:
    return None if amount is None else round(unit * amount)
