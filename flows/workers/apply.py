"""Writing a plan: every transition of one plan in one short transaction of a few bulk statements.

The jobs of new attempts are created in the same transaction (compute keeps them in the same database), so an attempt
without its job, or a job without its attempt, cannot exist: the job's row is the outbox.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import Any

from django.db import models, transaction
from django.db.models import F, Max, OuterRef, QuerySet, Subquery

from accounts.permissions import Actor
from compute.services import jobs
from compute.services.jobs import Gate, JobRequest
from core import clock, leases, orm, tasks
from core.orm import MomentById
from core.prepared import insert, prepared
from core.tasks import send_on_commit
from experiments.services import experiments
from experiments.services.experiments import Field, Labels, NewExperiment
from flows import signals
from flows.engine import names, planner
from flows.engine.spec import DataInput
from flows.engine.states import STEP_ENDS, AttemptState, RunState, StepState
from flows.engine.transitions import (
    Bring,
    BringNext,
    Cancel,
    End,
    Finish,
    Observe,
    ReleaseData,
    Remind,
    Requeue,
    Reset,
    Settle,
    Start,
    Submit,
    Supersede,
    Transition,
)
from flows.errors import LeaseLost
from flows.models import Attempt, AttemptInput, Run, RunEvent, Step
from flows.workers import job_specs, known_runs, next_data
from flows.workers.job_specs import JobSpecs
from flows.workers.snapshots import Loaded

_SYSTEM = Actor.system("flow runs")
# How long a worker may take from one write of a run to the next, in seconds.
LEASE_S = 5.0
_LOST = "Another worker goes on with this run."
_MOST_NAMED = 3
_FEW_ROWS = 10
_MOMENTS = frozenset({"started_at", "finished_at"})
# Whoever stores outputs tells the run; this finds what was told to nobody.
_STORING_POLL = timedelta(seconds=10)


def apply(
    loaded: Loaded,
    transitions: Sequence[Transition],
    *,
    token: str,
    now: datetime,
    looks_again: bool = False,
    looks_again_on_change: bool = False,
    look_at: datetime | None = None,
    specs: JobSpecs | None = None,
) -> bool:
    """Write a plan, and release the lease; or keep it and return True, if the run is to be looked at again.

    That is so when somebody woke or cancelled the run since it was loaded, and, where asked for, in any case or when
    anything but reminders changed. At `look_at` it is looked at, news or not; None: only on news. Raises LeaseLost, and
    then nothing is written.
    """
    writer = _Writer(loaded, now, look_at, specs)
    for transition in transitions:
        writer.note(transition)
    writer.prepare()
    with transaction.atomic():
        return writer.write(token, looks_again=looks_again or (looks_again_on_change and writer.has_changed))


def end_cancelled(run_id: str, *, token: str, now: datetime) -> bool:
    """End a run without a plan, if that was asked for: its jobs are told to stop, and their ends are not waited for.

    Return whether it was. For a run that cannot be advanced any more. Raises LeaseLost.
    """
    with transaction.atomic():
        _fence(run_id, token)
        run = Run.objects.filter(pk=run_id, cancel_requested_at__isnull=False).first()
        if run is None:
            return False
        why = run.reason or planner.RUN_CANCELLED
        reason = f"{why.removesuffix('.')}; the platform could not advance it."
        ending = {"reason": reason, "finished_at": now}
        live = Attempt.objects.filter(run=run, is_live=True)
        job_ids = [str(job_id) for job_id in live.filter(job__isnull=False).values_list("job_id", flat=True)]
        jobs.cancel_many(actor=_SYSTEM, job_ids=job_ids, reason=why)
        live.update(state=AttemptState.CANCELLED, remind_at=None, **ending)
        steps = Step.objects.filter(run=run).exclude(state__in=sorted(STEP_ENDS))
        steps.update(state=StepState.CANCELLED, not_before=None, **ending)
        experiments.cancel_experiments(actor=_SYSTEM, run_id=run_id, reason=reason, at=now)
        RunEvent.objects.create(run=run, seq=run.event_seq + 1, kind="run.cancelled", message=reason, at=now)
        Run.objects.filter(pk=run_id).update(
            state=RunState.CANCELLED,
            event_seq=run.event_seq + 1,
            retry_requested_at=None,
            retry_key="",
            retry_index=None,
            wake_at=None,
            **ending,
        )
        tasks.enqueue_on_commit("flows.release_inputs")
        send_on_commit(signals.run_changed, run_id=run_id)
    return True


@prepared
def _attempts(attempt_ids: Collection[str]) -> QuerySet[Attempt]:
    return Attempt.objects.filter(pk__in=attempt_ids)


@prepared
def _steps(step_ids: Collection[str]) -> QuerySet[Step]:
    return Step.objects.filter(pk__in=step_ids)


@prepared
def _held(run_id: str, token: str) -> QuerySet[Run]:
    return Run.objects.filter(pk=run_id, lease_token=token)


@prepared
def _without_news(
    run_id: str,
    token: str,
    wake_at: datetime | None,
    is_cancelled: bool,  # noqa: FBT001 (a prepared query takes no names)
    look_at: datetime | None,
) -> QuerySet[Run]:
    """Return a run as it was loaded by the holder of its lease, with when it is to be looked at.

    `next_wake_at` is a moment, or an earlier one that a row of it names; NULL: only on news.
    """
    attempts = Attempt.objects.filter(run=OuterRef("pk"), is_live=True, remind_at__isnull=False)
    steps = Step.objects.filter(run=OuterRef("pk"), state=StepState.BACKOFF, not_before__isnull=False)
    next_wake_at = orm.earliest(
        Subquery(attempts.order_by("remind_at").values("remind_at")[:1]),
        Subquery(steps.order_by("not_before").values("not_before")[:1]),
        models.Value(look_at, output_field=models.DateTimeField()),
    )
    held = Run.objects.filter(pk=run_id, lease_token=token, wake_at=wake_at)
    return held.filter(cancel_requested_at__isnull=not is_cancelled).annotate(next_wake_at=next_wake_at)


def _fence(run_id: str, token: str) -> None:
    """Hold the run until the caller's transaction ends. Raises LeaseLost."""
    if not leases.renew(Run.objects.filter(pk=run_id), token, for_s=LEASE_S):
        raise LeaseLost(_LOST)


