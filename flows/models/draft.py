"""What somebody writes on a flow before it is kept as a version."""

import re

from django.conf import settings
from django.db import models

from core.orm import BaseModel

_NAME = re.compile(r"^flow:[ \t]*([^\n#]+)", re.MULTILINE)


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
