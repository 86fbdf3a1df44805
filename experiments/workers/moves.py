"""Moving what the first release stored, in a folder of files by content hash, into the store of trees.

Repeatable: an experiment that was moved has no rows of artifacts any more. Until then its files are read where they
are, also those of an experiment that cannot be moved; its run says why. The folder's files stay; whoever runs the
platform may delete them when all experiments are moved.
"""

import os
from functools import partial

from django.db.models import QuerySet

from compute.workers import outputs
from core import isolation
from experiments.adapters import artifact_folder
from experiments.errors import ArtifactsNotMovable
from experiments.models import Artifact, Experiment
from experiments.selectors import failures

_AT_ONCE = 100
_NAMED = 3


def find_old() -> list[QuerySet[Artifact]]:
    """Return the rows of artifacts that are still to be moved."""
    return [Artifact.objects.filter(experiment__job__isnull=False)]


def move_artifacts(*, limit: int = _AT_ONCE) -> None:
    """Move the artifacts of some experiments."""
    if artifact_folder.may_be_elsewhere():
        return
    (old,) = find_old()
    rows = Experiment.objects.filter(pk__in=old.order_by().values("experiment").distinct()).order_by("pk")
    isolation.for_each(failures.MOVE_ARTIFACTS, isolation.take(failures.MOVE_ARTIFACTS, rows, limit), _move)


def _move(experiment: Experiment) -> None:
    """Move the artifacts of one experiment. Raises ArtifactsNotMovable, and then they stay where they are."""
    job = experiment.job
    assert job is not None  # noqa: S101 (the query asks for it)
    rows = sorted(Artifact.objects.filter(experiment=experiment), key=lambda row: os.fsencode(row.path))
    for row in rows:
        if fault := outputs.find_fault(os.fsencode(row.path)):
            raise ArtifactsNotMovable(f"{fault} The outputs stay in the old folder, where they can be read.")
    lost = [row.path for row in rows if not artifact_folder.is_whole(row.content_hash)]
    if len(lost) == len(rows):
        raise ArtifactsNotMovable("None of the outputs is in the old folder 'artifacts' of the platform's home folder.")
    at_ns = int((experiment.finished_at or experiment.created_at).timestamp()) * 10**9
    files = [
        outputs.SourceFile(
            os.fsencode(row.path), 0o644, row.size_bytes, at_ns, partial(artifact_folder.open_content, row.content_hash)
        )
        for row in rows
        if row.path not in lost
    ]
    fault = experiment.artifacts_error
    if lost:
        fault = f"{fault} Gone or damaged in the old folder: {', '.join(lost[:_NAMED])}.".strip()
    outputs.store_files(job, files, left_out=fault)
    Experiment.objects.filter(pk=experiment.pk).update(artifacts_error=fault)
    Artifact.objects.filter(pk__in=[row.pk for row in rows]).delete()
