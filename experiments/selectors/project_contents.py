"""What becomes of a project's experiments when it is deleted, and of those elsewhere that read its datasets."""

from accounts.models import Project
from accounts.permissions import Actor
from accounts.project_contents import Effect
from core.units import count_of
from experiments.engine.columns import Kind
from experiments.models import Experiment, Fact


def describe(*, actor: Actor, project: Project) -> list[Effect]:  # noqa: ARG001 (others' are counted only)
    """Return what a deletion does to them."""
    own = Experiment.objects.filter(project=project, deleted_at=None).count()
    reads = Fact.objects.filter(kind=Kind.DATA, key__startswith=f"{project.name}/", experiment__deleted_at=None)
    others = reads.exclude(experiment__project=project).values("experiment").distinct().count()
    return [
        Effect("experiments", own, f"{count_of(own, 'experiment')} with metrics, artifacts and notes."),
        Effect(
            "experiments_elsewhere",
            others,
            f"{count_of(others, 'experiment')} of other projects read its datasets: their records stay, but what they "
            "did cannot be done again.",
        ),
    ]
