"""What steps left, kept as versions of datasets."""

from dataclasses import dataclass

from accounts.permissions import Actor, require
from datasets.errors import DatasetNotFound
from datasets.selectors import datasets as dataset_selectors
from datasets.selectors import trees as tree_selectors
from datasets.services import datasets, trees
from flows import permissions
from flows.errors import OutputNotStored
from flows.models import Run
from flows.selectors import runs as run_selectors


@dataclass(frozen=True)
class KeptOutput:
    """The commit that an output became."""

    dataset: str
    branch: str
    commit: str
    files: int
    size_bytes: int


def keep_output(
    *,
    actor: Actor,
    run: Run,
    step: str,
    index: int | None = None,
    dataset: str,
    message: str = "",
    creates: bool = False,
    allow_collisions: bool = False,
) -> KeptOutput:
    """Make the output of a step the newest version of a dataset of the run's project. No content is copied.

    The version holds the output's files and no others. `index` names one try of a grid. `creates`: a dataset that does
    not exist is created. Raises RunNotFound for a step that the run does not have, StepAmbiguous, OutputNotStored,
    DatasetNotFound, and what `trees.commit_tree` raises.
    """
    require(actor, permissions.KEEP_OUTPUT, run.project_id)
    label = run_selectors.get_step(actor=actor, run=run, key=step, index=index).label
    attempt = run_selectors.get_attempt(actor=actor, run=run, key=step, index=index)
    job = attempt.job if attempt is not None else None
    if job is not None and job.left_nothing:
        raise OutputNotStored(f"'{label}' of run #{run.number} left no file in its output folder.", step=step)
    if job is None or not job.output_root:
        raise OutputNotStored(f"The store holds no output of '{label}' of run #{run.number}.", step=step)
    name = dataset.removeprefix(f"{run.project.name}/")
    try:
        target = dataset_selectors.get_dataset(actor=actor, project=run.project.name, name=name)
    except DatasetNotFound:
        if not creates:
            raise
        target = datasets.create_dataset(actor=actor, project=run.project, name=name)
    commit = trees.commit_tree(
        actor=actor,
        tree=tree_selectors.get_tree_of(actor, run.project_id, job.output_root),
        dataset=target,
        branch=target.default_branch,
        message=message or f"Output of {label} in {run.flow.name} #{run.number}",
        allow_collisions=allow_collisions,
    )
    return KeptOutput(
        f"{run.project.name}/{target.name}", target.default_branch, commit.pk, commit.files, commit.size_bytes
    )
