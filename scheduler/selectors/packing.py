"""Reads about how capacity is packed. Every signed-in person may know."""

from scheduler.models import Packing


def find_packing() -> Packing | None:
    """Return the prices of capacity that are in use; None while each node is simply filled up."""
    return Packing.objects.order_by("pk").first()
