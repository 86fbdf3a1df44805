"""Runs, their steps, each try of a step, and what happened. Written by `workers.advance` (see there)."""

from enum import StrEnum

from django.db import models

from core.orm import BaseModel, Leased, PlainModel, live_field
from flows.engine import names
from flows.engine.states import (
    ATTEMPT_STATES,
    RUN_ENDS,
    STEP_ENDS,
    AttemptState,
    FailureKind,
    RunState,
    StepState,
)


class Run(Leased, BaseModel):
    """One execution of a flow version. `wake_at` is when it wants to be looked at, news or not; None: only on news.

    `retry_key` and `retry_index` say from which step on a retry that is asked for opens it again; empty: whatever did
    not succeed. `datasets` maps each dataset reference of the flow to the commit that it meant when the run started.
    `places` says of `steps` with a size of their own in which `pools` a place is found, and the `choices`: the names of
    the places that were found when the run started, or was retried. Those are `known` by name, as
    `compute.selectors.made_templates` keeps them. Positions among the choices of a step (`Step.choice`,
    `Attempt.choice`) hold for as long as the run is live.
    The lease says who advances it now. One that was deleted (`deleted_at`) has ended; it is shown no more, and removed
    soon with its steps.
    """

    id_prefix = "run"

    project = models.ForeignKey("accounts.Project", on_delete=models.CASCADE, related_name="runs", db_index=False)
    flow = models.ForeignKey("flows.Flow", on_delete=models.CASCADE, related_name="runs", db_index=False)
    version = models.ForeignKey("flows.FlowVersion", on_delete=models.PROTECT, related_name="runs")
    number = models.PositiveIntegerField()
    state = models.CharField(
        max_length=20, choices=[(state.value, state.value) for state in RunState], default=RunState.PENDING
    )
    reason = models.TextField(blank=True)
    parameters = models.JSONField(default=dict)
    datasets = models.JSONField(default=dict)
    places = models.JSONField(default=dict)
    code = models.JSONField(default=dict)
    created_by = models.CharField(max_length=200)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    cancel_requested_at = models.DateTimeField(null=True)
    retry_requested_at = models.DateTimeField(null=True)
    retry_key = models.CharField(max_length=63, blank=True)
    retry_index = models.PositiveIntegerField(null=True)
    wake_at = models.DateTimeField(null=True)
    event_seq = models.PositiveIntegerField(default=0)
    deleted_at = models.DateTimeField(null=True)
    is_live = live_field(set(RunState) - RUN_ENDS)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["flow", "number"], name="one_run_per_number")]
        indexes = [
            models.Index(fields=["wake_at"], name="live_runs", condition=models.Q(is_live=True)),
            models.Index(fields=["project", "id"], name="runs_of_project"),
            models.Index(fields=["project", "state"], name="runs_of_project_by_state"),
            models.Index(fields=["id"], name="deleted_runs", condition=models.Q(deleted_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return names.run_label(self.flow.name, self.number)

    @property
    def has_ended(self) -> bool:
        """Whether nothing more happens unless somebody retries it."""
        return RunState(self.state) in RUN_ENDS


class Step(BaseModel):
    """One instance of a step of the flow: `index` counts what its grid multiplied it into, `label` is its name.

    `choice` and `template` say where it is tried now; `tried` what was left before and why (the decision record).
    """

    id_prefix = "step"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="steps", db_index=False)
    key = models.CharField(max_length=63)
    index = models.PositiveIntegerField()
    label = models.CharField(max_length=names.LONGEST_LABEL)
    position = models.PositiveIntegerField()
    parameters = models.JSONField(default=dict)
    state = models.CharField(
        max_length=20, choices=[(state.value, state.value) for state in StepState], default=StepState.PENDING
    )
    reason = models.TextField(blank=True)
    choice = models.PositiveIntegerField(default=0)
    template = models.CharField(max_length=127, blank=True)
    tried = models.JSONField(default=list)
    why = models.TextField(blank=True)
    failures = models.JSONField(default=dict)
    attempt_count = models.PositiveIntegerField(default=0)
    chosen_attempt = models.CharField(max_length=32, blank=True)
    not_before = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "key", "index"], name="one_step_per_index")]
        ordering = ["position", "index"]

    def __str__(self) -> str:
        return self.label

    @property
    def has_ended(self) -> bool:
        """Whether it is settled."""
        return StepState(self.state) in STEP_ENDS

    @property
    def decision(self) -> dict[str, object]:
        """Which templates were tried, which one is chosen, and why."""
        return {"tried": self.tried, "chosen": self.template or None, "why": self.why}


