"""Having the outputs of succeeded jobs stored, and noting what they left in their experiments.

A run counts as finished only when this is done; its later steps do not wait for it, because they read the folders.
Nor does a run wait for ever: what could not be stored for long has an `artifacts_error` from then on, and is stored
once that is possible. Until then the files of its job are kept.
"""

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet

from compute.errors import ResourceUnreachable
from compute.selectors import jobs as job_selectors
from compute.services.jobs import HostFolder
from compute.workers import outputs
from compute.workers.outputs import SourceFile
from core import clock, hosts, isolation, leases
from core.models import Failure
from datasets.errors import StoreUnreachable
from experiments import signals
from experiments.models import Experiment
from experiments.selectors import failures

if TYPE_CHECKING:
    from compute.models import Job

_MOST_TRIES = 5
# A store or a resource that is away loses nothing: the files are where the job left them. Tries are ten minutes apart
# then, and after a day the run ends without them.
_MOST_TRIES_AWAY = 150
# So long after its end the files of a job are kept whose outputs cannot be stored for another reason.
_KEEP = timedelta(days=7)
_CLAIM = "output:"
# What is stored in less than a moment is stored before anybody else looks for it: only what takes longer is claimed.
_MOMENT_S, _LARGE_BYTES = 0.5, 32 << 20
_LEASE_S, _RENEW_EVERY_S = 900.0, 30.0


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
    # An output in a folder of another host is stored there, if it is there.
    elsewhere = {
        job.pk for job in jobs.values() if job.files_deleted_at is None and not hosts.is_here(job.resource.host)
    }
    rows = [row for row in rows if row.job_id not in elsewhere]
    claimed = leases.find_held(_CLAIM) if rows else set()
    rows = [row for row in rows if _CLAIM + row.pk not in claimed]
    away: set[str] = set()

    def store(experiment: Experiment) -> str:
        try:
            _store(experiment, jobs.get(experiment.job_id or ""))
        except (StoreUnreachable, ResourceUnreachable):
            away.add(experiment.pk)
            raise
        return experiment.run_id

    def give_up(experiment: Experiment, failure: Failure) -> None:
        is_away, job = experiment.pk in away, jobs.get(experiment.job_id or "")
        is_old = job is None or job.finished_at is None or clock.now() - job.finished_at > _KEEP
        if failure.attempts < (_MOST_TRIES_AWAY if is_away else _MOST_TRIES):
            return
        if is_old and not is_away:
            _give_up(experiment.pk, failure)
        else:
            _let_run_end(experiment.pk, failure)

    run_ids = isolation.for_each(failures.STORE_OUTPUTS, rows, store, on_failure=give_up)
    for done in sorted(filter(None, set(run_ids))):
        signals.outputs_stored.send(sender=None, run_id=done)


def store_output_of(job: "Job") -> None:
    """Store the output of a job whose success is not recorded yet, for steps that cannot read its folder."""
    experiment = Experiment.objects.filter(job=job.pk).only("run_id", "output_patterns").first()
    if experiment is not None:
        outputs.store_output(
            job,
            patterns=experiment.output_patterns,
            find_changed=partial(_find_changed, experiment.run_id),
            before_each=lambda _: leases.keep(),
        )


def _store(experiment: Experiment, job: "Job | None") -> None:
    """Store one output and note that in one statement. A second worker finds nothing left to do."""
    changes: dict[str, object] = {"artifacts_wanted": False}
    if job is not None:
        claim = _Claim(experiment.pk)
        try:
            output = outputs.store_output(
                job,
                patterns=experiment.output_patterns,
                find_changed=partial(_find_changed, experiment.run_id),
                before_each=claim.keep,
            )
        except _StoredElsewhere:
            return
        finally:
            claim.release()
        changes["artifacts_error"] = output.error
        if output.files:
            changes["is_recorded"] = True
    Experiment.objects.filter(pk=experiment.pk, artifacts_wanted=True).update(**changes)


class _StoredElsewhere(Exception):
    """Another worker has claimed an output."""


class _Claim:
    """Keeps other workers from storing an output too, once that takes longer than a moment."""

    def __init__(self, experiment_id: str) -> None:
        self._name, self._token = _CLAIM + experiment_id, leases.new_token()
        self._due_at = clock.monotonic() + _MOMENT_S
        self._is_held = False

    def keep(self, file: SourceFile) -> None:
        """Take or renew the claim before a file is read, if that is due. Raises _StoredElsewhere."""
        now = clock.monotonic()
        if now < self._due_at and (self._is_held or file.size_bytes < _LARGE_BYTES):
            return
        if not leases.take_named(self._name, holder=self._token, for_s=_LEASE_S):
            raise _StoredElsewhere
        self._is_held, self._due_at = True, now + _RENEW_EVERY_S

    def release(self) -> None:
        """Let go of what was claimed."""
        if self._is_held:
            leases.end_named(self._name, holder=self._token)


def _let_run_end(experiment_id: str, failure: Failure) -> None:
    """Let a run end whose outputs could not be stored again and again. They are tried again all the same."""
    _tell(
        experiment_id,
        f"The outputs are not stored yet, after {failure.attempts} tries: {failure.error.rstrip('.')}, "
        f"log id {failure.pk}. They are tried again every 10 minutes, and the files of the job are kept.",
        is_wanted=True,
    )


def _give_up(experiment_id: str, failure: Failure) -> None:
    """Try no more to store outputs that could not be stored for days, though all that it takes answers."""
    fault = f"The outputs were given up after {failure.attempts} tries: {failure.error}, log id {failure.pk}."
    _tell(experiment_id, fault, is_wanted=False)
    isolation.forget(failure.kind, [experiment_id])


def _tell(experiment_id: str, fault: str, *, is_wanted: bool) -> None:
    """Say why outputs are not stored, where that is not said yet, and let their run end without them."""
    waiting = Experiment.objects.filter(pk=experiment_id, artifacts_wanted=True)
    untold = waiting.filter(artifacts_error="") if is_wanted else waiting
    row = untold.only("run_id", "job_id").first()
    if row is not None and untold.update(artifacts_wanted=is_wanted, artifacts_error=fault):
        outputs.give_up_output(str(row.job_id), fault)
        if row.run_id:
            signals.outputs_stored.send(sender=None, run_id=row.run_id)


def _find_changed(run_id: str, source: HostFolder | None) -> set[str]:
    if source is None:
        return set()
    answers: Any = signals.outputs_read.send(sender=None, run_id=run_id, source=source)
    return {path for _, paths in answers for path in paths}
