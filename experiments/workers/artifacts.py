"""Storing what succeeded jobs left in their output folders, by content hash.

A run counts as finished only when this is done; its later steps do not wait for it, because they read the folders.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from django.db import transaction
from django.db.models import QuerySet

from compute.errors import ResourceUnreachable
from compute.selectors import jobs as job_selectors
from compute.services.jobs import OutputReader
from core import globs, isolation
from core.models import Failure
from experiments import signals
from experiments.adapters.artifact_folder import artifact_store
from experiments.models import Artifact, Experiment
from experiments.selectors import failures

if TYPE_CHECKING:
    from compute.models import Job

log = structlog.get_logger(__name__)

MAX_FILES = 10_000
_MAX_PATH = 1000
_AT_ONCE = 100
_MOST_TRIES = 5


@dataclass(frozen=True)
class _Outputs:
    """What became of one experiment's outputs: files whose bytes are stored, and what went wrong, if anything."""

    experiment_id: str
    rows: Sequence[Artifact]
    fault: str


def find_unstored() -> list[QuerySet[Experiment]]:
    """Return the experiments whose outputs are still to be stored."""
    return [Experiment.objects.filter(artifacts_wanted=True)]


def store_artifacts(run_id: str | None = None) -> None:
    """Store the outputs that are still to be stored, of one run or of all."""
    (waiting,) = find_unstored()
    if run_id is not None:
        waiting = waiting.filter(run_id=run_id)
    rows = list(waiting.only("run_id", "job_id", "output_patterns").order_by("run_id", "pk"))
    jobs = job_selectors.list_by_id([row.job_id for row in rows if row.job_id is not None])
    batch: list[_Outputs] = []
    runs = set()

    def store(experiment: Experiment) -> None:
        batch.append(_store(experiment, jobs.get(experiment.job_id or "")))
        runs.add(experiment.run_id)
        if len(batch) >= _AT_ONCE or sum(len(item.rows) for item in batch) >= MAX_FILES:
            _write_all(batch)
            batch.clear()

    isolation.for_each(
        failures.STORE_OUTPUTS,
        rows,
        store,
        on_failure=lambda experiment, failure: _give_up(experiment.pk, failure),
    )
    _write_all(batch)
    for done in sorted(runs):
        signals.outputs_stored.send(sender=None, run_id=done)


def _write_all(batch: Sequence[_Outputs]) -> None:
    isolation.in_batch(
        failures.RECORD_OUTPUTS,
        batch,
        _write,
        key=lambda item: item.experiment_id,
        on_failure=lambda item, failure: _give_up(item.experiment_id, failure),
    )


def _give_up(experiment_id: str, failure: Failure) -> None:
    """Let a run end whose outputs could not be kept again and again."""
    if failure.attempts < _MOST_TRIES:
        return
    fault = f"The outputs were given up after {failure.attempts} tries: {failure.error}, log id {failure.pk}."
    waiting = Experiment.objects.filter(pk=experiment_id, artifacts_wanted=True)
    run_id = waiting.values_list("run_id", flat=True).first()
    if run_id is not None and waiting.update(artifacts_wanted=False, artifacts_error=fault):
        signals.outputs_stored.send(sender=None, run_id=run_id)
    isolation.forget(failure.kind, [experiment_id])


def _store(experiment: Experiment, job: "Job | None") -> _Outputs:
    rows, fault = [], ""
    try:
        if job is not None:
            output = job_selectors.open_output(job)
            rows = _store_files(output, experiment)
            # Asked after reading: what was changed before or while it was read is not what the step left.
            if output.host_folder is not None and (changed := _find_changed(experiment.run_id, output.host_folder)):
                fault = f"Changed after the step had ended, so not kept: {', '.join(sorted(changed)[:3])}."
                rows = [row for row in rows if row.path not in changed]
    except (OSError, ResourceUnreachable) as error:
        fault = f"The outputs could not be kept: {error}"
        log.warning("artifacts.failed", experiment=experiment.pk, error=str(error))
    if len(rows) >= MAX_FILES:
        fault = f"More than {MAX_FILES} files; only the first ones were kept."
    return _Outputs(experiment.pk, rows, fault)


def _find_changed(run_id: str, folder: Path) -> set[str]:
    answers: Any = signals.outputs_read.send(sender=None, run_id=run_id, folder=folder)
    return {path for _, paths in answers for path in paths}


@transaction.atomic
def _write(batch: Sequence[_Outputs]) -> None:
    """Record what was stored of each experiment. A second writer finds nothing left to do."""
    rows = Experiment.objects.select_for_update().filter(pk__in=[item.experiment_id for item in batch])
    waiting = set(rows.filter(artifacts_wanted=True).order_by("pk").values_list("pk", flat=True))
    done = [item for item in batch if item.experiment_id in waiting]
    artifacts = [row for item in done for row in item.rows]
    Artifact.objects.bulk_create(artifacts, batch_size=500, ignore_conflicts=True)
    Experiment.objects.filter(pk__in=[item.experiment_id for item in done if item.rows]).update(is_recorded=True)
    for fault in {item.fault for item in done}:
        stored = Experiment.objects.filter(pk__in=[item.experiment_id for item in done if item.fault == fault])
        stored.update(artifacts_wanted=False, artifacts_error=fault)


def _store_files(output: OutputReader, experiment: Experiment) -> list[Artifact]:
    store = artifact_store()
    rows = []
    for file in output.list_files():
        name = file.path
        if len(name) > _MAX_PATH or not _is_text(name) or not globs.matches_any(name, experiment.output_patterns):
            continue
        with output.open(name) as content:
            content_hash, size_bytes = store.keep_file(content)
        rows.append(Artifact(experiment=experiment, path=name, size_bytes=size_bytes, content_hash=content_hash))
        if len(rows) >= MAX_FILES:
            break
    return rows


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in name