class _Writer:
    """Collects what to write, so that many equal changes become one statement, and one event each."""

    def __init__(
        self, loaded: Loaded, now: datetime, look_at: datetime | None = None, specs: JobSpecs | None = None
    ) -> None:
        self._loaded = loaded
        self._known_specs = specs
        self._look_at = look_at
        self._run = loaded.run
        self._now = now
        self._step_changes: dict[str, dict[str, Any]] = {}
        self._attempt_changes: dict[str, dict[str, Any]] = {}
        self._starts: list[Start] = []
        self._submits: list[Submit] = []
        self._supersedes: list[Supersede] = []
        self._cancels: dict[str, str] = {}
        self._ended: dict[str, datetime] = {}
        self._has_output = False
        self._events: list[RunEvent] = []
        self._new_experiments: list[NewExperiment] = []
        self._finish: Finish | None = None
        self._is_storing = loaded.snapshot.is_storing
        self.has_changed = False

    def note(self, transition: Transition) -> None:
        self.has_changed = self.has_changed or not isinstance(transition, Remind | Bring | BringNext)
        handlers: dict[type, Callable[[Any], None]] = {
            Reset: self._note_reset,
            Start: self._starts.append,
            Submit: self._submits.append,
            Observe: self._note_observed,
            Requeue: self._note_requeued,
            Bring: self._note_brought,
            BringNext: self._note_brought_next,
            ReleaseData: lambda release: self._event("step.let_go", release.step_id, release.reason),
            Supersede: self._supersedes.append,
            End: self._note_end,
            Settle: self._note_settled,
            Cancel: lambda cancel: self._cancels.update({cancel.attempt_id: cancel.reason}),
            Remind: lambda remind: self._change_attempt(remind.attempt_id, remind_at=remind.at),
            Finish: self._note_finish,
        }
        handlers[type(transition)](transition)

    def prepare(self) -> None:
        """Do what takes files and changes no rows, for the jobs that are to be submitted."""
        starting: list[Start | Submit | Supersede] = [*self._starts, *self._submits, *self._supersedes]
        for key in {self._loaded.steps[item.step_id].key for item in starting}:
            self._specs.gather_inputs(key)

    def write(self, token: str, *, looks_again: bool) -> bool:
        """Write all, in an order in which each statement sees what it builds on; return whether to look again.

        That is so too when the run has news; then the lease is kept. Raises LeaseLost.
        """
        self._starts.extend(self._withdraw())
        self._begin_attempts()
        counts = self._loaded.counts.moved(self._step_moves())
        if self.has_changed and next_data.find_readers(self._loaded, counts):
            self._look_at = self._now  # a worker that dies before it brings their data is followed by another
        changed: dict[str, set[str]] = defaultdict(set)
        reset: set[str] = set()
        for step_id, change in self._step_changes.items():
            key = self._loaded.steps[step_id].key
            changed[key].add(step_id)
            if change.get("state") == StepState.PENDING:
                reset.add(key)
        _write_changes(_steps, self._loaded.steps, self._step_changes)
        self._write_experiments()
        self._cancel_jobs()
        self._close_attempts()
        looks_again = self._write_run(token, looks_again=looks_again)
        event_seq = self._run.event_seq + len(self._events)
        transaction.on_commit(partial(known_runs.note, self._run, event_seq, counts, changed, reset))
        return looks_again

    def _step_moves(self) -> Iterator[tuple[str, StepState, StepState]]:
        for step_id, change in self._step_changes.items():
            if "state" in change:
                step = self._loaded.steps[step_id]
                yield step.key, StepState(step.state), StepState(change["state"])

    @cached_property
    def _specs(self) -> JobSpecs:
        return self._known_specs or JobSpecs(self._loaded)

    # --- what each transition means

    def _note_reset(self, reset: Reset) -> None:
        self._change_step(
            reset.step_id,
            state=StepState.PENDING,
            reason="",
            choice=0,
            template="",
            tried=[],
            why="",
            failures={},
            not_before=None,
            started_at=None,
            finished_at=None,
        )
        self._event("step.reset", reset.step_id, "Opened again.")

    def _note_observed(self, observed: Observe) -> None:
        self._change_attempt(observed.attempt_id, state=AttemptState.RUNNING, started_at=self._now, remind_at=None)
        self._change_step(observed.step_id, state=StepState.RUNNING, reason="")
        self._event("step.running", observed.step_id, f"Runs on {observed.template}.", template=observed.template)

    def _note_requeued(self, requeued: Requeue) -> None:
        again = {"state": AttemptState.QUEUED, "queued_at": self._now, "started_at": None}
        self._change_attempt(requeued.attempt_id, **again, remind_at=requeued.remind_at)
        self._change_step(requeued.step_id, state=StepState.QUEUED, reason="")
        message = f"Its job is queued for {requeued.template} again."
        self._event("step.queued", requeued.step_id, message, template=requeued.template)

    def _note_brought(self, bring: Bring) -> None:
        """Note it once for an attempt and a template: each plan asks for the datasets again, also after a failure."""
        step = self._loaded.steps[bring.step_id]
        data = self._loaded.snapshot.data[step.key, bring.template]
        facts: dict[str, Any] = {"attempt": step.attempt_count, "template": bring.template}
        events = RunEvent.objects.filter(run=self._run, kind="step.bringing", step_key=step.key, step_index=step.index)
        if data.is_requested or facts in events.values_list("data", flat=True):
            return
        message = f"{bring.why[:1].upper()}{bring.why[1:]}. Meanwhile its data is brought to {bring.template}: "
        self._event("step.bringing", bring.step_id, f"{message}{data.words}.", **facts)

    def _note_brought_next(self, bring: BringNext) -> None:
        """Note it once for a step and a template: copies that made way for others are asked for again."""
        step = self._loaded.steps[bring.step_id]
        facts: dict[str, Any] = {"ahead": True, "template": bring.template}
        events = RunEvent.objects.filter(run=self._run, kind="step.bringing", step_key=step.key, step_index=step.index)
        if facts not in events.values_list("data", flat=True):
            message = f"Its data is brought ahead for {bring.template} while other steps run: {bring.words}."
            self._event("step.bringing", bring.step_id, message, **facts)

    def _note_end(self, end: End) -> None:
        """Note an end, with the moments of its job and not those at which they were noticed."""
        started_at, finished_at = self._loaded.job_times.get(end.attempt_id, (None, None))
        self._ended[end.step_id] = finished_at or self._now
        has_output = end.state is AttemptState.SUCCEEDED and not self._loaded.left_nothing(end.attempt_id)
        self._has_output = self._has_output or has_output
        self._change_attempt(
            end.attempt_id,
            state=end.state,
            reason=end.reason,
            failure=end.failure or "",
            started_at=started_at,
            finished_at=finished_at or self._now,
            remind_at=None,
        )
        if end.state is AttemptState.FAILED:
            self._event("attempt.failed", end.step_id, end.reason, failure=str(end.failure))

    def _note_settled(self, settle: Settle) -> None:
        changes: dict[str, Any] = {
            "state": settle.state,
            "reason": settle.reason,
            "failures": {str(kind): count for kind, count in settle.failures.items()},
            "not_before": settle.not_before,
        }
        if settle.state in STEP_ENDS:
            changes["finished_at"] = self._ended.get(settle.step_id, self._now)
        self._change_step(settle.step_id, **changes)
        self._event(f"step.{settle.state}", settle.step_id, settle.reason)

    def _note_finish(self, finish: Finish) -> None:
        self._finish = finish

    # --- statements

    def _withdraw(self) -> list[Start]:
        """Take waiting jobs back; a job that got its place first stays, and so does its attempt."""
        if not self._supersedes:
            return []
        job_ids = dict(
            Attempt.objects.filter(pk__in=[item.attempt_id for item in self._supersedes]).values_list("pk", "job_id")
        )
        withdrawn_ids = [job_id for job_id in job_ids.values() if job_id is not None]
        back = set(jobs.withdraw_many(actor=_SYSTEM, job_ids=withdrawn_ids, reason="The step tries another place."))
        starts = []
        for item in self._supersedes:
            if job_ids.get(item.attempt_id) not in back:
                self._change_attempt(item.attempt_id, remind_at=None)
                continue
            self._change_attempt(
                item.attempt_id, state=AttemptState.SUPERSEDED, reason=item.why, finished_at=self._now, remind_at=None
            )
            message = f"{item.start.tried[-1].template} {item.why}; {item.start.template} is tried."
            self._event("step.fallback", item.step_id, message, tried=[asdict(tried) for tried in item.start.tried])
            starts.append(item.start)
        return starts

    def _begin_attempts(self) -> None:
        steps = self._loaded.steps
        for start in self._starts:
            steps[start.step_id].tried = [asdict(tried) for tried in start.tried]
        attempts = [self._new_attempt(steps[start.step_id], start) for start in self._starts]
        new = [(steps[start.step_id], attempt) for start, attempt in zip(self._starts, attempts, strict=True)]
        inputs = {
            attempt.pk: [
                self._new_input(attempt, data)
                for data in sorted(self._loaded.spec.step(step.key).data, key=lambda data: data.folder)
            ]
            for (step, attempt), start in zip(new, self._starts, strict=True)
            if start.prepares
        }
        prepared = list(self._prepared())
        staged = job_specs.read_inputs([attempt.pk for _, attempt in prepared])
        # An attempt that an earlier release began has no job before its datasets are there.
        late = [item for item in prepared if item[1].job_id is None]
        self._submit([*new, *late], inputs | staged, gated=inputs, are_new=not late)
        self._open_gates([item for item in prepared if item not in late], staged)
        loaded = {attempt.pk: attempt for attempt in self._loaded.attempts}
        _write_changes(_attempts, loaded, self._attempt_changes, new=attempts)
        if prepared:
            columns = ["job", "state", "queued_at", "remind_at"]
            Attempt.objects.bulk_update([attempt for _, attempt in prepared], columns, 200)
        # Their rows are written; their experiments follow.
        self._attempt_changes |= {each.pk: {"state": each.state, "job_id": each.job_id} for _, each in prepared}
        insert([row for rows in inputs.values() for row in rows])
        self._new_experiments = [self._new_experiment(attempt) for attempt in attempts]
        for start in self._starts:
            if steps[start.step_id].started_at is None:
                self._change_step(start.step_id, started_at=self._now)
            self._change_step(
                start.step_id,
                state=StepState.PREPARING if start.prepares else StepState.QUEUED,
                reason="",
                choice=start.choice,
                template=start.template,
                tried=steps[start.step_id].tried,
                why=start.why,
                not_before=None,
                attempt_count=start.number,
            )
            word = "Brings its data to" if start.prepares else "Waits for"
            kind = "step.preparing" if start.prepares else "step.queued"
            message = f"{word} {start.template}."
            self._event(kind, start.step_id, message, attempt=start.number, template=start.template, why=start.why)
        for submit in self._submits:
            self._change_step(submit.step_id, state=StepState.QUEUED)
            self._event("step.queued", submit.step_id, "Its data is in place; its job is queued.")

    def _new_attempt(self, step: Step, start: Start) -> Attempt:
        return Attempt(
            run_id=self._run.pk,
            step=step,
            number=start.number,
            choice=start.choice,
            template=start.template,
            state=AttemptState.PREPARING if start.prepares else AttemptState.QUEUED,
            job_name=names.job_name(self._run.pk, step.key, step.index, start.number),
            remind_at=start.remind_at,
            queued_at=None if start.prepares else self._now,
        )

    def _new_input(self, attempt: Attempt, data: DataInput) -> AttemptInput:
        commit = self._run.datasets[data.dataset]
        return AttemptInput(
            attempt=attempt,
            name=data.folder,
            reference=data.dataset,
            commit_id=commit["commit"],
            is_cached=data.cached,
            is_early=data.start == "early",
        )

    def _prepared(self) -> Iterable[tuple[Step, Attempt]]:
        reminders = {submit.attempt_id: submit.remind_at for submit in self._submits}
        for attempt in Attempt.objects.filter(pk__in=reminders).order_by("pk") if reminders else ():
            attempt.state, attempt.queued_at = AttemptState.QUEUED, self._now
            attempt.remind_at = reminders[attempt.pk]
            yield self._loaded.steps[attempt.step_id], attempt

    def _submit(
        self,
        ready: Sequence[tuple[Step, Attempt]],
        inputs: Mapping[str, Sequence[AttemptInput]],
        *,
        gated: Collection[str],
        are_new: bool,
    ) -> None:
        """Submit the jobs of attempts, whose `inputs` are given by attempt; the `gated` ones wait for their data."""
        if not ready:
            return
        templates = self._loaded.templates
        specs = {step.name: step for step in self._loaded.spec.steps}
        requests = [
            JobRequest(
                project_id=self._run.project_id,
                name=attempt.job_name,
                title=self._label(step, attempt),
                kind="experiment",
                template_id=attempt.template,  # as it is called here: two may be one template in two pools
                spec=self._specs.build(step, attempt, inputs.get(attempt.pk, ())),
                priority=specs[step.key].priority,
                is_preemptible=specs[step.key].preemptible,
                idle_limit_s=specs[step.key].idle_limit,
                on_behalf_of=self._run.created_by,
                gate=Gate.CALLER if attempt.pk in gated else None,
            )
            for step, attempt in ready
        ]
        submitted = jobs.submit_many(actor=_SYSTEM, requests=requests, known_templates=templates, names_are_new=are_new)
        for (_, attempt), job in zip(ready, submitted, strict=True):
            attempt.job = job
            known_runs.note_run(job.pk, self._run.pk)

    def _open_gates(
        self, prepared: Sequence[tuple[Step, Attempt]], inputs: Mapping[str, Sequence[AttemptInput]]
    ) -> None:
        """Have the jobs of attempts queued, with their datasets, which are in place now."""
        specs = {str(each.job_id): self._specs.build(step, each, inputs[each.pk]) for step, each in prepared}
        if specs:
            jobs.open_gates(actor=_SYSTEM, specs=specs)

    def _new_experiment(self, attempt: Attempt) -> NewExperiment:
        run, step = self._run, attempt.step
        spec = self._loaded.spec.step(step.key)
        return NewExperiment(
            project_id=run.project_id,
            source_id=attempt.pk,
            title=self._label(step, attempt),
            state=attempt.state,
            created_by=run.created_by,
            job_id=attempt.job_id,
            job_name=attempt.job_name,
            template=attempt.template,
            is_simulated=self._loaded.snapshot.templates[attempt.template].is_simulated,
            labels=Labels(run.pk, run.flow.name, run.number, step.key, step.label, step.index, attempt.number),
            parameters=step.parameters,
            datasets=[{**run.datasets[data.dataset], "name": data.folder, "cached": data.cached} for data in spec.data],
            code=run.code,
            output_patterns=spec.outputs,
        )

    def _write_experiments(self) -> None:
        """Begin those of new attempts, and tell others what changed: their states, and the times of their jobs."""
        fields: tuple[Field, ...] = ("state", "reason", "started_at", "finished_at", "job_id")
        changes: dict[str, dict[Field, object]] = {}
        for attempt_id, change in self._attempt_changes.items():
            columns: dict[Field, object] = {name: change[name] for name in fields if name in change}
            started_at, finished_at = self._loaded.job_times.get(attempt_id, (None, None))
            if change.get("started_at") or change.get("finished_at"):
                columns["started_at"] = started_at or change.get("started_at")
            if change.get("finished_at"):
                columns["finished_at"] = finished_at or change["finished_at"]
            if change.get("state") == AttemptState.SUCCEEDED and not self._loaded.left_nothing(attempt_id):
                columns["artifacts_wanted"] = True
            if columns:
                changes[attempt_id] = columns
        for attempt in self._loaded.attempts:
            if attempt.job_id in self._loaded.ended.logs.silent:
                changes.setdefault(attempt.pk, {})["harvested_at"] = self._now
        kind, new = names.EXPERIMENT_KIND, self._new_experiments
        rows = self._loaded.ended.logs.experiments
        if new and len(changes) == 1 and not rows.keys().isdisjoint(changes):
            ((source_id, columns),) = changes.items()
            row = rows[source_id]
            experiments.replace_experiment(actor=_SYSTEM, kind=kind, row=row, changes=columns, new=new)
            return
        experiments.create_experiments(actor=_SYSTEM, kind=kind, experiments=new)
        experiments.update_experiments(actor=_SYSTEM, kind=kind, changes=changes)

    def _cancel_jobs(self) -> None:
        if not self._cancels:
            return
        rows = Attempt.objects.filter(pk__in=self._cancels, job__isnull=False).values_list("pk", "job_id")
        job_ids: dict[str, list[str]] = {}
        for attempt_id, job_id in rows:
            job_ids.setdefault(self._cancels[attempt_id], []).append(str(job_id))
        for reason, ids in job_ids.items():
            jobs.cancel_many(actor=_SYSTEM, job_ids=ids, reason=reason)

    def _close_attempts(self) -> None:
        """Let go of what ended attempts held, and have the outputs of those that succeeded stored."""
        if not self._ended:
            return
        if self._loaded.snapshot.graph.has_data:
            tasks.enqueue_on_commit("flows.release_inputs")
        if self._has_output:
            self._is_storing = True
            # While others follow, the periodic run stores the outputs of many steps together.
            if not self._starts:
                tasks.enqueue_on_commit("experiments.store_artifacts", run_id=self._run.pk)

    def _write_run(self, token: str, *, looks_again: bool) -> bool:
        """Write the run last, while its lease is held: who wakes or cancels it later finds it released."""
        wake_at: datetime | F | None = F("next_wake_at")
        changes: dict[str, Any] = {}
        if self._loaded.is_retry:
            changes.update(retry_requested_at=None, retry_key="", retry_index=None)
        if self._run.state == RunState.PENDING:
            changes.update(state=RunState.RUNNING, started_at=self._now)
            self._event("run.running", None, "Started.", first=True)
        if self._finish is not None:
            last = Attempt.objects.filter(run=self._run).aggregate(at=Max("finished_at"))["at"]
            reason = self._why_ended(self._finish) or self._finish.reason
            changes.update(state=self._finish.state, reason=reason, finished_at=last or self._now)
            wake_at = None
            self._event(f"run.{self._finish.state}", None, reason)
        for number, event in enumerate(self._events, start=self._run.event_seq + 1):
            event.seq = number
        changes["event_seq"] = self._run.event_seq + len(self._events)
        insert(self._events)
        run, look_at = self._run, self._now + _STORING_POLL if self._is_storing else None
        look_at = min(filter(None, (look_at, self._look_at)), default=None)
        is_cancelled = run.cancel_requested_at is not None
        changes |= {"wake_at": wake_at, "lease_expires_at": self._lease_end(looks_again=looks_again)}
        if not _without_news.update(changes, run.pk, token, run.wake_at, is_cancelled, look_at):
            # Somebody woke or cancelled the run since it was loaded; or its lease is lost, and nothing is written.
            looks_again = True
            news_now = {"wake_at": self._now if wake_at is not None else None, "lease_expires_at": self._lease_end()}
            if not _held.update({**changes, **news_now}, run.pk, token):
                raise LeaseLost(_LOST)
        if self._events:
            send_on_commit(signals.run_changed, run_id=run.pk)
        return looks_again

    @staticmethod
    def _lease_end(*, looks_again: bool = True) -> datetime:
        return clock.now() + timedelta(seconds=LEASE_S if looks_again else 0)

    def _why_ended(self, finish: Finish) -> str:
        """Say which steps failed and why, or were cancelled, the first few of them; empty where the run was."""
        if finish.state is RunState.CANCELLED and self._loaded.snapshot.is_cancelled:
            return ""
        state = StepState.CANCELLED if finish.state is RunState.CANCELLED else StepState.FAILED
        ended = Step.objects.filter(run=self._run, state=state)
        reasons = [f"{label}: {reason}" for label, reason in ended.values_list("label", "reason")[:_MOST_NAMED]]
        more = ended.count() - len(reasons)
        was = "was" if more == 1 else "were"
        verb = "failed" if state is StepState.FAILED else f"{was} cancelled"
        return "\n".join([*reasons, *([f"{more} more {verb}."] if more else [])])

    def _label(self, step: Step, attempt: Attempt) -> str:
        return names.attempt_label(self._run.flow.name, self._run.number, step.label, attempt.number)

    # --- collecting

    def _change_step(self, step_id: str, **changes: Any) -> None:
        self._step_changes.setdefault(step_id, {}).update(changes)

    def _change_attempt(self, attempt_id: str, **changes: Any) -> None:
        self._attempt_changes.setdefault(attempt_id, {}).update(changes)

    def _event(self, kind: str, step_id: str | None, message: str, *, first: bool = False, **data: object) -> None:
        step = self._loaded.steps[step_id] if step_id is not None else None
        event = RunEvent(
            run_id=self._run.pk,
            kind=kind,
            step_key=step.key if step else "",
            step_index=step.index if step else None,
            message=message,
            data=data,
            at=self._now,
        )
        self._events.insert(0 if first else len(self._events), event)


