"""Flows, their versions by hash, and the code that came along with them."""

from django.db import models

from core.orm import BaseModel


class Flow(BaseModel):
    """A pipeline of a project. What it does is in its versions."""

    id_prefix = "flow"

    project = models.ForeignKey("accounts.Project", on_delete=models.CASCADE, related_name="flows")
    name = models.CharField(max_length=63)
    title = models.CharField(max_length=200, blank=True)
    description = models.TextField(blank=True)
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="one_flow_per_name")]

    def __str__(self) -> str:
        return self.name


class Bundle(BaseModel):
    """The folder of code that came with a flow, kept as a tar.gz under its SHA-256. Whoever sent it is in a project."""

    id_prefix = "bndl"

    project = models.ForeignKey("accounts.Project", on_delete=models.CASCADE, related_name="bundles")
    sha256 = models.CharField(max_length=64)
    size_bytes = models.PositiveBigIntegerField()
    files = models.PositiveIntegerField()
    content_hash = models.CharField(max_length=64)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "sha256"], name="one_bundle_per_hash")]

    def __str__(self) -> str:
        return self.sha256[:12]


class FlowVersion(BaseModel):
    """What a flow said at one time: `spec`, which never changes.

    `text` is how the user wrote it, and `layout` where the nodes of its picture stand (left upper corners in pixels by
    node; empty: where the server lays them out). Neither changes what runs, so both may be edited: a comment that is
    added or a node that is moved makes no new version.
    """

    id_prefix = "fver"

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    hash = models.CharField(max_length=64)
    spec = models.JSONField()
    text = models.TextField()
    layout = models.JSONField(default=dict)
    format = models.CharField(max_length=10, choices=[("yaml", "yaml"), ("json", "json")])
    bundle = models.CharField(max_length=64, blank=True)
    created_by = models.CharField(max_length=200)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["flow", "hash"], name="one_version_per_hash"),
            models.UniqueConstraint(fields=["flow", "number"], name="one_version_per_number"),
        ]

    def __str__(self) -> str:
        return f"{self.flow_id} v{self.number}"
