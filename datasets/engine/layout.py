"""What a store holds of a dataset: the keys of its objects, and the records from which the database can be rebuilt.

Content is named by its hash, so nothing is overwritten. One rule for every adapter says which texts are keys, so that
no key can mean two things or leave its root.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

from nearline.content.hashing import file_id

_PART = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_KEY = re.compile(rf"{_PART}(/{_PART})*")
_PREFIX = re.compile(rf"({_PART}/)*")
_RECORD_FORMAT: Final = 1


def check_key(key: str) -> None:
    """Raise ValueError unless `key` may name an object."""
    if not _KEY.fullmatch(key):
        raise ValueError(f"{key!r} is not a store key")


def check_prefix(prefix: str) -> None:
    """Raise ValueError unless `prefix` may be listed: empty, or whole parts and a slash at the end."""
    if not _PREFIX.fullmatch(prefix):
        raise ValueError(f"{prefix!r} is not a prefix of store keys")


def dataset_prefix(dataset_id: str) -> str:
    """Return the prefix under which everything of one dataset lies."""
    return f"datasets/{dataset_id}"


def dataset_of_key(key: str) -> tuple[str, str]:
    """Return the dataset that a key of the whole store belongs to, and the key within the dataset; empty for others."""
    folder, _, rest = key.partition("/")
    dataset_id, _, inner = rest.partition("/")
    return (dataset_id, inner) if folder == "datasets" else ("", "")


def pack_key(sha256: str) -> str:
    """Return the key of a pack, by the SHA-256 of its bytes."""
    return f"packs/{sha256[:2]}/{sha256}"


def map_key(sha256: str) -> str:
    """Return the key of the map that stands for a pack whose content lies in files of a source."""
    return f"maps/{sha256[:2]}/{sha256}"


def range_key(range_id: str) -> str:
    """Return the key of a manifest range."""
    return f"ranges/{range_id}"


def root_key(root_id: str) -> str:
    """Return the key of a root: the ordered list of a commit's ranges."""
    return f"roots/{root_id}"


def commit_key(commit_id: str) -> str:
    """Return the key of the copy of a commit's record, from which the database can be rebuilt."""
    return f"commits/{commit_id}"


def record_key(version: int) -> str:
    """Return the key of what the dataset was like at a version of its state; the digits let keys sort by version."""
    return f"records/{version:016d}"


@dataclass(frozen=True)
class CommitRecord:
    """What a commit says; another letter makes another commit. Its `parent` is None for the first.

    `created_at_ms` counts from 1970. `merged` is the commit whose changes a merge brought in; every other record goes
    without that field.
    """

    dataset: str
    root: str
    parent: str | None
    author: str
    message: str
    source: str
    created_at_ms: int
    merged: str | None = None

    @property
    def parents(self) -> list[str]:
        """The commits that this one was made of."""
        return [id_ for id_ in (self.parent, self.merged) if id_ is not None]

    def canonical_json(self) -> bytes:
        """Return the one way in which this record is written down."""
        fields = {name: value for name, value in asdict(self).items() if name != "merged" or value is not None}
        return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    @property
    def commit_id(self) -> str:
        """Return the BLAKE3 of the record, in hexadecimal."""
        return file_id(self.canonical_json()).hex()

    @classmethod
    def read(cls, data: bytes, commit_id: str) -> "CommitRecord":
        """Return the record that was stored as this commit. Raises ValueError unless it is that one."""
        if file_id(data).hex() != commit_id:
            raise ValueError("its bytes are not those of its id")
        return cls(**json.loads(data))


@dataclass(frozen=True)
class DatasetRecord:
    """What a dataset was like at a version of its state. Times are milliseconds since 1970.

    `branches` has the head of each branch by its name, None where it has no commit; `tags` the commit of each tag;
    `queries` what each query asks for (`conditions`) and of which commit (`ref`); `restore_ends_at_ms` until when a
    deleted dataset can be restored. Without a query, and where there is no such time, the record has no such key.
    """

    dataset: str
    version: int
    project: str
    project_name: str
    name: str
    description: str
    kind: str
    is_internal: bool
    default_branch: str
    idle_days: float | None
    created_at_ms: int
    deleted_at_ms: int | None
    branches: Mapping[str, str | None]
    tags: Mapping[str, str]
    queries: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    restore_ends_at_ms: int | None = None

    def encode(self) -> bytes:
        """Return the record as it is stored: the BLAKE3 of the second line in hexadecimal, then the record as JSON."""
        facts = {"format": _RECORD_FORMAT, **asdict(self)}
        if not self.queries:
            del facts["queries"]
        if self.restore_ends_at_ms is None:
            del facts["restore_ends_at_ms"]
        text = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        return file_id(text).hex().encode() + b"\n" + text

    @classmethod
    def decode(cls, data: bytes) -> "DatasetRecord":
        """Return a stored record. Raises ValueError for one that is damaged or of another format."""
        digest, _, text = data.partition(b"\n")
        if file_id(text).hex().encode() != digest:
            raise ValueError("its bytes are not those of its hash")
        facts = json.loads(text)
        if facts.pop("format") != _RECORD_FORMAT:
            raise ValueError("it has a format that this version cannot read")
        return cls(**facts)
