"""Experiments: what was given, measured, recorded and left."""

from django.db import models

from core import clock
from core.orm import BaseModel, PlainModel, live_field
from experiments.engine.recorded import Problems
from experiments.engine.states import LIVE, ExperimentState


class Experiment(BaseModel):
    """What a job, or a program that runs elsewhere, was given, measured, recorded and left.

    `job` is whose log is read; None: it has none yet, or stands alone. `source_kind` and `source_id` name what it
    records in the app that created it, such as an attempt; None: it stands alone. `run_id`, `flow`, `run_number`,
    `step_key`, `step_label`, `step_index`, `attempt_number`, `template` and `created_by` are labels from there, by
    which lists are filtered. `state`, `reason`, `started_at` and `finished_at` are written by whoever created it.

    `log_offset` is how far its log was read for metrics; `harvested_at` is when the end of it was. `log_problems` says
    how many of its lines could not be read, and of the first ones why. `logged` are the parameters that the job itself
    recorded. `output_patterns` say which output files are stored; `artifacts_wanted`: they are still to be stored,
    and late where `artifacts_error` says why they could not be yet.
    `is_recorded`: it measured, recorded or left something, or somebody tagged it or wrote about it. `note` is what
    people wrote about it, `note_by` and `note_at` who did last, and when. One that was deleted (`deleted_at`) is shown
    no more, and removed soon with all that it recorded.
    """

    id_prefix = "exp"

    created_at = models.DateTimeField(default=clock.now, editable=False, db_index=True)
    project = models.ForeignKey(
        "accounts.Project", on_delete=models.CASCADE, related_name="experiments", db_index=False
    )
    job = models.OneToOneField("compute.Job", on_delete=models.SET_NULL, null=True, related_name="+")
    job_name = models.CharField(max_length=200, blank=True)
    source_kind = models.CharField(max_length=20, blank=True)
    source_id = models.CharField(max_length=64, null=True)  # noqa: DJ001 (unique, but for those without a source)
    run_id = models.CharField(max_length=32, blank=True, db_index=True)
    flow = models.CharField(max_length=63, blank=True)
    run_number = models.PositiveIntegerField(null=True)
    step_key = models.CharField(max_length=63, blank=True)
    step_label = models.CharField(max_length=200, blank=True)
    step_index = models.PositiveIntegerField(null=True)
    attempt_number = models.PositiveIntegerField(null=True)
    template = models.CharField(max_length=127, blank=True)
    is_simulated = models.BooleanField(default=False)
    created_by = models.CharField(max_length=200, blank=True)
    state = models.CharField(max_length=20, choices=[(state.value, state.value) for state in ExperimentState])
    is_live = live_field(LIVE)
    reason = models.TextField(blank=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    title = models.CharField(max_length=300)
    parameters = models.JSONField(default=dict)
    logged = models.JSONField(default=dict)
    tags = models.JSONField(default=dict)
    datasets = models.JSONField(default=list)
    code = models.JSONField(default=dict)
    log_offset = models.PositiveBigIntegerField(default=0)
    log_problems = models.JSONField(default=dict)
    harvested_at = models.DateTimeField(null=True)
    output_patterns = models.JSONField(default=list)
    artifacts_wanted = models.BooleanField(default=False)
    artifacts_error = models.TextField(blank=True)
    is_recorded = models.BooleanField(default=False)
    note = models.TextField(blank=True)
    note_by = models.CharField(max_length=200, blank=True)
    note_at = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source_kind", "source_id"], name="one_experiment_per_source")]
        indexes = [
            # Lists and counts are answered from the indexes alone, so these leave out what is not shown.
            models.Index(fields=["project", "id"], name="experiments_shown", condition=models.Q(deleted_at=None)),
            models.Index(fields=["id"], name="deleted_experiments", condition=models.Q(deleted_at__isnull=False)),
            models.Index(fields=["run_id"], name="artifacts_to_store", condition=models.Q(artifacts_wanted=True)),
            models.Index(
                fields=["project", "id"],
                name="recorded_experiments",
                condition=models.Q(is_recorded=True, deleted_at=None),
            ),
            models.Index(fields=["state", "source_kind"], name="live_experiments", condition=models.Q(is_live=True)),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def problems(self) -> Problems:
        """The lines of its log that could not be read."""
        return Problems.of(self.log_problems)


class MetricPoint(PlainModel):
    """One measurement. `value` None stands for NaN, which SQLite cannot hold. Insert only."""

    id = models.BigAutoField(primary_key=True)
    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="points", db_index=False)
    key = models.CharField(max_length=200)
    step = models.BigIntegerField()
    value = models.FloatField(null=True)
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["experiment", "key", "id"], name="points_of_metric")]

    def __str__(self) -> str:
        return f"{self.key}[{self.step}] = {self.value}"


class MetricStretch(models.Model):
    """What a chart shows of some consecutive points of a metric (`experiments.engine.stretches`). Insert only."""

    id = models.BigAutoField(primary_key=True)
    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="stretches", db_index=False)
    key = models.CharField(max_length=200)
    level = models.PositiveSmallIntegerField()
    data = models.BinaryField()

    class Meta:
        indexes = [models.Index(fields=["experiment", "key", "level", "id"], name="stretches_of_metric")]

    def __str__(self) -> str:
        return f"{self.key}, level {self.level}"


class MetricLast(models.Model):
    """The newest value of each metric, for lists, conditions and children, and how many points there are.

    `open_stretches` is what of its curve is not in complete stretches yet; empty: it was never thinned out.
    """

    id = models.BigAutoField(primary_key=True)
    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="metrics", db_index=False)
    key = models.CharField(max_length=200)
    step = models.BigIntegerField()
    value = models.FloatField(null=True)
    points = models.PositiveBigIntegerField()
    open_stretches = models.BinaryField(default=bytes)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["experiment", "key"], name="one_last_value_per_metric")]
        # All values of one metric stand side by side: what sorting, filtering and grouping thousands of rows reads.
        indexes = [models.Index(fields=["key", "experiment", "value"], name="values_of_metric")]

    def __str__(self) -> str:
        return f"{self.key} = {self.value}"


class Artifact(BaseModel):
    """A file that a job left in its output folder; its bytes are kept under their BLAKE3 hash."""

    id_prefix = "art"

    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="artifacts", db_index=False)
    path = models.CharField(max_length=1000)
    size_bytes = models.PositiveBigIntegerField()
    content_hash = models.CharField(max_length=64, db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["experiment", "path"], name="one_artifact_per_path")]

    def __str__(self) -> str:
        return self.path
