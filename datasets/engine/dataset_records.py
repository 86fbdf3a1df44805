"""What the store keeps of a dataset besides its content: names, branches and tags, so that it outlives the database."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

from nearline.content.hashing import file_id

FORMAT: Final = 1


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
        facts = {"format": FORMAT, **asdict(self)}
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
        if facts.pop("format") != FORMAT:
            raise ValueError("it has a format that this version cannot read")
        return cls(**facts)
