"""Trees of the store as folders of this host: one read-only folder for each root, shared by all jobs that mount it.

    <root>/           the verified files; it appears at once and whole
    <root>.partial/   files that arrive; whoever comes after a kill goes on with them
    <root>.seal       what the folder looked like when it was whole, to find a change by other hands
    <root>.lock       held while the folder is made or removed; its time says when the folder was last used

A folder may be deleted at any time: the next job that needs it has it written again.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from compute.adapters.file_locks import try_lock
from compute.engine.job_spec import Tree
from compute.engine.ports import Launch
from core import clock
from core.removals import remove
from core.sealed_folder import SealedFolder
from datasets.errors import HydrationStopped

_POLL_S = 0.05

ShouldStop = Callable[[], bool]
OnWait = Callable[[str], None]


def ignore_wait(_reason: str) -> None:
    """Tell nobody."""


class TreeSource(Protocol):
    """A tree that can be read without the database."""

    def write(self, target: Path, should_stop: ShouldStop, on_wait: OnWait) -> object:
        """Make a folder hold the tree and keep what is right there; `on_wait` is told what is waited for.

        Raises PlatformError, HydrationStopped on stop.
        """


@dataclass(frozen=True)
class TreeFolders:
    """The folder of these folders. Any number of threads and processes may use it at once.

    `open_tree` finds a tree that a launch mounts in the store. It may ask the database, so only the caller's own
    thread calls it.
    """

    home: Path
    open_tree: Callable[[Tree, Launch], TreeSource]

    def find(self, tree: Tree) -> Path | None:
        """Return the folder of a tree, from now on in use; None where it is not here, or was changed."""
        sealed = self.sealed(tree)
        try:
            os.utime(self._lock(tree.root))
        except FileNotFoundError:
            return None
        return sealed.folder if sealed.record.exists() and not sealed.compare().paths else None

    def sealed(self, tree: Tree) -> SealedFolder:
        """Return the evidence by which a change of a tree's folder is found."""
        return SealedFolder(self.home / tree.root, self.home / f"{tree.root}.seal")

    def bring(
        self,
        tree: Tree,
        source: TreeSource,
        should_stop: ShouldStop = lambda: False,
        on_wait: OnWait = ignore_wait,
    ) -> Path:
        """Return the folder of a tree, written if need be. Of many callers one writes, and the others wait for it.

        Raises HydrationStopped once `should_stop` says yes, OSError, and what `source.write` raises.
        """
        self.home.mkdir(parents=True, exist_ok=True)
        with self._locked(tree.root, should_stop):
            if (folder := self.find(tree)) is not None:
                return folder
            sealed = self.sealed(tree)
            partial = self.home / f"{tree.root}.partial"
            if sealed.folder.exists():
                # Jobs may be reading it, so it is put right where it is.
                _open_folders(sealed.folder)
                for path in sealed.compare().paths:
                    remove(sealed.folder / path)
                source.write(sealed.folder, should_stop, on_wait)
                sealed.seal_again()
            else:
                source.write(partial, should_stop, on_wait)
                partial.rename(sealed.folder)
                # A new folder was never put right, whoever reads an older one that was deleted.
                sealed.forget()
                sealed.seal()
            return sealed.folder

    def list_roots(self) -> list[str]:
        """Return the roots of which there is something here."""
        return sorted(lock.stem for lock in self.home.glob("*.lock"))

    def delete_idle(self, root: str, *, idle_s: float) -> bool:
        """Delete the folder of a root, unless it was used within that time or is being written; say whether it went."""
        if not self._is_idle(root, idle_s):
            return False
        try:
            with self._locked(root, lambda: True):
                if not self._is_idle(root, idle_s):  # A job began to use it meanwhile.
                    return False
                for path in (f"{root}.seal", root, f"{root}.partial", f"{root}.lock"):
                    remove(self.home / path)
        except HydrationStopped:
            return False
        return True

    def _is_idle(self, root: str, idle_s: float) -> bool:
        try:
            used_at = self._lock(root).stat().st_mtime
        except FileNotFoundError:
            return False
        return clock.now().timestamp() - used_at >= idle_s

    @contextmanager
    def _locked(self, root: str, should_stop: ShouldStop) -> Iterator[None]:
        """Hold the lock of a root. Raises HydrationStopped while another holds it and `should_stop` says yes."""
        descriptor = self._take(root, should_stop)
        try:
            yield
        finally:
            os.close(descriptor)

    def _take(self, root: str, should_stop: ShouldStop) -> int:
        while True:
            descriptor = os.open(self._lock(root), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if try_lock(descriptor) and self._is_current(root, descriptor):
                return descriptor
            os.close(descriptor)
            if should_stop():
                raise HydrationStopped("Stopped on request.")
            time.sleep(_POLL_S)

    def _is_current(self, root: str, descriptor: int) -> bool:
        """Whether a lock is still the one that others take: it goes with its folder."""
        try:
            return os.path.samestat(self._lock(root).stat(), os.fstat(descriptor))
        except FileNotFoundError:
            return False

    def _lock(self, root: str) -> Path:
        return self.home / f"{root}.lock"


def _open_folders(top: Path) -> None:
    """Let the owner write to all folders of a tree."""
    for place, _, _ in os.walk(top):
        os.chmod(place, 0o700)  # noqa: PTH101 (much quicker for many)
