"""The tables of datasets, gathered here because Django looks for them in this module."""

from datasets.models.cached_commit import (
    BYTES_ON_DISK,
    FILLED_KINDS,
    CachedCommit,
    CachedCommitEvent,
    CachedCommitEventKind,
    CacheHold,
    CacheSite,
    CacheSiteKind,
    SharedContent,
    SiteArray,
)
from datasets.models.dataset import Branch, Commit, CommitSource, Dataset, Tag
from datasets.models.in_place import WORKING, FileSource, ImportState, InPlaceImport, SourceKind
from datasets.models.query import Query, Selection
from datasets.models.store import StorageLimit, Store, StoreKind
from datasets.models.stored_tree import StoredBlob, StoredTree, TreeHold
from datasets.models.upload import PRESENT, ManifestRange, Pack, PackState, UploadPart, UploadSession, UploadState

__all__ = [
    "BYTES_ON_DISK",
    "FILLED_KINDS",
    "PRESENT",
    "WORKING",
    "Branch",
    "CacheHold",
    "CacheSite",
    "CacheSiteKind",
    "CachedCommit",
    "CachedCommitEvent",
    "CachedCommitEventKind",
    "Commit",
    "CommitSource",
    "Dataset",
    "FileSource",
    "ImportState",
    "InPlaceImport",
    "ManifestRange",
    "Pack",
    "PackState",
    "Query",
    "Selection",
    "SharedContent",
    "SiteArray",
    "SourceKind",
    "StorageLimit",
    "Store",
    "StoreKind",
    "StoredBlob",
    "StoredTree",
    "Tag",
    "TreeHold",
    "UploadPart",
    "UploadSession",
    "UploadState",
]
