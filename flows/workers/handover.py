"""What steps hand to their children: what they measured, and their outputs, unchanged.

Outputs are sealed when their step succeeds, and looked at wherever used. A step whose inputs were changed while it
could read them fails, whatever its command says. Where the stored artifact has the content, a changed file is put right
before anybody reads it again. The sandbox of jobs keeps inputs from being changed at all; this finds what was changed
where there is none, and by other hands.
"""

import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import structlog
from blake3 import blake3
from django.conf import settings
from django.db.models import F, QuerySet

from compute.selectors import jobs as job_selectors
from compute.selectors import templates
from compute.selectors.states import JobState, OutputState
from compute.services.jobs import HostFolder, Mount, Tree
from core import hosts, leases
from core.prepared import prepared
from core.removals import remove
from core.sealed_folder import Difference, SealedFolder
from datasets.errors import BlobMissing, ContentCorrupt
from datasets.workers import scrubs
from experiments.errors import ArtifactNotFound
from experiments.selectors import artifacts, recorded
from experiments.workers import artifacts as artifact_storing
from flows.engine.expressions import Value
from flows.engine.states import FailureKind
from flows.models import Attempt, Run
from flows.selectors import specs

log = structlog.get_logger(__name__)

_NAMED = 3
_PIECE_BYTES = 1 << 20


class NewestAttempt(NamedTuple):
    """The last try of an instance of a step."""

    id: str
    step_index: int
    job_id: str | None
    state: str
    has_job_succeeded: bool


def newest_attempts(run_id: str, key: str) -> Sequence[NewestAttempt]:
    """Return the newest attempt of each instance of a step, by index."""
    return [NewestAttempt(*row) for row in _newest(run_id, key)]


def find_measured(
    run_id: str, key: str, attempts: Sequence[NewestAttempt] | None = None
) -> dict[int, Mapping[str, Value]]:
    """Return, for each instance of a step that succeeded, its tags and the last values of its metrics.

    `attempts` are its newest ones, where they are known.
    """
    newest = {each.id: each for each in (newest_attempts(run_id, key) if attempts is None else attempts)}
    # A job's success is the step's, as soon as its log is read; the step itself may be settled by the very next plan.
    return {
        each.step_index: each.values
        for each in recorded.of_step(run_id=run_id, step_key=key)
        if (attempt := newest.get(each.source_id)) is not None
        and (attempt.state == "succeeded" or (attempt.has_job_succeeded and each.is_read))
    }


@prepared
def _newest(run_id: str, key: str) -> QuerySet[Attempt, tuple[str, int, str | None, str, bool]]:
    newest = Attempt.objects.filter(run=run_id, step__key=key, number=F("step__attempt_count")).order_by("step__index")
    return newest.values_list("pk", "step__index", "job_id", "state", job_selectors.is_in({JobState.SUCCEEDED}))


class Fault(NamedTuple):
    """Why the success of a job does not count."""

    failure: FailureKind
    reason: str


def inspect_ended(run: Run, attempts: Iterable[Attempt], jobs: Mapping[str, Any]) -> Mapping[str, Fault]:
    """Seal the outputs of attempts whose jobs have succeeded, and return why others cannot count, by attempt.

    Called before their success is recorded, so that nothing reads outputs that are not sealed. `jobs` are theirs, by
    id; attempts whose jobs are not among them have not ended.
    """
    inspection, read_in_store = _Inspection(run.pk), _find_read_in_store(run)
    faults: dict[str, Fault] = {}
    for attempt in attempts:
        job = jobs.get(str(attempt.job_id))
        if job is None or job.state != JobState.SUCCEEDED or job.resource.is_simulated:
            continue
        # Of one that was given up with its host nothing is left but what the store has.
        has_files = job.files_deleted_at is None
        if has_files and (fault := inspection.find_fault(attempt, job)):
            log.warning("inputs.changed", attempt=attempt.pk, fault=fault)
            faults[attempt.pk] = Fault(FailureKind.INPUT_CHANGED, fault)
            continue
        source = job_selectors.open_output(job).source if has_files else None
        if source is not None:
            _sealed(run.pk, source).seal()
        if job.output_state != OutputState.STORED and (source is None or attempt.step.key in read_in_store):
            artifact_storing.store_output_of(job)
            job.refresh_from_db(fields=["output_state", "output_root", "output_files", "output_error"])
            if job.output_state == OutputState.FAILED:
                faults[attempt.pk] = Fault(FailureKind.OUTPUT_LOST, job.output_error)
    return faults


def _find_read_in_store(run: Run) -> set[str]:
    """Return the steps whose next ones may start where this host's folders cannot be mounted: these read the store."""
    graph = specs.graph_of_run(run)
    if len({name.partition(".")[0] for name in graph.templates}) == 1:  # what ran there is read there
        return set()
    known = specs.find_templates(run).items()
    far = {name for name, template in known if not templates.reads_folders(template, hosts.this_host())}
    readers = (node for node in graph.nodes if not far.isdisjoint(choice.template for choice in node.choices))
    return {parent for node in readers for parent in node.after}


def find_changed_outputs(run_id: str, source: HostFolder) -> tuple[str, ...]:
    """Return which outputs in a folder look different from how their step left them."""
    return _sealed(run_id, source).compare().paths


def restore_outputs(run_id: str, outputs: Mapping[str, HostFolder]) -> None:
    """Put changed outputs right, from their stored artifacts, before they are read: folders by job.

    What is not stored stays as it is; a step that reads it fails.
    """
    for job_id, source in outputs.items():
        sealed = _sealed(run_id, source)
        if not (difference := _find_change(sealed, job_id)).paths:
            continue
        hashes = artifacts.hashes_of(job_id)
        is_restored = [
            path in hashes and _restore(job_id, sealed.folder, path, hashes[path]) for path in difference.changed
        ]
        for path in difference.added:
            remove(sealed.folder / path)
        log.warning("outputs.restored", run=run_id, job=job_id, paths=difference.paths[:_NAMED], of=is_restored)
        if all(is_restored):
            sealed.seal_again()


