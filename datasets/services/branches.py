"""Branches and tags: names that people give to commits."""

from django.db import IntegrityError, transaction

from accounts import audit
from accounts.permissions import Actor, require
from core.tasks import send_on_commit
from datasets import permissions, signals
from datasets.engine.names import check_label, may_be_commit
from datasets.errors import DefaultBranchKept, EmptyBranch, NameTaken, ReferenceNotFound, StaleParent
from datasets.models import Branch, Commit, Dataset, Tag
from datasets.selectors import commits
from datasets.services import records


def create_branch(*, actor: Actor, dataset: Dataset, name: str, at: str) -> Branch:
    """Create a branch at what `at` names: a branch, a tag, a commit, or `latest`. At an empty branch it is empty too.

    Raises InvalidLabel, NameTaken, ReferenceNotFound and AmbiguousReference.
    """
    require(actor, permissions.MANAGE_BRANCHES, dataset.project_id)
    check_label(name)
    try:
        head = commits.get_commit(actor, dataset, at)
    except EmptyBranch:
        head = None
    try:
        with transaction.atomic():
            _check_is_free(dataset, name)
            branch = Branch.objects.create(dataset=dataset, name=name, head=head)
            records.note_change(dataset.pk)
            audit.record(actor, "datasets.create_branch", branch, project_id=dataset.project_id, dataset=dataset.name)
    except IntegrityError as error:
        raise _taken(dataset, name) from error
    return branch


@transaction.atomic
def delete_branch(*, actor: Actor, dataset: Dataset, name: str) -> None:
    """Delete a branch; its commits stay. Raises ReferenceNotFound and DefaultBranchKept."""
    require(actor, permissions.MANAGE_BRANCHES, dataset.project_id)
    # Held, so that the branch does not become the default one meanwhile.
    held = Dataset.objects.select_for_update().only("default_branch").get(pk=dataset.pk)
    branch = Branch.objects.filter(dataset=dataset, name=name).first()
    if branch is None:
        raise ReferenceNotFound(f"{dataset.name} has no branch called '{name}'.")
    if name == held.default_branch:
        raise DefaultBranchKept(f"'{name}' is the default branch of {dataset.name} and cannot be deleted.")
    audit.record(
        actor,
        "datasets.delete_branch",
        branch,
        project_id=dataset.project_id,
        dataset=dataset.name,
        head=branch.head_id,
    )
    branch.delete()
    records.note_change(dataset.pk)


def create_tag(*, actor: Actor, dataset: Dataset, name: str, commit: Commit) -> Tag:
    """Give a commit a name that stays. Raises InvalidLabel and NameTaken."""
    require(actor, permissions.MANAGE_BRANCHES, dataset.project_id)
    check_label(name)
    try:
        with transaction.atomic():
            _check_is_free(dataset, name)
            tag = Tag.objects.create(dataset=dataset, name=name, commit=commit)
            records.note_change(dataset.pk)
            audit.record(
                actor,
                "datasets.create_tag",
                tag,
                project_id=dataset.project_id,
                dataset=dataset.name,
                commit=commit.id,
            )
    except IntegrityError as error:
        raise _taken(dataset, name) from error
    return tag


@transaction.atomic
def delete_tag(*, actor: Actor, dataset: Dataset, name: str) -> None:
    """Delete a tag; its commit stays. Raises ReferenceNotFound."""
    require(actor, permissions.MANAGE_BRANCHES, dataset.project_id)
    tag = Tag.objects.filter(dataset=dataset, name=name).first()
    if tag is None:
        raise ReferenceNotFound(f"{dataset.name} has no tag called '{name}'.")
    audit.record(
        actor, "datasets.delete_tag", tag, project_id=dataset.project_id, dataset=dataset.name, commit=tag.commit_id
    )
    tag.delete()
    records.note_change(dataset.pk)


@transaction.atomic
def move_branch(*, actor: Actor, dataset: Dataset, name: str, to: Commit, expected: str | None) -> None:
    """Let a branch point to another commit of its dataset; no commit is lost, but some may have no name any more.

    Raises ReferenceNotFound, and StaleParent when the branch is not at `expected` any more.
    """
    require(actor, permissions.MANAGE_BRANCHES, dataset.project_id)
    branch = commits.get_branch(actor, dataset, name)
    if not records.move_head(branch, expected=expected, to=to):
        raise StaleParent(f"'{name}' has moved on since you read it.", head=branch.head_id, branch=name)
    audit.record(
        actor,
        "datasets.move_branch",
        branch,
        project_id=dataset.project_id,
        dataset=dataset.name,
        before=expected,
        after=to.id,
    )
    send_on_commit(signals.commit_recorded, commit_id=to.id)


def _check_is_free(dataset: Dataset, name: str) -> None:
    # One name for two things would make a reference mean the branch and hide the tag.
    Dataset.objects.select_for_update().get(pk=dataset.pk)
    is_taken = (
        Branch.objects.filter(dataset=dataset, name=name).exists()
        or Tag.objects.filter(dataset=dataset, name=name).exists()
    )
    if is_taken:
        raise _taken(dataset, name)
    if may_be_commit(name) and Commit.objects.filter(dataset=dataset, id__startswith=name).exists():
        raise NameTaken(f"A commit of {dataset.name} begins with '{name}', and the name would go before it.")


def _taken(dataset: Dataset, name: str) -> NameTaken:
    return NameTaken(f"{dataset.name} has a branch or a tag called '{name}' already.")
