"""What stands above every page of one dataset: its name, its size, the ways to get it, the tabs."""

from accounts.actor import Actor
from accounts.permissions import Level
from datasets.models import Dataset
from datasets.selectors import commits, datasets

_MOST_REFERENCES = 200


def of(actor: Actor, dataset: Dataset, *, tab: str) -> dict[str, object]:
    """Return what the heading's template needs."""
    newest = datasets.newest_commit_of(dataset)
    return {
        "dataset": dataset,
        "project_name": dataset.project.name,
        "reference": f"{dataset.project.name}/{dataset.name}",
        "newest": newest,
        "tab": tab,
        "commit_count": dataset.commits.count(),
        "name_count": commits.list_branches(actor, dataset).count() + commits.list_tags(actor, dataset).count(),
        "may_write": (actor.level_in(dataset.project_id) or 0) >= Level.WRITE,
        "may_delete": actor.level_in(dataset.project_id) == Level.ADMIN,
    }


def references(actor: Actor, dataset: Dataset) -> dict[str, list[str]]:
    """Return the names that a commit can be chosen by."""
    branches = commits.list_branches(actor, dataset).order_by("name").values_list("name", flat=True)
    tags = commits.list_tags(actor, dataset).order_by("name").values_list("name", flat=True)
    return {"branches": list(branches[:_MOST_REFERENCES]), "tags": list(tags[:_MOST_REFERENCES])}
