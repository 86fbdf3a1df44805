"""What came of a transfer, for people and programs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nearline.content.paths import to_text
from nearline.models import Commit
from nearline.transfer.local.walk import Skipped


@dataclass(frozen=True)
class Outcome:
    """What a transfer did. `commit` is the one that it made; bytes are those of file content that really moved.

    `files_removed` are gone from the folder because others removed them. `skipped` lists what cannot be carried, with
    the reason. `packs_healed` packs were damaged in the store and are whole again; `damaged` are files that stay so,
    because no good copy of them is here. `shared` counts the files that came from a cached copy on this machine by how
    they did (reflink, hard link, copy); `bytes_downloaded` counts these too. Paths are text, maybe with escaped bytes.
    """

    commit: Commit | None = None
    files_uploaded: int = 0
    bytes_uploaded: int = 0
    files_downloaded: int = 0
    bytes_downloaded: int = 0
    files_removed: int = 0
    conflicts: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    packs_healed: int = 0
    damaged: tuple[str, ...] = ()
    shared: Mapping[str, int] = field(default_factory=dict)

    @property
    def commit_id(self) -> str | None:
        """Return the id of the commit that was made."""
        return self.commit.id if self.commit else None

    @property
    def is_up_to_date(self) -> bool:
        """Return whether there was nothing to do."""
        changes = self.files_downloaded or self.files_removed or self.conflicts or self.packs_healed
        return self.commit is None and not changes

    def to_json(self) -> Mapping[str, Any]:
        """Return the outcome in the form in which the command line prints it."""
        return {
            "commit": self.commit.to_json() if self.commit else None,
            "commit_id": self.commit_id,
            "is_up_to_date": self.is_up_to_date,
            "files_uploaded": self.files_uploaded,
            "bytes_uploaded": self.bytes_uploaded,
            "files_downloaded": self.files_downloaded,
            "bytes_downloaded": self.bytes_downloaded,
            "files_removed": self.files_removed,
            "conflicts": list(self.conflicts),
            "packs_healed": self.packs_healed,
            "damaged": list(self.damaged),
            "shared": dict(self.shared),
            "skipped": [{"path": path, "why": why} for path, why in self.skipped],
        }


def show_paths(paths: Iterable[bytes]) -> tuple[str, ...]:
    """Return paths as text."""
    return tuple(map(to_text, paths))


def show_skipped(skipped: Iterable[Skipped]) -> tuple[tuple[str, str], ...]:
    """Return what was skipped as text."""
    return tuple((to_text(skip.path), skip.why) for skip in skipped)
