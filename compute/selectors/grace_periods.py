"""How long a job may take to end by itself once it is told to: what it asks for, and what the installation allows."""

from django.conf import settings


def describe_fault(grace_period_s: float) -> str:
    """Say why a job cannot have a grace period; empty when it can."""
    most_s = settings.NEARLINE.max_grace_period_s
    if grace_period_s <= most_s:
        return ""
    return (
        f"A grace period of {grace_period_s:,.10g} s is longer than the {most_s} s that this installation allows "
        "(NEARLINE_MAX_GRACE_PERIOD_S)."
    )


def bound(grace_period_s: float) -> float:
    """Return the grace period that a job gets: an admin may have lowered the limit since its flow was saved."""
    return min(grace_period_s, float(settings.NEARLINE.max_grace_period_s))
