"""Keeping what succeeded attempts left in their output folders, by content hash.

A run counts as finished only when this is done; its later steps do not wait for it, because they read the folders.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog
from django.db import transaction

from compute.errors import ResourceUnreachable
from compute.selectors import jobs as job_selectors
from compute.services.jobs import OutputReader
from core import clock, isolation, tasks
from core.models import Failure
from flows.adapters.artifact_folder import artifact_store
from flows.engine import globs
from flows.engine.states import STEP_ENDS
from flows.models import Artifact, Experiment, Run, Step
from flows.selectors import failures, specs
from flows.workers import handover

log = structlog.get_logger(__name__)

MAX_FILES = 10_000
_MAX_PATH = 1000
_AT_ONCE = 100
_MOST_TRIES = 5


@dataclass(frozen=True)
class _Kept:
    """What became of one experiment's outputs: files whose bytes are stored, and what went wrong, if anything."""

    experiment_id: str
    rows: Sequence[Artifact]
    fault: str


def store_artifacts(run_id: str | None = None) -> None:
    """Keep the outputs of all attempts, of one run or of all, that wait for it."""
    waiting = Experiment.objects.filter(artifacts_wanted=True)
    if run_id is not None:
        waiting = waiting.filter(run_id=run_id)
    rows = waiting.select_related("step", "attempt__job").prefetch_related("run", "attempt__job__resource")
    kept: list[_Kept] = []
    runs = set()

    def keep(experiment: Experiment) -> None:
        kept.append(_keep(experiment))
        runs.add(experiment.run_id)
        if len(kept) >= _AT_ONCE or sum(len(item.rows) for item in kept) >= MAX_FILES:
            _write_all(kept)
            kept.clear()

    isolation.for_each(
        failures.STORE_OUTPUTS,
        rows.defer("attempt__job__spec").order_by("pk"),
        keep,
        on_failure=lambda experiment, failure: _give_up(experiment.pk, failure),
    )
    _write_all(kept)
    for done in sorted(runs):
        _tell(done)


def _write_all(kept: Sequence[_Kept]) -> None:
    isolation.in_batch(
        failures.RECORD_OUTPUTS,
        kept,
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
        _tell(run_id)
    isolation.forget(failure.kind, [experiment_id])


def _tell(run_id: str) -> None:
    """Let a run that only waits for this come to its end; while steps are under way, their news does."""
    if not Step.objects.filter(run=run_id).exclude(state__in=sorted(STEP_ENDS)).exists():
        Run.objects.filter(pk=run_id).update(wake_at=clock.now())
        tasks.enqueue("flows.advance", run_id=run_id)


def _keep(experiment: Experiment) -> _Kept:
    job = experiment.attempt.job
    patterns = specs.spec_of(experiment.run.version_id).step(experiment.step.key).outputs
    rows, fault = [], ""
    try:
        if job is not None:
            output = job_selectors.open_output(job)
            rows = _keep_all(output, experiment, patterns)
            # Asked after reading: what was changed before or while it was read is not what the step left.
            if changed := set(handover.find_changed_outputs(experiment.run_id, output.host_folder)):
                fault = f"Changed after the step had ended, so not kept: {', '.join(sorted(changed)[:3])}."
                rows = [row for row in rows if row.path not in changed]
    except (OSError, ResourceUnreachable) as error:
        fault = f"The outputs could not be kept: {error}"
        log.warning("artifacts.failed", experiment=experiment.pk, error=str(error))
    if len(rows) >= MAX_FILES:
        fault = f"More than {MAX_FILES} files; only the first ones were kept."
    return _Kept(experiment.pk, rows, fault)


@transaction.atomic
def _write(kept: Sequence[_Kept]) -> None:
    """Note what was kept of each experiment. Whoever comes second finds nothing left to do."""
    waiting = Experiment.objects.select_for_update().filter(pk__in=[item.experiment_id for item in kept])
    still = set(waiting.filter(artifacts_wanted=True).order_by("pk").values_list("pk", flat=True))
    done = [item for item in kept if item.experiment_id in still]
    rows = [row for item in done for row in item.rows]
    Artifact.objects.bulk_create(rows, batch_size=500, ignore_conflicts=True)
    Experiment.objects.filter(pk__in=[item.experiment_id for item in done if item.rows]).update(is_recorded=True)
    for fault in {item.fault for item in done}:
        told = Experiment.objects.filter(pk__in=[item.experiment_id for item in done if item.fault == fault])
        told.update(artifacts_wanted=False, artifacts_error=fault)


def _keep_all(output: OutputReader, experiment: Experiment, patterns: Sequence[str]) -> list[Artifact]:
    store = artifact_store()
    rows = []
    for file in output.list_files():
        name = file.path
        if len(name) > _MAX_PATH or not _is_text(name) or not globs.matches_any(name, patterns):
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