class _Inspection:
    """Compares the inputs of several attempts with their records. A folder that many of them read is compared once."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._changes: dict[Path, tuple[str, ...]] = {}

    def find_fault(self, attempt: Attempt, job: Any) -> str:
        """Return what was wrong with what an attempt's job could read; empty when nothing was."""
        for name, prefix, sealed in self._inputs_of(job):
            if changed := self._find_changed(sealed):
                return (
                    f"Its {name} was changed while this step could read it: "
                    f"{_name([prefix + path for path in changed])}. "
                    "A retry reads it as it is stored; what is not stored comes from a retry of the step that wrote it."
                )
            put_right_at = sealed.put_right_at()
            if job.started_at is not None and put_right_at is not None and put_right_at > job.started_at:
                return f"Its {name} was changed and put right while this step ran, so it may have read something else."
        # Where jobs have a sandbox, cached commits are mounted read-only; comparing a million files is spared then.
        return self._find_damage(attempt, job) if job.resource.unconfined_reason else ""

    def _find_damage(self, attempt: Attempt, job: Any) -> str:
        for row in attempt.inputs.exclude(cached_commit_id="").order_by("name"):
            since = job.started_at or attempt.created_at
            if changed := scrubs.heal_changes(cached_commit_id=row.cached_commit_id, since=since):
                return (
                    f"Its dataset '{row.name}' was changed while this step could read it: {_name(changed)}. "
                    "A retry reads it as the commit has it."
                )
        return ""

    def _inputs_of(self, job: Any) -> Iterator[tuple[str, str, SealedFolder]]:
        """Yield what a job could read on this host: what it is called, where in it each folder lies, and the folder."""
        inputs, code = job_selectors.list_inputs(job)
        for mount in inputs:
            step, slash, index = mount.name.partition("/")
            if (sealed := self._sealed_of(job, mount)) is not None:
                yield f"input '{step}'", index + slash, sealed
        if code is not None and (sealed := self._sealed_of(job, code)) is not None:
            yield "code", "", sealed

    def _sealed_of(self, job: Any, mount: Mount) -> SealedFolder | None:
        if isinstance(mount.source, HostFolder):
            return _sealed(self._run_id, mount.source)
        sealed = job_selectors.find_tree_folder(job, mount.source) if isinstance(mount.source, Tree) else None
        return None if sealed is None else replace(sealed, before_each=leases.keep)

    def _find_changed(self, sealed: SealedFolder) -> tuple[str, ...]:
        if sealed.folder not in self._changes:
            difference = sealed.compare()
            if difference.paths and (job_id := self._job_of(sealed.folder)):
                difference = _find_change(sealed, job_id)
            self._changes[sealed.folder] = difference.paths
        return self._changes[sealed.folder]

    def _job_of(self, folder: Path) -> str:
        """Return which job of the run wrote to a folder; empty for none."""
        job_ids = Attempt.objects.filter(run=self._run_id, job__isnull=False).values_list("job_id", flat=True)
        outputs = job_selectors.open_outputs([str(job_id) for job_id in job_ids])
        source = HostFolder(os.fspath(folder))
        return next((job_id for job_id, reader in outputs.items() if reader.source == source), "")


def _find_change(sealed: SealedFolder, job_id: str) -> Difference:
    """Return what was changed in a job's outputs: what looks different, and is not what was stored."""
    difference = sealed.compare()
    hashes = artifacts.hashes_of(job_id) if difference.paths else {}
    same = {path for path in difference.changed if path in hashes and _hash(sealed.folder / path) == hashes[path]}
    if same:
        sealed.accept(same)
    return Difference(tuple(path for path in difference.changed if path not in same), difference.added)


def run_folder(run_id: str) -> Path:
    """Return the folder for what a run needs on this host besides its jobs' own folders. It may not exist yet."""
    return _folder_in(settings.NEARLINE.home, run_id)


@lru_cache(maxsize=64)
def _folder_in(home: Path, run_id: str) -> Path:
    return Path(home, "runs", run_id).absolute()


def _sealed(run_id: str, source: HostFolder) -> SealedFolder:
    name = hashlib.sha256(os.fsencode(source.path)).hexdigest()[:32]
    return SealedFolder(Path(source.path), Path(f"{run_folder(run_id)}/seals/{name}.json"), leases.keep)


def _hash(path: Path) -> str:
    """Return the hash of a plain file; nothing for what is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    hasher = blake3()
    with os.fdopen(descriptor, "rb") as file:
        while piece := file.read(_PIECE_BYTES):
            leases.keep()
            hasher.update(piece)
    return hasher.hexdigest()


def _restore(job_id: str, folder: Path, name: str, content_hash: str) -> bool:
    """Write stored content where it was; say whether it is that content."""
    path = folder / name
    draft = path.with_name(f".{secrets.token_hex(8)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with draft.open("wb") as file:
            for piece in artifacts.read_output(job_id, name):
                file.write(piece)
        if _hash(draft) != content_hash:
            return False
        remove(path)
        draft.replace(path)
    except (ArtifactNotFound, ContentCorrupt, BlobMissing):
        return False
    finally:
        draft.unlink(missing_ok=True)
    return True


def _name(paths: Sequence[str]) -> str:
    others = len(paths) - _NAMED
    return ", ".join(paths[:_NAMED]) + (f" and {others} more" if others > 0 else "")
