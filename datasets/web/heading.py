"""What stands above every page of one dataset: its name, its size, the ways to get it and to add to it, the tabs."""

from accounts.permissions import Actor, Level
from datasets.models import CommitSource, Dataset
from datasets.selectors import commits, datasets, sources
from datasets.selectors.damage import get_damage

_MOST_REFERENCES = 200


def of(actor: Actor, dataset: Dataset, *, tab: str, ref: str = "") -> dict[str, object]:
    """Return what the heading's template needs. `ref` is what the page shows; files are added to it if it is a branch.

    `refs` are the names that a commit can be chosen by: the first 200 branches and tags.
    """
    branches = list(commits.list_branches(actor, dataset).order_by("name").values_list("name", flat=True))
    newest = datasets.newest_commit_of(dataset)
    tags = list(commits.list_tags(actor, dataset).order_by("name").values_list("name", flat=True))
    return {
        "dataset": dataset,
        "project_name": dataset.project.name,
        "reference": f"{dataset.project.name}/{dataset.name}",
        "newest": newest,
        # A page of one commit puts that here.
        "cacheable": newest,
        "damage": get_damage(actor, dataset, newest),
        "tab": tab,
        "ref": ref,
        # What queries selected is on no branch.
        "commit_count": dataset.commits.exclude(source=CommitSource.QUERY).count(),
        "query_count": dataset.queries.count(),
        "import_count": dataset.imports.count(),
        "may_import": sources.list_sources_for(actor=actor, project=dataset.project).exists(),
        "name_count": len(branches) + len(tags),
        "refs": {"branches": branches[:_MOST_REFERENCES], "tags": tags[:_MOST_REFERENCES]},
        "upload_branch": ref if ref in branches else dataset.default_branch,
        "may_write": (actor.level_in(dataset.project_id) or 0) >= Level.WRITE,
        "may_delete": actor.level_in(dataset.project_id) == Level.ADMIN,
    }
