"""Saved queries of a dataset, and the commits that hold what they selected."""

from django.conf import settings
from django.db import models

from core.orm import BaseModel
from datasets.engine.queries import Conditions
from datasets.models.dataset import Commit, Dataset


class Query(BaseModel):
    """Conditions on files under a name. It never changes, so a name means one thing as long as it is there.

    `ref` is the branch, tag or commit that it is asked of where none is named; empty: the default branch.
    """

    id_prefix = "qry"

    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="queries")
    name = models.CharField(max_length=100)
    ref = models.CharField(max_length=100, blank=True)
    conditions = models.JSONField()
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["dataset", "name"], name="one_query_per_name")]

    def __str__(self) -> str:
        return self.name

    @property
    def asked(self) -> Conditions:
        """The conditions as the engine takes them."""
        return Conditions.from_json(self.conditions)


class Selection(BaseModel):
    """The commit that holds the files of `source` that meet conditions, by the hash of these. It may be made anew."""

    id_prefix = "sel"

    source = models.ForeignKey(Commit, on_delete=models.CASCADE, related_name="selections")
    conditions_hash = models.CharField(max_length=64)
    commit = models.ForeignKey(Commit, on_delete=models.CASCADE, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["source", "conditions_hash"], name="one_selection_per_conditions")
        ]

    def __str__(self) -> str:
        return self.commit_id
