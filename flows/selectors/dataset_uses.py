"""Which attempts read a dataset, for the pages of datasets: flows know it, datasets only ask."""

from collections.abc import Sequence

from django.urls import reverse

from accounts.actor import Actor
from datasets.selectors.usage import Use
from flows.engine.columns import Kind
from flows.models import AttemptInput, Experiment, Fact


def find_uses(actor: Actor, reference: str, limit: int) -> Sequence[Use]:
    """Return the newest attempts that read `project/dataset`, as far as the actor may see their experiments."""
    facts = Fact.objects.filter(kind=Kind.DATA, key=reference)
    if not actor.sees_everything:
        facts = facts.filter(experiment__project_id__in=actor.project_ids)
    found = list(
        facts.select_related("experiment__run__flow", "experiment__step", "experiment__attempt").order_by(
            "-experiment_id"
        )[:limit]
    )
    attempts = [fact.experiment.attempt_id for fact in found]
    sites = {
        (read.attempt_id, read.commit_id): read.site
        for read in AttemptInput.objects.filter(attempt__in=attempts, is_cached=True)
    }
    return [
        _use_of(fact.experiment, fact.text, sites.get((fact.experiment.attempt_id, fact.text), "")) for fact in found
    ]


def _use_of(experiment: Experiment, commit_id: str, site: str) -> Use:
    run = experiment.run
    return Use(
        commit_id=commit_id,
        kind="experiment",
        what=experiment.title,
        url=reverse("flows:experiment", args=[experiment.pk]),
        who=run.created_by,
        state=experiment.attempt.state,
        at=experiment.created_at,
        where=site,
    )
