"""How soon, how often and from whom queues take capacity back: the rules of a pool, and the named sets of them."""

from dataclasses import dataclass, replace
from typing import TypedDict

from core import bounds
from scheduler.errors import InvalidQuota


@dataclass(frozen=True, slots=True)
class SharingRules:
    """The rules of a pool. Departments and projects may have their own of the first five (`QueueView`).

    A claim of n GPUs takes nothing from others for `claim_delay_s` / n after its wait began, unless its queue claims 8
    or more in all. Work that has run for less than `reclaim_min_runtime_s` is protected from it. A claimant that holds
    its quota already, and takes more up to its fair share, also spares what has run for less than
    `surplus_min_runtime_s`, or was stopped `surplus_evictions_at_most` times. What was stopped `evictions_at_most`
    times, moves included, other queues neither evict nor move. Running work is moved together in one cycle every
    `consolidate_every_s`. Use counts half after `usage_half_life_s`; `usage_pull` (0: not at all) lowers the weights of
    queues that used more than their part.
    """

    claim_delay_s: float = 0.0
    reclaim_min_runtime_s: float = 0.0
    surplus_min_runtime_s: float = 0.0
    evictions_at_most: int = 5
    surplus_evictions_at_most: int = 2
    consolidate_every_s: float = 0.0
    usage_half_life_s: float = 604_800.0
    usage_pull: float = 0.0


PROMPT = SharingRules()
"""Quotas are served at once: the default, as in the open-sourced Run:AI scheduler."""

STEADY = SharingRules(
    claim_delay_s=180.0,
    reclaim_min_runtime_s=600.0,
    surplus_min_runtime_s=43_200.0,
    surplus_evictions_at_most=1,
    consolidate_every_s=300.0,
)
"""Fewer stops for shares that are almost as even, as measured on the Philly trace (`benchmarks/README.md`)."""

PRESETS = {"prompt": PROMPT, "steady": STEADY}
"""The sets of rules by name."""

COUNTS = {"evictions_at_most", "surplus_evictions_at_most"}
"""The rules that are counts."""
MOST_STOPS = 1000
"""The most stops that a job may be spared after."""
MOST_PULL = 10.0
LEAST_HALF_LIFE_S = 60.0
"""Use is summed up once a minute."""


class Rules(TypedDict, total=False):
    """Rules to change (`SharingRules`). With a `preset`, those that are not named are those of that set.

    The pull of past use is in no set: it stays.
    """

    preset: str
    claim_delay_s: float
    reclaim_min_runtime_s: float
    surplus_min_runtime_s: float
    evictions_at_most: int
    surplus_evictions_at_most: int
    consolidate_every_s: float
    usage_half_life_s: float
    usage_pull: float


def is_count(value: object) -> bool:
    """Return whether a value says how often something may be stopped."""
    return isinstance(value, int) and 0 <= value <= MOST_STOPS


def with_changes(rules: SharingRules, changes: Rules) -> SharingRules:
    """Return rules after a change. Raises InvalidQuota."""
    if preset := changes.get("preset", ""):
        if preset not in PRESETS:
            raise InvalidQuota(f"There are no rules called '{preset}'. Known are {' and '.join(sorted(PRESETS))}.")
        rules = replace(PRESETS[preset], usage_half_life_s=rules.usage_half_life_s, usage_pull=rules.usage_pull)
    values = {name: value for name, value in changes.items() if name != "preset"}
    for name, value in values.items():
        _check(name, value)
    return replace(rules, **values)  # type: ignore[arg-type]  # the keys are its fields


def name_of(rules: SharingRules) -> str:
    """Return the name of the set that these rules are; empty: they are their own."""
    return next((name for name in PRESETS if with_changes(rules, {"preset": name}) == rules), "")


def _check(name: str, value: object) -> None:
    if name in COUNTS:
        if not is_count(value):
            raise InvalidQuota(f"How often a job may be stopped is a whole number from 0 to {MOST_STOPS}.")
        return
    least = LEAST_HALF_LIFE_S if name == "usage_half_life_s" else 0.0
    most = MOST_PULL if name == "usage_pull" else bounds.MAX_SECONDS
    if not isinstance(value, int | float) or not least <= value <= most:
        unit = "" if name == "usage_pull" else " seconds"
        raise InvalidQuota(f"'{name}' is a number from {least:g} to {most:g}{unit}.")
