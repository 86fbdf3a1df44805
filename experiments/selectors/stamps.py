"""A cheap stamp of all experiments, for pages that wait for a change. It tells nothing but that there was one."""

from django.db.models import Count, Max

from experiments.models import Experiment, MetricPoint


def stamp_of_all() -> str:
    """Return a stamp that changes when an experiment was created, measured something, or changed its state."""
    newest = Experiment.objects.aggregate(newest=Max("pk"))["newest"]
    point = MetricPoint.objects.aggregate(newest=Max("pk"))["newest"]
    live = Experiment.objects.filter(is_live=True).order_by("state").values_list("state").annotate(Count("pk"))
    return f"{newest} {point} {dict(live)}"
