"""Experiments: what each attempt was given and what it measured."""

from django.db import models

from core.orm import BaseModel
from flows.engine.log_tags import Problems


class Experiment(BaseModel):
    """The record of one attempt: parameters, metrics, tags, artifacts, and the versions of code and data.

    `log_offset` is how far its log was read for metrics; `harvested_at` is when the end of it was. `log_problems` says
    how many of its lines could not be read, and of the first ones why. `logged` are the parameters that the job itself
    recorded. `artifacts_wanted`: its output folder is still to be stored. `is_recorded`: it measured, recorded or left
    something, or somebody tagged it or wrote about it. `note` is what people wrote about it, `note_by` and `note_at`
    who did last, and when.
    """

    id_prefix = "exp"

    project = models.ForeignKey("accounts.Project", on_delete=models.CASCADE, related_name="experiments")
    run = models.ForeignKey("flows.Run", on_delete=models.CASCADE, related_name="experiments")
    step = models.ForeignKey("flows.Step", on_delete=models.CASCADE, related_name="experiments")
    attempt = models.OneToOneField("flows.Attempt", on_delete=models.CASCADE, related_name="experiment")
    title = models.CharField(max_length=300)
    parameters = models.JSONField(default=dict)
    logged = models.JSONField(default=dict)
    tags = models.JSONField(default=dict)
    datasets = models.JSONField(default=list)
    code = models.JSONField(default=dict)
    log_offset = models.PositiveBigIntegerField(default=0)
    log_problems = models.JSONField(default=dict)
    harvested_at = models.DateTimeField(null=True)
    artifacts_wanted = models.BooleanField(default=False)
    artifacts_error = models.TextField(blank=True)
    is_recorded = models.BooleanField(default=False)
    note = models.TextField(blank=True)
    note_by = models.CharField(max_length=200, blank=True)
    note_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["run"], name="artifacts_to_store", condition=models.Q(artifacts_wanted=True)),
            models.Index(fields=["project"], name="recorded_experiments", condition=models.Q(is_recorded=True)),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def problems(self) -> Problems:
        """The lines of its log that could not be read."""
        return Problems.of(self.log_problems)


class MetricPoint(models.Model):
    """One measurement. `value` None stands for NaN, which SQLite cannot hold. Insert only."""

    id = models.BigAutoField(primary_key=True)
    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="points")
    key = models.CharField(max_length=200)
    step = models.BigIntegerField()
    value = models.FloatField(null=True)
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["experiment", "key", "id"], name="points_of_metric")]

    def __str__(self) -> str:
        return f"{self.key}[{self.step}] = {self.value}"


class MetricStretch(models.Model):
    """What a chart shows of some points of a metric that follow each other (`flows.engine.stretches`). Insert only."""

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
    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="metrics")
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
    """A file that an attempt left in its output folder; its bytes are kept under their BLAKE3 hash."""

    id_prefix = "art"

    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="artifacts")
    path = models.CharField(max_length=1000)
    size_bytes = models.PositiveBigIntegerField()
    content_hash = models.CharField(max_length=64, db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["experiment", "path"], name="one_artifact_per_path")]

    def __str__(self) -> str:
        return self.path
