"""Which datasets the steps of a run read, where each of them lies, and from where jobs can mount what they read."""

from collections.abc import Collection

from django.db.models import QuerySet

from accounts.actor import Actor
from accounts.permissions import require
from compute.services.jobs import SourceKind
from core import clock
from datasets.selectors import locality
from flows import permissions
from flows.models import AttemptInput, InputState, Run

DATA_SOURCES = frozenset({SourceKind.HOST_FOLDER, SourceKind.TREE})
"""A dataset is a cached or own copy on this host, or is read from the store."""

OUTPUT_SOURCES = frozenset({SourceKind.HOST_FOLDER})
"""The output of an earlier step is its folder on this host; where that is not here, it comes from the store."""


def list_inputs(*, actor: Actor, run: Run) -> QuerySet[AttemptInput]:
    """Return the datasets of all attempts of a run, newest attempts first, with attempt and step at hand."""
    require(actor, permissions.VIEW_FLOWS, run.project_id)
    inputs = AttemptInput.objects.filter(attempt__run=run).select_related("attempt__step")
    return inputs.order_by("-attempt", "name")


def describe_arrivals(attempt_ids: Collection[str]) -> dict[str, str]:
    """Say, by attempt, what of the cached commits that it waits for still moves. For callers that know the run."""
    pending = AttemptInput.objects.filter(attempt__in=attempt_ids, state=InputState.PENDING).exclude(site="")
    rows = list(pending.order_by("name").values_list("attempt_id", "commit_id", "site")) if attempt_ids else []
    if not rows:
        return {}
    known = locality.read_locality({commit_id for _, commit_id, _ in rows}, {site for *_, site in rows})
    commits: dict[str, list[str]] = {}
    sites: dict[str, list[str]] = {}
    for attempt_id, commit_id, site in rows:
        commits.setdefault(attempt_id, []).append(commit_id)
        sites.setdefault(attempt_id, []).append(site)
    now = clock.now()
    return {pk: known.arrival(ids, list(dict.fromkeys(sites[pk]))).describe(now) for pk, ids in commits.items()}
