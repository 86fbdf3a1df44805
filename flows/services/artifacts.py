"""Keeping what succeeded attempts left in their output folders, by content hash.

A run counts as finished only when this is done; its later steps do not wait for it, because they read the folders.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import structlog
from django.db import transaction

from compute.errors import ResourceUnreachable
from compute.selectors import jobs as job_selectors
from core import clock, doorbell
from flows.adapters.artifact_folder import artifact_store
from flows.engine import globs
from flows.models import Artifact, Experiment, Run
from flows.services import snapshots

log = structlog.get_logger(__name__)

MAX_FILES = 10_000
_MAX_PATH = 1000


def store_artifacts(run_id: str | None = None) -> None:
    """Keep the outputs of all attempts, of one run or of all, that wait for it."""
    waiting = Experiment.objects.filter(artifacts_wanted=True)
    if run_id is not None:
        waiting = waiting.filter(run_id=run_id)
    runs = set()
    rows = waiting.select_related("step", "run", "attempt__job__resource").defer("attempt__job__spec")
    for experiment in rows.order_by("pk"):
        _store(experiment)
        runs.add(experiment.run_id)
    for done in sorted(runs):
        Run.objects.filter(pk=done).update(wake_at=clock.now())
        doorbell.ring("flows.advance", run_id=done)


def _store(experiment: Experiment) -> None:
    job = experiment.attempt.job
    patterns = snapshots.spec_of(experiment.run.version_id).step(experiment.step.key).outputs
    rows, fault = [], ""
    try:
        if job is not None:
            rows = _keep_all(job_selectors.output_folder(job), experiment, patterns)
    except (OSError, ResourceUnreachable) as error:
        fault = f"The outputs could not be kept: {error}"
        log.warning("artifacts.failed", experiment=experiment.pk, error=str(error))
    if len(rows) >= MAX_FILES:
        fault = f"More than {MAX_FILES} files; only the first ones were kept."
    with transaction.atomic():
        # Whoever comes second finds nothing left to do.
        open_one = Experiment.objects.filter(pk=experiment.pk, artifacts_wanted=True)
        if open_one.update(artifacts_wanted=False, artifacts_error=fault):
            Artifact.objects.bulk_create(rows, batch_size=500, ignore_conflicts=True)


def _keep_all(folder: Path, experiment: Experiment, patterns: Sequence[str]) -> list[Artifact]:
    store = artifact_store()
    rows = []
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        if len(name) > _MAX_PATH or not _is_text(name) or not globs.matches_any(name, patterns):
            continue
        content_hash, size_bytes = store.keep_file(path)
        rows.append(Artifact(experiment=experiment, path=name, size_bytes=size_bytes, content_hash=content_hash))
        if len(rows) >= MAX_FILES:
            break
    return rows


def _files(folder: Path) -> Iterator[Path]:
    """Yield the plain files below a folder by name. Links are not followed: they may lead anywhere."""
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            yield from _files(Path(entry.path))
        elif entry.is_file(follow_symlinks=False):
            yield Path(entry.path)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in name
