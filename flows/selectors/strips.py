"""The last runs of several flows at once: the strip of squares beside each flow."""

from collections.abc import Mapping, Sequence

from django.db.models import OuterRef, Q, Subquery

from accounts.actor import Actor
from flows.models import Flow, Run
from flows.selectors import runs


def last_runs(*, actor: Actor, flows: Sequence[Flow], count: int) -> Mapping[str, list[Run]]:
    """Return at most `count` newest runs of each flow by its id, oldest first, in two queries for all of them."""
    newest = Run.objects.filter(flow=OuterRef("pk")).order_by("-number").values("number")[:1]
    numbers = Flow.objects.filter(pk__in=[flow.pk for flow in flows]).annotate(newest=Subquery(newest))
    condition = Q(pk__in=[])
    for pk, number in numbers.filter(newest__isnull=False).values_list("pk", "newest"):
        condition |= Q(flow=pk, number__gt=number - count)
    runs_of: dict[str, list[Run]] = {flow.pk: [] for flow in flows}
    for run in runs.list_runs(actor=actor).filter(condition).order_by("pk"):
        runs_of[run.flow_id].append(run)
    return runs_of
