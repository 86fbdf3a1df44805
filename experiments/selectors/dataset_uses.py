"""Which experiments read a dataset, for the pages of datasets: experiments know it, datasets only ask."""

from collections.abc import Sequence

from django.urls import reverse

from accounts.permissions import Actor
from datasets.selectors.usage import Use
from experiments.engine.columns import Kind
from experiments.models import Experiment, Fact
from experiments.selectors import sources


def find_uses(actor: Actor, reference: str, limit: int) -> Sequence[Use]:
    """Return the newest experiments that read `project/dataset`, as far as the actor may see them."""
    facts = Fact.objects.filter(kind=Kind.DATA, key=reference, experiment__deleted_at=None)
    if not actor.sees_everything:
        facts = facts.filter(experiment__project_id__in=actor.project_ids)
    newest = list(facts.select_related("experiment").order_by("-experiment_id")[:limit])
    sites = sources.sites_of([fact.experiment for fact in newest])
    return [
        _use_of(fact.experiment, fact.text, sites.get((fact.experiment.source_id or "", fact.text), ""))
        for fact in newest
    ]


def _use_of(experiment: Experiment, commit_id: str, site: str) -> Use:
    return Use(
        commit_id=commit_id,
        kind="experiment",
        what=experiment.title,
        url=reverse("experiments:experiment", args=[experiment.pk]),
        who=experiment.created_by,
        state=experiment.state,
        at=experiment.created_at,
        where=site or ("a cached copy" if _is_cached(experiment, commit_id) else ""),
    )


def _is_cached(experiment: Experiment, commit_id: str) -> bool:
    return any(read.get("cached") and read.get("commit") == commit_id for read in experiment.datasets)
