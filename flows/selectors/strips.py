"""The last runs of several flows at once: the strip of squares beside each flow."""

from collections.abc import Mapping, Sequence

from django.db.models import F, Window
from django.db.models.functions import RowNumber

from accounts.actor import Actor
from flows.models import Flow, Run
from flows.selectors import runs


def last_runs(*, actor: Actor, flows: Sequence[Flow], count: int) -> Mapping[str, list[Run]]:
    """Return at most `count` newest runs of each flow by its id, oldest first, in one query for all of them."""
    ranked = (
        runs.list_runs(actor=actor)
        .filter(flow__in=flows)
        .annotate(rank=Window(RowNumber(), partition_by=F("flow"), order_by=F("pk").desc()))
    )
    found: dict[str, list[Run]] = {flow.pk: [] for flow in flows}
    for run in ranked.filter(rank__lte=count).order_by("pk"):
        found[run.flow_id].append(run)
    return found
