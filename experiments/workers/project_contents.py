"""The experiments of deleted projects. The jobs behind them are stopped by the app that runs these."""

from accounts import project_contents
from accounts.models import Project
from accounts.project_contents import ProjectContents, first_ids, remove_first
from experiments.models import Experiment, FactKey, SavedView
from experiments.selectors.project_contents import describe
from experiments.workers import deletions


def _stop(_project: Project) -> None:
    """Nothing runs here."""


def _remove(project_id: str) -> bool:
    # What was deleted before has an index of its own.
    (deleted,) = deletions.find_deleted()
    shown = Experiment.objects.filter(project=project_id, deleted_at=None)
    ids = first_ids(shown) or first_ids(deleted.filter(project=project_id))
    return deletions.remove_batch(ids) or remove_first(
        FactKey.objects.filter(project=project_id), SavedView.objects.filter(project=project_id)
    )


project_contents.add(ProjectContents("experiments", describe, _stop, _remove))
