"""Which names a folder keeps to itself: those of its ignore files, and those of the workspace.

What is ignored is neither sent nor fetched nor removed: a commit that holds such a file keeps it.
"""

import os
import re
from collections.abc import Iterable, Sequence

from nearline.content import ignore
from nearline.content.ignore import IGNORE_FILES, MAX_IGNORE_BYTES, split_lines
from nearline.errors import InvalidRequest

_WORKSPACES = (b".nearline", b".cnvrg")
_OWN_ENDINGS = (b".conflict", b".deleted")
_OWN = re.compile(rb"\.(conflict|deleted)(/|\Z)|(\A|/)\.(nearline|cnvrg|tmp)/")


def has_own_name(path: bytes) -> bool:
    """Return whether a path, or a folder above it, has a name that workspaces keep to themselves; folders end in /."""
    return _OWN.search(path) is not None


class IgnoreRules(ignore.IgnoreRules):
    """The rules of a folder that is synchronised, and folders in it that could not be looked into."""

    def __init__(self, lines: Iterable[str] = (), unseen_folders: Iterable[bytes] = ()) -> None:
        super().__init__(lines)
        self._unseen: tuple[bytes, ...] = ()
        self.leave_alone(unseen_folders)

    def leave_alone(self, folders: Iterable[bytes]) -> None:
        """Cover what lies in these folders too."""
        self._unseen += tuple(folder + b"/" for folder in folders)

    def covers(self, path: bytes) -> bool:
        """Return whether the file at this path is ignored, by its own name or by that of a folder above it."""
        return path.startswith(self._unseen) or has_own_name(path) or super().covers(path)

    def is_ignored(self, path: bytes, *, is_folder: bool) -> bool:
        """Return whether this path itself is ignored; an ignored folder above it is the caller's business."""
        return has_own_name(path + b"/" if is_folder else path) or super().is_ignored(path, is_folder=is_folder)

    def leave_out(self, paths: Sequence[bytes], *, is_folder: bool) -> list[bytes]:
        """Return those of these paths that are not ignored themselves."""
        if not is_folder and not self.has_rules:
            # As most folders are: a million files cost no call each.
            return [path for path in paths if not path.endswith(_OWN_ENDINGS)]
        return [path for path in paths if not self.is_ignored(path, is_folder=is_folder)]

    def list_own(self, paths: Iterable[bytes], *, is_folder: bool) -> list[bytes]:
        """Return those of these paths that nothing but their name keeps here; workspaces are nobody's files."""
        return [
            path
            for path in paths
            if has_own_name(path + b"/" if is_folder else path)
            and not path.endswith(_WORKSPACES)
            and not super(IgnoreRules, self).is_ignored(path, is_folder=is_folder)
        ]


def read_rules(root: bytes, unseen_folders: Iterable[bytes] = ()) -> IgnoreRules:
    """Return the rules that the files at the root of the folder make. Raises InvalidRequest for an endless one."""
    lines: list[str] = []
    for name in IGNORE_FILES:
        try:
            with open(os.path.join(root, name), "rb", opener=_open_at_once) as file:
                data = file.read(MAX_IGNORE_BYTES + 1)
        except FileNotFoundError:
            continue
        if len(data) > MAX_IGNORE_BYTES:
            raise InvalidRequest(
                f"'{name.decode()}' is larger than {MAX_IGNORE_BYTES // 2**20} MiB.", hint="Use fewer lines."
            )
        lines += split_lines(data)
    return IgnoreRules(lines, unseen_folders)


def _open_at_once(path: str | bytes, flags: int) -> int:
    # A pipe is empty as long as nobody writes; it would wait for somebody who does.
    return os.open(path, flags | os.O_NONBLOCK)
