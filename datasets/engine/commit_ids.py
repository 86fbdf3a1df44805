"""What a commit's id is made of: change a letter of its record, and it is another commit."""

import json
from dataclasses import asdict, dataclass

from nearline.content.hashing import file_id


@dataclass(frozen=True)
class CommitRecord:
    """What a commit says. `parent` is None for the first; `created_at_ms` counts from 1970.

    `merged` is the commit whose changes a merge brought in; every other record goes without that field.
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