class Attempt(BaseModel):
    """One try of a step, and its job. There is news about it while the job's state says more than its own does."""

    id_prefix = "att"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="attempts")
    step = models.ForeignKey(Step, on_delete=models.CASCADE, related_name="attempts", db_index=False)
    number = models.PositiveIntegerField()
    choice = models.PositiveIntegerField(default=0)
    template = models.CharField(max_length=127)
    state = models.CharField(max_length=20, choices=[(state.value, state.value) for state in AttemptState])
    reason = models.TextField(blank=True)
    failure = models.CharField(max_length=20, blank=True, choices=[(kind.value, kind.value) for kind in FailureKind])
    job_name = models.CharField(max_length=200, unique=True)
    job = models.OneToOneField("compute.Job", on_delete=models.SET_NULL, null=True, related_name="attempt")
    remind_at = models.DateTimeField(null=True)
    queued_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    is_live = live_field(ATTEMPT_STATES.live)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["step", "number"], name="one_attempt_per_number")]
        indexes = [
            models.Index(fields=["run", "id"], name="live_attempts", condition=models.Q(is_live=True)),
        ]

    def __str__(self) -> str:
        return self.job_name


class InputState(StrEnum):
    """Whether a dataset is where the attempt can read it. RELEASED: the attempt has ended and let go of it."""

    PENDING = "pending"
    READY = "ready"
    FAILED = "failed"
    RELEASED = "released"


class AttemptInput(Leased, BaseModel):
    """A dataset that an attempt reads, and what its job mounts (`source`, empty until it is ready).

    `cached_commit_id` is empty for one that is not cached: a copy of the attempt's own. One that `is_early` is ready
    once the first files of its cached commit are there.
    """

    id_prefix = "inp"

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="inputs", db_index=False)
    name = models.CharField(max_length=100)
    reference = models.CharField(max_length=300)
    commit_id = models.CharField(max_length=64)
    is_cached = models.BooleanField()
    is_early = models.BooleanField(default=False)
    site = models.CharField(max_length=63, blank=True)
    cached_commit_id = models.CharField(max_length=32, blank=True, db_index=True)
    state = models.CharField(
        max_length=10, choices=[(state.value, state.value) for state in InputState], default=InputState.PENDING
    )
    source = models.JSONField(default=dict)
    error = models.TextField(blank=True)
    is_live = live_field(set(InputState) - {InputState.RELEASED})

    class Meta:
        constraints = [models.UniqueConstraint(fields=["attempt", "name"], name="one_input_per_name")]
        indexes = [models.Index(fields=["attempt"], name="live_inputs", condition=models.Q(is_live=True))]

    def __str__(self) -> str:
        return f"{self.name} for {self.attempt_id}"


class RunEvent(PlainModel):
    """One thing that happened in a run. Append only; `seq` counts from 1 without gaps."""

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events", db_index=False)
    seq = models.PositiveIntegerField()
    kind = models.CharField(max_length=40)
    step_key = models.CharField(max_length=63, blank=True)
    step_index = models.PositiveIntegerField(null=True)
    message = models.TextField(blank=True)
    data = models.JSONField(default=dict)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "seq"], name="one_run_event_per_seq")]

    def __str__(self) -> str:
        return f"{self.run_id} #{self.seq} {self.kind}"
