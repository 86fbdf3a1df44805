"""The rules by which queues share, as people write them: those of a pool, and those of one queue in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import QueryDict

from scheduler.engine.sharing import COUNTS, MOST_PULL, MOST_STOPS, Rules, SharingRules
from scheduler.models import Queue

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400
_NAMES = {_MINUTE_S: "min", _HOUR_S: "h", _DAY_S: "days", 1: ""}


@dataclass(frozen=True)
class Rule:
    """A rule in a form: its field, its column, and how many seconds the unit has in which it is written."""

    field: str
    column: str
    label: str
    unit_s: int

    def write(self, value: float) -> str:
        """Return a value as it is written."""
        return f"{value / self.unit_s:g}"

    def read(self, amount: float) -> float:
        """Return what is written as a value."""
        return amount if self.column == "usage_pull" else round(amount * self.unit_s)

    def make_field(self, *, is_required: bool) -> forms.Field:
        """Return the field of a form."""
        if self.column in COUNTS:
            return forms.IntegerField(min_value=0, max_value=MOST_STOPS, required=is_required, label=self.label)
        if self.column == "usage_pull":
            slider = forms.NumberInput({"type": "range", "class": "form-range", "step": 0.1})
            label = f"{self.label} (0: not at all)"
            return forms.FloatField(min_value=0, max_value=MOST_PULL, required=is_required, label=label, widget=slider)
        return forms.FloatField(min_value=0, max_value=10**6, required=is_required, label=self.label)


QUEUE_RULES = (
    Rule(
        "claim_delay", "claim_delay_s", "Minutes that a claim of one GPU waits before it takes from others", _MINUTE_S
    ),
    Rule("reclaim_after", "reclaim_min_runtime_s", "Minutes before other queues may evict its work", _MINUTE_S),
    Rule("surplus_after", "surplus_min_runtime_s", "Hours before claims beyond a quota may evict its work", _HOUR_S),
    Rule("stops", "evictions_at_most", "Stops of one job at most, moves included", 1),
    Rule("surplus_stops", "surplus_evictions_at_most", "Stops before claims beyond a quota spare a job", 1),
)
"""The rules that each queue may have for itself."""

POOL_RULES = (
    *QUEUE_RULES,
    Rule("consolidate_every", "consolidate_every_s", "Minutes between cycles that move running work", _MINUTE_S),
    Rule("half_life", "usage_half_life_s", "Days after which past use counts half", _DAY_S),
    Rule("past_use", "usage_pull", "How much past use counts", 1),
)


@dataclass(frozen=True)
class RuleValue:
    """A rule with what is written in its field. `inherited` says what holds where nothing is."""

    rule: Rule
    text: str
    inherited: str = ""


class SharingForm(forms.Form):
    """The rules of a pool."""

    def __init__(self, data: QueryDict | None = None, **options: Any) -> None:
        super().__init__(data, auto_id="sharing-%s", **options)
        self.fields.update({rule.field: rule.make_field(is_required=True) for rule in POOL_RULES})

    def read(self) -> Rules:
        """Return what the fields say."""
        rules = Rules()
        for rule in POOL_RULES:
            rules[rule.column] = rule.read(self.cleaned_data[rule.field])  # type: ignore[literal-required]
        return rules


def write_rules(rules: SharingRules) -> dict[str, str]:
    """Return the rules of a pool as their fields say them."""
    return {rule.field: rule.write(getattr(rules, rule.column)) for rule in POOL_RULES}


def of_queue(line: Sequence[Queue], rules: SharingRules) -> list[RuleValue]:
    """Return the rules of a queue; `line` leads up from it, and what it has no rule for is as the first above has."""
    values = []
    for rule in QUEUE_RULES:
        own = getattr(line[0], rule.column)
        holder = next((above for above in line[1:] if getattr(above, rule.column) is not None), None)
        value = getattr(rules if holder is None else holder, rule.column)
        source = "the pool" if holder is None else holder.label
        inherited = f"{rule.write(value)} {_NAMES[rule.unit_s]}".strip()
        values.append(RuleValue(rule, "" if own is None else rule.write(own), f"{inherited}, from {source}"))
    return values
