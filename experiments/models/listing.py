"""What makes experiments quick to list: recorded values by key; and the views of the list that people keep."""

from django.conf import settings
from django.db import models

from core.orm import BaseModel
from experiments.engine.columns import MAX_KEY, RECORDED
from experiments.models.experiment import Experiment

_KINDS = [(kind.value, kind.value) for kind in RECORDED]


class Fact(models.Model):
    """A parameter, a tag or a dataset's commit of an experiment, by which lists are filtered, sorted and grouped.

    It repeats what the experiment's JSON fields say, as a number where it reads as one and as a text always: both
    databases then compare alike, and find it by index. Metrics have `MetricLast` for the same.
    """

    id = models.BigAutoField(primary_key=True)
    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="facts")
    kind = models.CharField(max_length=10, choices=_KINDS)
    key = models.CharField(max_length=MAX_KEY)
    number = models.FloatField(null=True)
    text = models.TextField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "key", "experiment"], name="one_fact_per_key")]

    def __str__(self) -> str:
        return f"{self.kind}.{self.key} = {self.text}"


class FactKey(models.Model):
    """That some experiment of a project recorded something under this key: what columns there are to choose from."""

    id = models.BigAutoField(primary_key=True)
    project = models.ForeignKey("accounts.Project", on_delete=models.CASCADE, related_name="+", db_index=False)
    kind = models.CharField(max_length=10, choices=_KINDS)
    key = models.CharField(max_length=MAX_KEY)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "kind", "key"], name="one_key_per_project")]

    def __str__(self) -> str:
        return f"{self.kind}.{self.key}"


class SavedView(BaseModel):
    """A view of a project's experiments that a member named: the query of its address. All members see it."""

    id_prefix = "view"

    project = models.ForeignKey("accounts.Project", on_delete=models.CASCADE, related_name="experiment_views")
    name = models.CharField(max_length=100)
    query = models.TextField()
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="one_view_per_name")]

    def __str__(self) -> str:
        return self.name
