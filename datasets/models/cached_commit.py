"""Places near compute, the commits cached there, and who is using them."""

from enum import StrEnum

from django.db import models
from django.db.models import Case, F, Value, When
from django.db.models.functions import Least

from core import clock
from core.orm import BaseModel, Leased
from datasets.engine import volumes
from datasets.engine.cache_ports import EARLY_FOLDER
from datasets.engine.cache_states import CURRENT, CacheState, has_begun
from datasets.models.dataset import Commit, Dataset


class CacheSiteKind(StrEnum):
    """The technology behind a cache site."""

    FOLDER = "folder"
    SIMULATED = "simulated"
    VOLUME = "volume"
    NFS = "nfs"
    EXISTING = "existing"
    SSH = "ssh"


_OF_RESOURCES = frozenset({CacheSiteKind.VOLUME, CacheSiteKind.NFS, CacheSiteKind.EXISTING, CacheSiteKind.SSH})
FILLED_KINDS = frozenset({CacheSiteKind.FOLDER, CacheSiteKind.VOLUME, CacheSiteKind.NFS, CacheSiteKind.SSH})
"""Those whose copies are made of the files of commits, and can be read meanwhile."""


class CacheSite(BaseModel):
    """A place near compute that holds cached commits.

    `root` is its folder, or a name that no folder has. `config` holds what is special to its kind. `idle_days` is how
    long a commit may lie there unused; 0: for ever. `host` is the id of the host whose workers fill it, empty where
    any may (see `core.hosts`). Of a folder, `mark` is also in a file there (`adapters.folder_marks`), empty until its
    host has looked at it. `absence` says why the folder is not there, as its host has seen it last; empty: it is.
    """

    id_prefix = "site"

    name = models.CharField(max_length=63, unique=True)
    kind = models.CharField(
        max_length=10, choices=[(kind.value, kind.value) for kind in CacheSiteKind], default=CacheSiteKind.FOLDER
    )
    root = models.CharField(max_length=1000)
    config = models.JSONField(default=dict)
    host = models.CharField(max_length=64, blank=True)
    mark = models.CharField(max_length=64, blank=True, default="")
    absence = models.TextField(blank=True, default="")
    capacity_bytes = models.BigIntegerField()
    idle_days = models.FloatField(default=1)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(capacity_bytes__gte=0, idle_days__gte=0), name="sane_site")
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def cluster(self) -> str:
        """The id of the attached cluster or host whose jobs alone can read it; empty: it is on none."""
        return str(self.config["resource"]) if self.kind in _OF_RESOURCES else ""

    @property
    def warning(self) -> str:
        """What keeps the site from working as well as it could; empty: nothing that is known."""
        return str(self.config.get("warning", ""))

    @property
    def has_volumes(self) -> bool:
        """Whether each copy on it is a volume of its own."""
        return self.kind == CacheSiteKind.VOLUME and not volumes.is_pool(self.config)

    @property
    def max_volumes(self) -> int | None:
        """How many volumes it has at most; None: any number, or its copies are none."""
        return self.config.get(volumes.MAX_VOLUMES) if self.has_volumes else None

    @property
    def starts_jobs_early(self) -> bool:
        """Whether jobs can mount a copy on it that is being filled, under a name that stays."""
        return self.kind in FILLED_KINDS

    @property
    def is_simulated(self) -> bool:
        """Whether the site and what lies on it do not exist."""
        return self.kind == CacheSiteKind.SIMULATED


class SiteArray(BaseModel):
    """The storage array behind a site, which tells its own space to an account that may only read.

    `credentials` is encrypted JSON. `volumes` is the pattern of the names of volumes that count; empty: all. `space` is
    what it told at `read_at`; since `failed_at` it could not be read, because of `error`.
    """

    id_prefix = "arr"

    site = models.OneToOneField(CacheSite, on_delete=models.CASCADE, related_name="array")
    url = models.CharField(max_length=500)
    svm = models.CharField(max_length=100)
    volumes = models.CharField(max_length=200, blank=True)
    certificate = models.TextField(blank=True)
    credentials = models.BinaryField()
    space = models.JSONField(default=list)
    read_at = models.DateTimeField()
    failed_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)

    def __str__(self) -> str:
        return self.url


