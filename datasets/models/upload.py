"""What the database knows to be in the store, and the sessions that put it there."""

from enum import StrEnum

from django.conf import settings
from django.db import models

from core import clock
from core.orm import BaseModel
from datasets.models.dataset import Commit, Dataset
from datasets.models.in_place import InPlaceImport


class PackState(StrEnum):
    """`pending`: an address was given out. `complete`: the store was seen to hold it.

    `condemned`: nothing refers to it, so it may be deleted when its time has come, unless someone wants it before.
    `deleting`: it is being deleted, and nobody can have it until its row is gone.
    `damaged`: the store's bytes are not those of its name any more, or are gone. Whoever has them may send them again.
    """

    PENDING = "pending"
    COMPLETE = "complete"
    DAMAGED = "damaged"
    CONDEMNED = "condemned"
    DELETING = "deleting"


PRESENT = (PackState.COMPLETE, PackState.DAMAGED)
"""States in which a commit may refer to a pack: damage is no reason to refuse the files that are whole."""


class Pack(BaseModel):
    """One pack of a dataset, named by the SHA-256 of its bytes.

    The object lies under the prefix of its own dataset, or, with a `lender`, where that pack of another dataset lies.
    With an `origin` the store has a map in its place, and its content lies in files of that import's source.
    A pack is never deleted while another row borrows it.
    `touched_at`: when someone wanted it last. `due_at`: when a condemned pack may be deleted, and from when on another
    worker may delete one whose worker fell silent. `damaged_parts`: what of a damaged pack is not what it should be, as
    pairs of first byte and length.
    """

    id_prefix = "pack"

    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="packs")
    sha256 = models.CharField(max_length=64)
    size_bytes = models.BigIntegerField()
    state = models.CharField(
        max_length=10, choices=[(state.value, state.value) for state in PackState], default=PackState.PENDING
    )
    touched_at = models.DateTimeField(default=clock.now)
    due_at = models.DateTimeField(null=True)
    damaged_parts = models.JSONField(default=list)
    lender = models.ForeignKey("self", on_delete=models.RESTRICT, null=True, db_index=False, related_name="borrowers")
    origin = models.ForeignKey(
        InPlaceImport, on_delete=models.RESTRICT, null=True, db_index=False, related_name="packs"
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["dataset", "sha256"], name="one_pack_per_hash")]
        indexes = [
            models.Index(fields=["state", "due_at"], name="pack_by_due_time"),
            models.Index(fields=["lender"], condition=models.Q(lender__isnull=False), name="borrowers_of_pack"),
            models.Index(fields=["dataset"], condition=models.Q(lender__isnull=False), name="borrowed_packs"),
            models.Index(fields=["origin"], condition=models.Q(origin__isnull=False), name="packs_by_origin"),
            models.Index(fields=["dataset"], condition=models.Q(origin__isnull=False), name="mapped_packs"),
        ]

    def __str__(self) -> str:
        return self.sha256


class ManifestRange(BaseModel):
    """A range that was read and found right, so that commits which share it need not read it again.

    The paths, files and bytes are what a root must say about it. `names` holds the fingerprints of its names
    (`engine.range_names`), by which a name that differs from another only in case is found without reading the range.
    `is_committed`: it is part of a commit or of a stored tree, so its packs stay as long as it does.
    `touched_at` and `due_at` are used in internal datasets, as those of a stored tree.
    """

    id_prefix = "rng"

    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="ranges")
    range_id = models.CharField(max_length=64)
    first_path = models.BinaryField()
    last_path = models.BinaryField()
    files = models.BigIntegerField()
    size_bytes = models.BigIntegerField()
    names = models.BinaryField(default=bytes)
    is_committed = models.BooleanField(default=False)
    touched_at = models.DateTimeField(default=clock.now)
    due_at = models.DateTimeField(null=True)
    packs = models.ManyToManyField(Pack, related_name="ranges")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["dataset", "range_id"], name="one_range_per_hash")]

    def __str__(self) -> str:
        return self.range_id


class UploadState(StrEnum):
    """`open` until it ends with a commit, is given up, or runs out of time."""

    OPEN = "open"
    COMMITTED = "committed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class UploadSession(BaseModel):
    """One client's work towards a commit of a branch. Every call prolongs it."""

    id_prefix = "up"

    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="uploads")
    branch = models.CharField(max_length=100)
    client_id = models.CharField(max_length=200)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True)
    state = models.CharField(
        max_length=10, choices=[(state.value, state.value) for state in UploadState], default=UploadState.OPEN
    )
    commit = models.ForeignKey(Commit, on_delete=models.SET_NULL, null=True)
    expires_at = models.DateTimeField(default=clock.now)

    class Meta:
        indexes = [models.Index(fields=["state", "expires_at"], name="upload_by_expiry")]

    def __str__(self) -> str:
        return f"upload to {self.branch} by {self.client_id}"


class UploadPart(BaseModel):
    """Files that came whole through the web process: their content is in packs, `entries` (a range) says where.

    A part with a large file grows piece by piece: until `is_complete` its one entry describes what has come so far.
    The client chooses `number`; a part that is sent again is the same part.
    """

    id_prefix = "part"

    upload = models.ForeignKey(UploadSession, on_delete=models.CASCADE, related_name="parts")
    number = models.PositiveIntegerField()
    files = models.IntegerField()
    size_bytes = models.BigIntegerField()
    is_complete = models.BooleanField()
    entries = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["upload", "number"], name="one_upload_part_per_number")]

    def __str__(self) -> str:
        return f"part {self.number} of {self.upload_id}"
