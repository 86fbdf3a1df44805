"""The files of a folder that a dataset may carry, in the order of their paths.

They are streamed: nothing is held but the folders being read. A folder keeps names to itself: those of its ignore
files, and those of the workspace. What is ignored is neither sent nor fetched nor removed: a commit that holds such a
file keeps it.
"""

import errno
import os
import re
import stat
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import NamedTuple

from nearline.content import ignore
from nearline.content.entries import LIMIT_NS, EntryKind, carried_ns, check_target
from nearline.content.errors import BadPath
from nearline.content.ignore import IGNORE_FILES, MAX_IGNORE_BYTES, split_lines
from nearline.content.paths import check_path, check_paths, show_path
from nearline.errors import Failed, InvalidRequest, hint_for
from nearline.transfer.local.workspace import LINK_FILE

EMPTY_FOLDER = "is an empty folder, and a dataset keeps files only"
LINKED_FOLDER = "is linked to a dataset of its own"
OWN_NAME = "has a name that synced folders keep to themselves"
TOO_LONG = "has a longer name, from the root of the machine, than the system takes"

_LEFT_MEANWHILE = frozenset({errno.ENOENT, errno.ENOTDIR})
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


def longest_path(root: bytes) -> int:
    """Return how many bytes a path below `root` may have: from the root of the machine, the system takes no more."""
    return os.pathconf(root, "PC_PATH_MAX") - len(root + b"/\0")


class LocalFile(NamedTuple):
    """A file or link on disk. The numbers after `mode` tell whether it is still the same; a link has its `target`."""

    path: bytes
    kind: EntryKind
    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    target: bytes = b""

    @property
    def signature(self) -> tuple[int, int, int, int]:
        """Return what changes when the content does."""
        return self.size, self.mtime_ns, self.ctime_ns, self.inode


# The same as `LocalFile._make` without a Python call for each of a million files.
_new_file: Callable[[Iterable[object]], LocalFile] = partial(tuple.__new__, LocalFile)
# Asking an enumeration for a member costs as much as the rest of describing a file.
_FILE = EntryKind.FILE


class Skipped(NamedTuple):
    """Something that cannot be carried, with the reason."""

    path: bytes
    why: str

    @property
    def is_unseen(self) -> bool:
        """Return whether, as a folder, it may hold files all the same."""
        return self.why in {LINKED_FOLDER, TOO_LONG}

    @property
    def is_own(self) -> bool:
        """Return whether nothing but its name is against it."""
        return self.why == OWN_NAME


def normal_mode(mode: int) -> int:
    """Return the mode as it is carried: whether the owner may execute is kept, the rest is everyone's umask."""
    return 0o755 if mode & 0o100 else 0o644


def describe(path: bytes, status: os.stat_result, target: bytes = b"") -> LocalFile:
    """Return what a stat says about a file or, with its target, a link."""
    if stat.S_ISLNK(status.st_mode):
        kind, mode, size = EntryKind.SYMLINK, 0o777, len(target)
    else:
        kind, mode, size = _FILE, normal_mode(status.st_mode), status.st_size
    mtime_ns = status.st_mtime_ns
    # Asked here: a call for each of a million files would take a quarter of a second.
    if not -LIMIT_NS <= mtime_ns < LIMIT_NS:
        mtime_ns = carried_ns(mtime_ns)
    return _new_file((path, kind, mode, size, mtime_ns, status.st_ctime_ns, status.st_ino, target))


def walk(root: bytes, rules: IgnoreRules, skipped: list[Skipped]) -> Iterator[LocalFile]:
    """Yield every file and link below `root` that is not ignored; append to `skipped` what cannot be carried."""
    yield from Walk(root, rules, enters_linked=True).between(b"", None, skipped)


_order = itemgetter(0)


@dataclass
class _Listed:
    """A folder that is being walked. `names` are as `_list_folder` returns them; those before `place` were passed."""

    names: list[tuple[bytes, bytes]]
    is_sound: bool
    place: int = 0


