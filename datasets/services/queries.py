"""Saved queries: made and deleted. `selections` makes commits of what they select."""

from django.db import IntegrityError, transaction

from accounts import audit
from accounts.permissions import Actor, require
from core.errors import Conflict
from datasets import permissions
from datasets.engine import queries as engine
from datasets.engine.names import check_label
from datasets.engine.queries import BadQuery, Conditions
from datasets.errors import EmptyBranch, InvalidQuery, NameTaken
from datasets.models import Dataset, Query
from datasets.selectors import commits
from datasets.services import records

MOST_QUERIES = 500


def create_query(*, actor: Actor, dataset: Dataset, name: str, conditions: Conditions, ref: str = "") -> Query:
    """Save conditions under a name. `ref`: what they are asked of where no other commit is named.

    Raises InvalidLabel, InvalidQuery, NameTaken, ReferenceNotFound and AmbiguousReference.
    """
    require(actor, permissions.MANAGE_QUERIES, dataset.project_id)
    check_label(name)
    try:
        engine.check(conditions)
    except BadQuery as error:
        raise InvalidQuery(str(error)) from error
    if ref:
        _check_ref(actor, dataset, ref)
    try:
        with transaction.atomic():
            if Query.objects.filter(dataset=dataset).count() >= MOST_QUERIES:
                raise Conflict(f"A dataset has at most {MOST_QUERIES} queries. Delete those that nobody uses.")
            query = Query.objects.create(
                dataset=dataset, name=name, ref=ref, conditions=conditions.to_json(), created_by_id=actor.user_id
            )
            records.note_change(dataset.pk)
            audit.record(
                actor, "datasets.create_query", query, project_id=dataset.project_id, dataset=dataset.name, query=name
            )
    except IntegrityError as error:
        raise NameTaken(f"{dataset.name} has a query called '{name}' already.") from error
    return query


@transaction.atomic
def delete_query(*, actor: Actor, query: Query) -> None:
    """Delete a query; the commits with what it selected stay."""
    require(actor, permissions.MANAGE_QUERIES, query.dataset.project_id)
    audit.record(
        actor,
        "datasets.delete_query",
        query,
        project_id=query.dataset.project_id,
        dataset=query.dataset.name,
        query=query.name,
    )
    query.delete()
    records.note_change(query.dataset_id)


def _check_ref(actor: Actor, dataset: Dataset, ref: str) -> None:
    try:
        commits.get_commit(actor, dataset, ref)
    except EmptyBranch:
        # It is there, and gets its first commit later.
        return
