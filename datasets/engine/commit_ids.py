"""What a commit's id is made of: change a letter of its record, and it is another commit."""

import json
from dataclasses import asdict, dataclass

from nearline.content.hashing import file_id


@dataclass(frozen=True)
class CommitRecord:
    """What a commit says. `parent` is None for the first; `created_at_ms` counts from 1970."""

    dataset: str
    root: str
    parent: str | None
    author: str
    message: str
    source: str
    created_at_ms: int

    def canonical_json(self) -> bytes:
        """Return the one way in which this record is written down."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

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
