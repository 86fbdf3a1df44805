"""The checkpoint folders of this host: what jobs keep there outlives their runs, until the platform deletes it.

    <name>/           what the runs of a job, or the attempts of a step, have saved
    <name>.root       the root of the stored tree that the folder began as; missing: it began empty
    <name>.partial/   a tree that arrives

A folder is used by one run at a time, and is put in place whole before that run starts.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from compute.adapters.local.tree_folders import OnWait, ShouldStop, TreeSource, ignore_wait
from compute.adapters.output_folder import OutputFolder
from compute.engine.ports import CheckpointFolder
from core.removals import remove_folder


@dataclass(frozen=True)
class CheckpointFolders:
    """The folder of these folders."""

    home: Path

    def path(self, name: str) -> Path:
        """Return where a folder is, or would be."""
        return self.home / name

    def is_current(self, checkpoint: CheckpointFolder) -> bool:
        """Whether a folder holds what its next run is to find: the stored tree, or what was made of that here."""
        if checkpoint.tree is None:
            return True
        return self.path(checkpoint.name).is_dir() and self._read_root(checkpoint.name) == checkpoint.tree.root

    def prepare(self, name: str) -> Path:
        """Return a folder, made where there is none."""
        self.path(name).mkdir(parents=True, exist_ok=True)
        return self.path(name)

    def bring(
        self,
        checkpoint: CheckpointFolder,
        source: TreeSource,
        should_stop: ShouldStop,
        on_wait: OnWait = ignore_wait,
    ) -> None:
        """Put the stored tree in place of what is here. Raises what `source.write` raises; then nothing has changed."""
        assert checkpoint.tree is not None  # noqa: S101 (else it is current)
        self.home.mkdir(parents=True, exist_ok=True)
        partial, folder = self.home / f"{checkpoint.name}.partial", self.path(checkpoint.name)
        remove_folder(partial)
        source.write(partial, should_stop, on_wait)
        _let_owner_write(partial)
        # Who dies in between finds another root noted, and begins anew.
        self._root(checkpoint.name).unlink(missing_ok=True)
        remove_folder(folder)
        partial.rename(folder)
        self._root(checkpoint.name).write_text(checkpoint.tree.root)

    def open(self, name: str) -> OutputFolder | None:
        """Return what reads a folder; None where there is none."""
        return OutputFolder(self.path(name)) if self.path(name).is_dir() else None

    def list_names(self) -> list[str]:
        """Return the names of all folders of which there is something."""
        if not self.home.is_dir():
            return []
        return sorted({path.name.partition(".")[0] for path in self.home.iterdir()})

    def delete(self, name: str) -> None:
        """Delete a folder. Unknown names are fine."""
        for path in (self.path(name), self.home / f"{name}.partial"):
            remove_folder(path)
        self._root(name).unlink(missing_ok=True)

    def _root(self, name: str) -> Path:
        return self.home / f"{name}.root"

    def _read_root(self, name: str) -> str:
        try:
            return self._root(name).read_text()
        except FileNotFoundError:
            return ""


def _let_owner_write(top: Path) -> None:
    """Let the job write to what came from the store, which is read-only."""
    for place, _, names in os.walk(top):
        os.chmod(place, 0o755)  # noqa: PTH101, S103 (much quicker for many; the home above is closed)
        for name in names:
            path = f"{place}/{name}"
            facts = os.lstat(path)
            if stat.S_ISREG(facts.st_mode):
                os.chmod(path, facts.st_mode | 0o200)  # noqa: PTH101