class CachedCommit(Leased, BaseModel):
    """One commit on one cache site, from the request until it is gone; a row is never used again after that.

    `location` is relative to the site's folder. `reserved_bytes` is its part of what the site has promised: files that
    it shares are charged to one of the copies that share them. `bytes_moved` came from the store, `bytes_shared` from
    `base`, `bytes_copied` from `donor`, a copy of the commit on another site. `started_at` is when its filling began.
    `settled_ns` is the site's own clock when the platform last changed files of this copy. `is_weighed` says that what
    its removal frees is settled.

    `next_packs` are those that jobs which read it while it is filled need next. Where several pods fill it,
    `share_reports` has what each has told last of its share; the counts are their sums.

    `is_for_holders`: only those who hold it have asked for it, so it is cancelled if none of them is left before it is
    ready. `paused_at`: since then its filling, which had begun, makes way for copies that are needed now.

    Who holds `lease_token` works on it until `lease_expires_at`; a write under another token changes nothing.
    `attempts` counts the workers that took it up since it last got on.
    """

    id_prefix = "cc"

    site = models.ForeignKey(CacheSite, on_delete=models.PROTECT, related_name="cached_commits")
    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="cached_commits")
    commit = models.ForeignKey(Commit, on_delete=models.CASCADE, related_name="cached_commits")
    state = models.CharField(
        max_length=12, choices=[(state.value, state.value) for state in CacheState], default=CacheState.QUEUED
    )
    location = models.CharField(max_length=300)
    base = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, related_name="+")
    donor = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, related_name="+")
    requested_by = models.CharField(max_length=200)
    is_for_holders = models.BooleanField(default=False)
    waits_for = models.CharField(max_length=300, blank=True)

    files_total = models.BigIntegerField()
    bytes_total = models.BigIntegerField()
    files_done = models.BigIntegerField(default=0)
    bytes_done = models.BigIntegerField(default=0)
    bytes_moved = models.BigIntegerField(default=0)
    bytes_shared = models.BigIntegerField(default=0)
    bytes_copied = models.BigIntegerField(default=0)
    rate_bytes_s = models.FloatField(null=True)
    reserved_bytes = models.BigIntegerField()

    is_pinned = models.BooleanField(default=False)
    last_used_at = models.DateTimeField(default=clock.now)
    last_used_by = models.CharField(max_length=200, blank=True)
    started_at = models.DateTimeField(null=True)
    paused_at = models.DateTimeField(null=True)
    ready_at = models.DateTimeField(null=True)
    settled_ns = models.BigIntegerField(null=True)
    scrubbed_at = models.DateTimeField(null=True)
    scrub_requested_at = models.DateTimeField(null=True)
    is_weighed = models.BooleanField(default=False)

    next_packs = models.JSONField(default=list)
    share_reports = models.JSONField(default=list)

    attempts = models.PositiveIntegerField(default=0)
    error_code = models.CharField(max_length=100, blank=True)
    error = models.TextField(blank=True)
    error_hint = models.TextField(blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["site", "state"], name="cached_commit_by_state"),
            # Those that are gone stay as rows, and periodic tasks look at all others.
            models.Index(fields=["state"], name="cached_commits_in_state"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["site", "commit"],
                condition=models.Q(state__in=sorted(CURRENT)),
                name="one_current_copy_per_site",
            )
        ]

    def __str__(self) -> str:
        return f"{self.commit_id[:8]} on {self.site.name}"

    @property
    def path(self) -> str | None:
        """The folder that holds the files; None while it is not ready. Needs the site at hand."""
        return self._folder if self.state == CacheState.READY else None

    @property
    def source(self) -> dict[str, str] | None:
        """What jobs mount to read the files, as JSON. Needs site and commit at hand.

        None while it is not ready, or the folder of its site is away.
        """
        return self._place if self.state == CacheState.READY and not self.site.absence else None

    @property
    def _folder(self) -> str:
        if self.site.kind == CacheSiteKind.SSH:
            return f"{self.site.root}/{self.pk}/{volumes.FILES}"
        return f"{self.site.root}/{self.location}"

    @property
    def _place(self) -> dict[str, str]:
        if self.site.is_simulated:  # its files are in the store alone
            return {"kind": "tree", "dataset_id": self.dataset_id, "root": self.commit.root}
        if self.site.kind == CacheSiteKind.EXISTING:
            return volumes.existing_source_of(self.site.config)
        if self.site.kind == CacheSiteKind.NFS:
            return volumes.export_source_of(self.pk, self.site.config)
        if self.site.kind == CacheSiteKind.VOLUME:
            return volumes.source_of(self.pk, self.site_id, self.site.config)
        is_remote = self.site.kind == CacheSiteKind.SSH
        where = {"kind": "remote_folder", "resource": self.site.cluster} if is_remote else {"kind": "host_folder"}
        return where | {"path": self._folder}

    @property
    def early_source(self) -> dict[str, str] | None:
        """What jobs mount that read the files while it is being filled; None where nothing of it is there yet.

        Each file that it shows is complete. Needs site and commit at hand.
        """
        if self.state == CacheState.READY:
            return self.source
        if self.site.absence or not self.site.starts_jobs_early or not has_begun(self.state, self.bytes_done):
            return None
        if self.site.kind == CacheSiteKind.FOLDER:
            return {"kind": "host_folder", "path": f"{self.site.root}/{EARLY_FOLDER}/{self.pk}"}
        return self._place

    @property
    def bytes_on_disk(self) -> int:
        """What it takes on its site's disk as far as it is charged for it."""
        if self.state in {CacheState.READY, CacheState.EVICTING}:
            return self.reserved_bytes
        return min(self.reserved_bytes, max(0, self.bytes_done - self.bytes_shared))

    @property
    def percent(self) -> int:
        """How much of it is there, in whole percents; 100 only when it is ready."""
        if self.state == CacheState.READY:
            return 100
        return min(99, self.bytes_done * 100 // self.bytes_total) if self.bytes_total else 0

    @property
    def eta_s(self) -> float | None:
        """Seconds until it is ready at the present rate; None when nothing is known."""
        if self.state != CacheState.HYDRATING or not self.rate_bytes_s:
            return None
        return max(0, self.bytes_total - self.bytes_done) / self.rate_bytes_s


BYTES_ON_DISK = Case(
    When(state__in=(CacheState.READY, CacheState.EVICTING), then=F("reserved_bytes")),
    When(bytes_done__lte=F("bytes_shared"), then=Value(0)),
    default=Least(F("reserved_bytes"), F("bytes_done") - F("bytes_shared")),
)
"""`CachedCommit.bytes_on_disk` as the database computes it."""


class SharedContent(BaseModel):
    """What a copy of a commit, once it is made on a site, can share with the ready copies there.

    `base` has most of it; null: no copy has any. It holds while `base` is ready, and until another copy of the dataset
    becomes ready after `measured_at`.
    """

    id_prefix = "sc"

    site = models.ForeignKey(CacheSite, on_delete=models.CASCADE, related_name="+")
    commit = models.ForeignKey(Commit, on_delete=models.CASCADE, related_name="+")
    base = models.ForeignKey(CachedCommit, on_delete=models.CASCADE, null=True, related_name="+")
    shared_bytes = models.BigIntegerField()
    measured_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["site", "commit"], name="one_shared_content_per_site")]

    def __str__(self) -> str:
        return f"{self.commit_id[:8]} on {self.site.name}"


