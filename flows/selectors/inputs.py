"""Which datasets the steps of a run read, where each of them lies, and from where jobs can mount what they read."""

from collections.abc import Collection

from django.db.models import QuerySet

from accounts.permissions import Actor, require
from compute.services.jobs import SourceKind
from core import clock
from datasets.selectors import caches, locality
from flows import permissions
from flows.models import AttemptInput, InputState, Run

DATA_SOURCES = frozenset({SourceKind.HOST_FOLDER, SourceKind.TREE})
"""A dataset is a cached or own copy on this host, or is read from the store."""

OUTPUT_SOURCES = frozenset({SourceKind.HOST_FOLDER, SourceKind.TREE})
"""The output of an earlier step is its folder on this host, or is read from the store."""


def list_inputs(*, actor: Actor, run: Run) -> QuerySet[AttemptInput]:
    """Return the datasets of all attempts of a run, newest attempts first, with attempt and step at hand."""
    require(actor, permissions.VIEW_FLOWS, run.project_id)
    inputs = AttemptInput.objects.filter(attempt__run=run).select_related("attempt__step")
    return inputs.order_by("-attempt", "name")


AHEAD = "ahead:"
"""The holder of what is brought to the next template of an attempt that waits: this, and the id of the attempt."""


NEXT = "next:"
"""The holder of what is brought to the likely place of a step whose parents run: this, and the id of the step."""


def describe_arrivals(
    preparing: Collection[str], queued: Collection[str], pending_steps: Collection[str] = ()
) -> dict[str, str]:
    """Say, by attempt, what of its datasets still moves: of those that prepare, and to the next template of others.

    So too by step for steps that have none yet, whose datasets are brought ahead. For callers that know the run.
    """
    moving: dict[str, list[tuple[str, str]]] = {}
    if preparing:
        pending = AttemptInput.objects.filter(attempt__in=preparing, state=InputState.PENDING).exclude(site="")
        for attempt_id, commit_id, site in pending.order_by("name").values_list("attempt_id", "commit_id", "site"):
            moving.setdefault(attempt_id, []).append((commit_id, site))
    holders = {AHEAD + attempt_id: attempt_id for attempt_id in queued} | {NEXT + pk: pk for pk in pending_steps}
    if holders:
        for holder, copies in caches.list_held(holders).items():
            moving[holders[holder]] = [(copy.commit_id, copy.site) for copy in copies]
    if not moving:
        return {}
    commits = {pk: [commit_id for commit_id, _ in items] for pk, items in moving.items()}
    sites = {pk: list(dict.fromkeys(site for _, site in items)) for pk, items in moving.items()}
    known = locality.read_locality(set().union(*commits.values()), set().union(*sites.values()))
    now = clock.now()
    return {pk: known.arrival(commits[pk], sites[pk]).describe(now) for pk in moving}