class Walk:
    """The files and links below `root` that are not ignored, part by part. No folder is listed twice.

    Folders in it that are linked themselves are entered only where that is asked for.
    """

    def __init__(self, root: bytes, rules: IgnoreRules, *, enters_linked: bool = False) -> None:
        self._enters_linked = enters_linked
        self._base = root + b"/"
        self._rules = rules
        self._own: set[bytes] = set()
        self._stack = [self._list_folder(b"")]

    def between(self, after: bytes, last: bytes | None, skipped: list[Skipped]) -> Iterator[LocalFile]:
        """Yield what lies behind the path `after`, up to `last`; append to `skipped` what cannot be carried there.

        A part begins where the one before ended, or behind that, and is taken to its end.
        """
        base, stack = self._base, self._stack
        while stack:
            folder = stack[-1]
            names, places = folder.names, self._places(folder, after, last)
            for place in places:
                order, path = names[place]
                try:
                    if not folder.is_sound:
                        self._check_name(path)
                    if order is not path:
                        self._check_folder(path)
                        folder.place = place + 1
                        stack.append(self._list_folder(order))
                        break
                    status = os.lstat(base + path)
                    is_file = stat.S_ISREG(status.st_mode)
                    yield describe(path, status) if is_file else _describe_link(base, path, status)
                except BadPath as error:
                    skipped.append(Skipped(path, error.why))
                except OSError as error:
                    if error.errno == errno.ENAMETOOLONG:
                        skipped.append(Skipped(path, TOO_LONG))
                    elif error.errno not in _LEFT_MEANWHILE:
                        raise cannot("read", path, error) from error
            else:
                folder.place = places.stop
                if places.stop < len(names):
                    return
                stack.pop()

    def _places(self, folder: _Listed, after: bytes, last: bytes | None) -> range:
        """Return where the names between two paths stand, after that of the folder in which `after` lies."""
        names = folder.names
        start = bisect_right(names, after, folder.place, key=_order)
        if start > folder.place:
            order, path = names[start - 1]
            # Were it left out, the part before would have told so.
            start -= order is not path and after.startswith(order) and not self._is_left_out(path)
        return range(start, len(names) if last is None else bisect_right(names, last, start, key=_order))

    def _is_left_out(self, path: bytes) -> bool:
        try:
            self._check_name(path)
            self._check_folder(path)
        except BadPath:
            return True
        return False

    def _check_name(self, path: bytes) -> None:
        check_path(path)
        if path in self._own:
            raise BadPath(path, OWN_NAME)

    def _check_folder(self, path: bytes) -> None:
        """Raise BadPath where a folder is left out as a whole."""
        folder = self._base + path
        try:
            with os.scandir(folder) as entries:
                if next(entries, None) is None:
                    raise BadPath(path, EMPTY_FOLDER)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise BadPath(path, TOO_LONG) from error
            # Reading it says what else is wrong.
            return
        if not self._enters_linked and os.path.isfile(folder + LINK_FILE):
            raise BadPath(path, LINKED_FOLDER)

    def _list_folder(self, prefix: bytes) -> _Listed:
        """Return what is in a folder and not ignored, in the order of paths, and whether all paths may be carried.

        The first of each two is what decides the order. A file's is its path, the same object; a folder stands where
        its files stand in the order of whole paths.
        """
        files: list[bytes] = []
        folders: list[bytes] = []
        try:
            with os.scandir(self._base + prefix) as entries:
                for entry in entries:
                    (folders if entry.is_dir(follow_symlinks=False) else files).append(prefix + entry.name)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise cannot("read the folder", prefix or b".", error) from error
        names: list[tuple[bytes, bytes]] = []
        own: list[bytes] = []
        for paths, is_folder in ((files, False), (folders, True)):
            others = self._rules.leave_out(paths, is_folder=is_folder)
            if len(others) < len(paths):
                own_paths = self._rules.list_own(paths, is_folder=is_folder)
                own += own_paths
                others += own_paths
            names += [(path + b"/", path) for path in others] if is_folder else [(path, path) for path in others]
        names.sort()
        self._own.update(own)
        try:
            check_paths([path for _, path in names])
        except BadPath:
            return _Listed(names, is_sound=False)
        return _Listed(names, is_sound=not own)


def _describe_link(base: bytes, path: bytes, status: os.stat_result) -> LocalFile:
    if not stat.S_ISLNK(status.st_mode):
        raise BadPath(path, "is neither a file nor a folder nor a link")
    target = os.readlink(base + path)
    check_target(path, target)
    return describe(path, status, target)


def cannot(what: str, path: bytes, error: OSError) -> Failed:
    """Return the error that says that something could not be done to a local file."""
    name = show_path(path)
    message, hint = f"Cannot {what} '{name}': {error.strerror}.", hint_for(error)
    return Failed(message, code="client.local_file", hint=hint, details={"path": name})
