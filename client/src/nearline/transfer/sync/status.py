"""What a linked folder looks like beside its dataset, without changing either."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from nearline.content.diff import Change
from nearline.errors import InvalidRequest
from nearline.transfer.local.workspace import Workspace
from nearline.transfer.remote.server import Server
from nearline.transfer.sync.folder import LinkedFolder
from nearline.transfer.sync.options import Options
from nearline.transfer.sync.sync import show_paths, show_skipped
from nearline.transfer.sync.upload import find_head


@dataclass(frozen=True)
class Comparison:
    """How a folder differs from a commit; paths are text that may hold escaped bytes."""

    files: int
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...]
    is_behind: bool = False

    def to_json(self) -> Mapping[str, Any]:
        """Return the comparison in the form in which the command line prints it."""
        return asdict(self)


def get_status(workspace: Workspace, server: Server, options: Options | None = None) -> Comparison:
    """Say what changed here since the last sync, and whether others committed since."""
    with _opened(workspace, server, options) as folder:
        state, head = folder.workspace.state, find_head(server, folder.workspace.link.branch)
        return _compare(folder, state.root, is_trusting=True, is_behind=head.commit != state.commit)


def verify_folder(workspace: Workspace, server: Server, options: Options | None = None) -> Comparison:
    """Read every file and compare it with the commit that was synced last. Raises InvalidRequest before the first."""
    with _opened(workspace, server, options) as folder:
        state = folder.workspace.state
        if state.commit is None:
            raise InvalidRequest("This folder was never synced, so there is nothing to compare it with.")
        return _compare(folder, state.root, is_trusting=False, is_behind=False)


def compare_folder(workspace: Workspace, server: Server, ref: str, options: Options | None = None) -> Comparison:
    """Say how the folder differs from any commit of its dataset. Raises NotFound."""
    with _opened(workspace, server, options) as folder:
        return _compare(folder, server.get_commit(ref).root, is_trusting=True, is_behind=False)


@contextmanager
def _opened(workspace: Workspace, server: Server, options: Options | None) -> Iterator[LinkedFolder]:
    """Open a folder that may be of another person, or a snapshot: nothing has to be written into it."""
    with workspace.readable() as readable, LinkedFolder.open(readable, server, options or Options()) as folder:
        yield folder


def _compare(folder: LinkedFolder, root: str | None, *, is_trusting: bool, is_behind: bool) -> Comparison:
    tree = folder.manifests.load_root(root)
    scan = folder.scan(tree, is_trusting=is_trusting)
    changes = folder.find_changes(scan, "Checking")
    return Comparison(
        files=scan.files,
        added=show_paths(change.path for change in changes if change.before is None),
        changed=show_paths(change.path for change in changes if _is_changed(change)),
        removed=show_paths(change.path for change in changes if change.after is None),
        skipped=show_skipped(scan.skipped),
        is_behind=is_behind,
    )


def _is_changed(change: Change) -> bool:
    return change.before is not None and change.after is not None
