"""Files that stay where they are: the places that they lie in, and the imports that made datasets refer to them."""

from enum import StrEnum

from django.conf import settings
from django.db import models

from core.orm import BaseModel
from datasets.models.dataset import Commit, Dataset


class SourceKind(StrEnum):
    """Where files lie: in a folder of the platform's hosts, in a bucket, or on a volume of a cluster (`site`)."""

    FOLDER = "folder"
    S3 = "s3"
    SITE = "site"


class FileSource(BaseModel):
    """A folder, a part of a bucket, or the volume of a cache site, that an admin lets projects import from.

    `location` and `credentials` are as those of a store; of a volume, `site://` and the name of its cache site.
    """

    id_prefix = "src"

    name = models.CharField(max_length=63, unique=True)
    kind = models.CharField(max_length=10, choices=[(kind.value, kind.value) for kind in SourceKind])
    location = models.CharField(max_length=1000)
    credentials = models.BinaryField(default=bytes)
    projects = models.ManyToManyField("accounts.Project", related_name="file_sources")

    def __str__(self) -> str:
        return self.name

    @property
    def site_name(self) -> str:
        """The cache site whose volume has the files; empty: they are elsewhere."""
        return self.location.removeprefix("site://") if self.kind == SourceKind.SITE else ""


class ImportState(StrEnum):
    """`queued` and `running` towards a commit; `referenced`: the commit is there, and its content in the source.

    `promoting`: content is on its way into the store; `promoted`: nothing needs the source any more. `cancelling`: what
    works on it is being ended; then it is `cancelled`, or `referenced` where it has its commit.
    """

    QUEUED = "queued"
    RUNNING = "running"
    REFERENCED = "referenced"
    PROMOTING = "promoting"
    PROMOTED = "promoted"
    FAILED = "failed"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"


WORKING = (ImportState.QUEUED, ImportState.RUNNING, ImportState.PROMOTING, ImportState.CANCELLING)
"""States that a worker leads on from."""


class InPlaceImport(BaseModel):
    """A folder of a source whose files a dataset refers to. `directory`: where they lie in the dataset.

    `size_bytes` are those of its files. `read_bytes` were read once to hash them; `written_bytes` are all that was
    written of their content: the maps. `work_bytes` are those of the work that began at `started_at`: to be read where
    it is imported, to be copied where it is promoted. `skipped` and `changed` name the first files that cannot be
    carried, and that are not as they were; `changed_files` counts them all at `checked_at`. `waits_for` is what keeps
    the pod of a cluster from working.
    """

    id_prefix = "imp"

    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="imports")
    source = models.ForeignKey(FileSource, on_delete=models.PROTECT, related_name="imports")
    prefix = models.CharField(max_length=4096)
    directory = models.CharField(max_length=4096)
    branch = models.CharField(max_length=100)
    message = models.TextField(blank=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True)
    state = models.CharField(
        max_length=10, choices=[(state.value, state.value) for state in ImportState], default=ImportState.QUEUED
    )
    commit = models.ForeignKey(Commit, on_delete=models.SET_NULL, null=True)
    files = models.BigIntegerField(default=0)
    size_bytes = models.BigIntegerField(default=0)
    read_bytes = models.BigIntegerField(default=0)
    written_bytes = models.BigIntegerField(default=0)
    work_bytes = models.BigIntegerField(default=0)
    started_at = models.DateTimeField(null=True)
    skipped = models.JSONField(default=list)
    changed = models.JSONField(default=list)
    changed_files = models.BigIntegerField(default=0)
    check_requested_at = models.DateTimeField(null=True)
    checked_at = models.DateTimeField(null=True)
    waits_for = models.CharField(max_length=300, blank=True)
    error = models.CharField(max_length=2000, blank=True)
    error_code = models.CharField(max_length=100, blank=True)

    class Meta:
        indexes = [models.Index(fields=["state"], name="imports_by_state")]

    def __str__(self) -> str:
        return f"{self.source_id}:{self.prefix}"

    @property
    def is_being_checked(self) -> bool:
        """Whether somebody asked for its files to be compared, and that is not done."""
        asked_at = self.check_requested_at
        return asked_at is not None and (self.checked_at is None or self.checked_at < asked_at)
