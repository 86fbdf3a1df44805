"""Reads about how capacity is packed. Every signed-in person may know."""

from dataclasses import replace

from django.db.models import QuerySet

from core.prepared import prepared
from scheduler.engine.snapshot import CapacityPrices, Fill, Policy
from scheduler.models import Packing


def find_packing() -> Packing | None:
    """Return the prices of capacity that are in use; None while each node is simply filled up."""
    return next(iter(_packings()), None)


def with_prices(policy: Policy) -> Policy:
    """Return the policy with the prices of capacity that were learnt, if they were."""
    return apply_prices(policy, find_packing())


def apply_prices(policy: Policy, known: Packing | None) -> Policy:
    """Return the policy with prices of capacity, if there are any.

    They choose the node. Shares go on being put onto devices in shared use first, and there onto the fullest: the
    prices alone would sometimes open a device for a share that fits beside another one.
    """
    if known is None:
        return policy
    rows = {name: tuple(value) for name, value in known.prices.items() if isinstance(value, list)}
    prices = CapacityPrices(**known.prices | rows)
    return replace(policy, gpu_nodes=Fill.MIX, cpu_nodes=Fill.MIX, prices=prices)


@prepared
def _packings() -> QuerySet[Packing]:
    return Packing.objects.order_by("pk")[:1]
