"""The experiments of deleted projects. The jobs behind them are stopped by the app that runs these."""

from accounts import project_contents
from accounts.models import Project
from accounts.project_contents import ProjectContents, first_ids, remove_first
from experiments.models import (
    Artifact,
    Experiment,
    Fact,
    FactKey,
    MetricLast,
    MetricPoint,
    MetricStretch,
    SavedView,
)
from experiments.selectors.project_contents import describe


def _stop(_project: Project) -> None:
    """Nothing runs here."""


def _remove(project_id: str) -> bool:
    parts = (MetricPoint, MetricStretch, MetricLast, Artifact, Fact)
    ids = first_ids(Experiment.objects.filter(project=project_id))
    return remove_first(
        *(part.objects.filter(experiment__in=ids) for part in parts),
        Experiment.objects.filter(pk__in=ids),
        FactKey.objects.filter(project=project_id),
        SavedView.objects.filter(project=project_id),
    )


project_contents.add(ProjectContents("experiments", describe, _stop, _remove))