class CacheHold(BaseModel):
    """Someone's reason why a cached commit must stay, such as a job that reads it or waits for it.

    One that is held only `is_ahead`, for what may be read next, makes way for what is needed now.
    """

    id_prefix = "hold"

    cached_commit = models.ForeignKey(CachedCommit, on_delete=models.CASCADE, related_name="holds")
    holder = models.CharField(max_length=100, db_index=True)
    why = models.CharField(max_length=200)
    is_ahead = models.BooleanField(default=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cached_commit", "holder"], name="one_hold_per_holder")]

    def __str__(self) -> str:
        return self.why


class CachedCommitEventKind(StrEnum):
    """What an event tells."""

    STATE = "state"
    TAKEN_OVER = "taken_over"
    DAMAGED = "damaged"
    HEALED = "healed"
    NOT_HEALED = "not_healed"


class CachedCommitEvent(BaseModel):
    """Something that happened to a cached commit. Append only."""

    id_prefix = "cev"

    cached_commit = models.ForeignKey(CachedCommit, on_delete=models.CASCADE, related_name="events")
    kind = models.CharField(max_length=12, choices=[(kind.value, kind.value) for kind in CachedCommitEventKind])
    state = models.CharField(max_length=12, choices=[(state.value, state.value) for state in CacheState])
    message = models.TextField(blank=True)
    facts = models.JSONField(default=dict)

    def __str__(self) -> str:
        return self.message or self.state
