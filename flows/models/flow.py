"""Flows, their versions by hash, the code that came along with them, and what is written before it is a version."""

import re

from django.conf import settings
from django.db import models

from core import clock
from core.orm import BaseModel

_NAME = re.compile(r"^flow:[ \t]*([^\n#]+)", re.MULTILINE)


class Flow(BaseModel):
    """A pipeline of a project. What it does is in its versions.

    One that was deleted (`deleted_at`) is shown no more, its name is free, and it is removed soon with its runs.
    `last_removed_run` is the highest number of a run that was removed: no number is given twice.
    """

    id_prefix = "flow"

    project = models.ForeignKey("accounts.Project", on_delete=models.CASCADE, related_name="flows")
    name = models.CharField(max_length=63)
    title = models.CharField(max_length=200, blank=True)
    description = models.TextField(blank=True)
    updated_at = models.DateTimeField()
    last_removed_run = models.PositiveIntegerField(default=0)
    deleted_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project", "name"], name="one_flow_per_name", condition=models.Q(deleted_at=None)
            )
        ]
        indexes = [
            models.Index(fields=["id"], name="deleted_flows", condition=models.Q(deleted_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return self.name


class Bundle(BaseModel):
    """The folder of code that came with a flow: the tree under `root` among its project's stored trees.

    `sha256` is the name that versions of flows know it by: the root, or the hash of the archive that it came as.
    `content_hash` names the archive where an earlier release kept it; `root` is empty until it is moved, and while a
    new one is stored. `touched_at`: when it was sent last, or a version with it was saved.
    """

    id_prefix = "bndl"

    project = models.ForeignKey("accounts.Project", on_delete=models.CASCADE, related_name="bundles")
    sha256 = models.CharField(max_length=64)
    size_bytes = models.PositiveBigIntegerField()
    files = models.PositiveIntegerField()
    dataset_id = models.CharField(max_length=32, blank=True)
    root = models.CharField(max_length=64, blank=True)
    content_hash = models.CharField(max_length=64, blank=True)
    touched_at = models.DateTimeField(default=clock.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "sha256"], name="one_bundle_per_hash")]

    def __str__(self) -> str:
        return self.sha256[:12]

    @property
    def holder(self) -> str:
        """The name by which it holds its tree."""
        return f"{self.pk}/code"


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


class FlowDraft(BaseModel):
    """One person's unsaved text of a flow; nobody else sees it.

    `key` is the flow's name, or one that starts with '~' for a flow that does not exist yet. `base_version` is the
    number of the version that the draft began from (None: a new flow); `example` names the example whose code it
    needs. `revision` counts what was kept, so that two windows of one person cannot overwrite each other.
    """

    id_prefix = "draft"

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="flow_drafts")
    project = models.ForeignKey("accounts.Project", on_delete=models.CASCADE, related_name="flow_drafts")
    key = models.CharField(max_length=64)
    text = models.TextField()
    layout = models.JSONField(default=dict)
    base_version = models.PositiveIntegerField(null=True)
    example = models.CharField(max_length=63, blank=True)
    revision = models.PositiveIntegerField(default=1)
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "project", "key"], name="one_draft_per_flow")]

    @property
    def name(self) -> str:
        """What the text calls its flow, for lists; the file may be half written."""
        match = _NAME.search(self.text)
        return match[1].strip("\"' ") if match else "without a name"

    def __str__(self) -> str:
        return f"{self.key} of {self.user_id}"