def _write_changes(
    rows: prepared[[Collection[str]], Any],
    loaded: Mapping[str, Attempt | Step],
    changes: dict[str, dict[str, Any]],
    new: Sequence[Attempt | Step] = (),
) -> None:
    """Write changes by row, and new rows: few by one statement, whatever of each of them changes."""
    if len(changes) + len(new) > _FEW_ROWS:
        _update_grouped(rows, changes)
        insert(new)
        return
    for row_id, change in changes.items():
        for name, value in change.items():
            setattr(loaded[row_id], name, value)
    columns = sorted({name for change in changes.values() for name in change})
    insert([*(loaded[row_id] for row_id in changes), *new], update=columns)


def _update_grouped(rows: prepared[[Collection[str]], Any], changes: dict[str, dict[str, Any]]) -> None:
    """Write changes by row; equal ones share a statement, as they mostly are in a fan of a thousand steps.

    They are equal but for the moments at which rows began and ended.
    """
    groups: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for row_id, change in changes.items():
        alike = {name: name if name in _MOMENTS else value for name, value in change.items()}
        groups.setdefault(repr(sorted(alike.items())), (change, []))[1].append(row_id)
    for change, ids in groups.values():
        for batch in orm.in_batches(sorted(ids)):
            moments = {
                name: MomentById.of({row_id: changes[row_id][name] for row_id in batch})
                for name in _MOMENTS & change.keys()
                if len(batch) > 1
            }
            rows.update({**change, **moments}, batch)
