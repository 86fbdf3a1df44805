"""A folder that receives a tree: nothing is ever written through a link, or outside of the folder.

Every step of a path is opened in the folder before it, and no step may be a link. Large files are hidden while their
pieces arrive, and `sync_tree` and `sync_disk` see to it that what was written reaches the disk.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

from nearline.content.entries import Entry, EntryKind, check_target
from nearline.content.hashing import Buffer, file_id, new_hasher
from nearline.content.paths import check_paths, show_path

T = TypeVar("T")

# No file of a dataset can lie in this folder: the name is reserved for the client's own files.
_OWN_FOLDER, _HIDDEN_FOLDER = b".nearline", b".nearline/parts"
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FOLDERS = 128
_READ_BYTES = 1 << 20
_FEW_FILES = 256


class Existing(Enum):
    """What to do where a path of the tree is there already.

    REFUSE: it is an error. KEEP: it is kept if it is right, which costs reading it, and an error if not. REPLACE: it is
    kept if it is right, and replaced if not. EXCHANGE: as REPLACE, but what is wrong stays until the right file takes
    its place: somebody reads the folder meanwhile. What is kept gets the mode and time of its entry.
    """

    REFUSE = "refuse"
    KEEP = "keep"
    REPLACE = "replace"
    EXCHANGE = "exchange"


class FolderTarget:
    """A folder that nobody else writes to meanwhile; it is made if need be. Implements `ports.Target`.

    - A small file is created under its name and removed if it cannot be written to its end. A process that is killed
      may leave a part of it, which REPLACE mends. A large file appears at once.
    - With `appear_whole`, for folders that are read meanwhile, a small file too gets its name only once it is complete.
      It takes the place of what bears that name.
    - With `read_only`, files get mode 0444 or 0555 and folders 0555; otherwise 0644, 0755 and 0755. Times are those of
      the entries.
    - When the folder is renamed meanwhile, nothing more is written to it.

    Nothing is synced to disk. Raises OSError, with the whole path as text in `filename`.
    """

    def __init__(
        self,
        root: Path,
        *,
        read_only: bool = False,
        existing: Existing = Existing.REFUSE,
        appear_whole: bool = False,
    ) -> None:
        self._root = os.fsencode(root)
        self._read_only = read_only
        self._existing = existing
        self._appear_whole = appear_whole
        self._paths: set[bytes] = set()
        # Folders that this call made: nothing is in place there.
        self._new_folders: set[bytes] = set()
        self._folders = _OpenFolders(self._root)

    def prepare(self, entries: Sequence[Entry]) -> None:
        """Make the folders of the entries, and the one of hidden files where there are large ones."""
        check_paths([entry.path for entry in entries])
        if not self._paths:
            with self._naming(b""):
                os.makedirs(self._root, exist_ok=True)
            self._make_folder(b"")
        for entry in entries:
            self._make_folder(entry.path.rpartition(b"/")[0])
        if self._appear_whole or any(len(entry.blobs) > 1 for entry in entries):
            self._make_folder(_HIDDEN_FOLDER)

    def is_in_place(self, entry: Entry) -> bool:
        """Return whether the entry is there and right; otherwise remove what is there, where it may be replaced."""
        if self._existing is Existing.REFUSE or entry.path.rpartition(b"/")[0] in self._new_folders:
            return False
        with self._naming(entry.path):
            folder, name = self._parent_of(entry.path)
            try:
                status = os.stat(name, dir_fd=folder.descriptor, follow_symlinks=False)
            except FileNotFoundError:
                return False
            is_right = self._is_right(entry, folder.descriptor, name, status)
            if not is_right and self._existing is Existing.REPLACE:
                os.unlink(name, dir_fd=folder.descriptor)
            return is_right

    def write_file(self, entry: Entry, content: Buffer) -> None:
        """Create a file with the content, mode and time of its entry."""
        with self._naming(entry.path):
            folder, name = self._parent_of(entry.path)
            if not self._appear_whole and self._existing is not Existing.EXCHANGE:
                self._write_new(folder, name, entry, content)
                return
            hidden, hidden_file = self._have_hidden_folder(), hidden_name(entry).encode()
            self._write_new(hidden, hidden_file, entry, content)
            os.rename(hidden_file, name, src_dir_fd=hidden.descriptor, dst_dir_fd=folder.descriptor)

    def write_piece(self, entry: Entry, offset: int, content: Buffer) -> None:
        """Write a piece of a hidden file."""
        with self._naming(entry.path):
            _folder, hidden = self._open_hidden_files()
            hidden.write(entry, offset, content)

    def publish(self, entry: Entry) -> bool:
        """Give a hidden file its name if its content is right."""
        with self._naming(entry.path):
            hidden_folder, hidden = self._open_hidden_files()
            if not hidden.is_whole(entry):
                return False
            with hidden.open(entry) as descriptor:
                self._set_mode_and_time(descriptor, entry)
            folder, name = self._parent_of(entry.path)
            source = hidden_name(entry)
            if self._existing is Existing.EXCHANGE:
                os.rename(source, name, src_dir_fd=hidden_folder.descriptor, dst_dir_fd=folder.descriptor)
                return True
            self._create(
                folder,
                name,
                lambda dir_fd: os.link(source, name, src_dir_fd=hidden_folder.descriptor, dst_dir_fd=dir_fd),
            )
            hidden.discard(entry)
        return True

    def discard(self, entry: Entry) -> None:
        """Remove a hidden file."""
        with self._naming(entry.path):
            _folder, hidden = self._open_hidden_files()
            hidden.discard(entry)

    def write_link(self, entry: Entry) -> None:
        """Make a symbolic link, with its time."""
        check_target(entry.path, entry.target)
        with self._naming(entry.path):
            folder, name = self._parent_of(entry.path)
            place, link = folder, name
            if self._existing is Existing.EXCHANGE:
                place, link = self._have_hidden_folder(), hidden_name(entry).encode()
            self._create(place, link, partial(os.symlink, entry.target, link))
            times = (entry.mtime_ns, entry.mtime_ns)
            os.utime(link, ns=times, dir_fd=place.descriptor, follow_symlinks=False)
            if place is not folder:
                os.rename(link, name, src_dir_fd=place.descriptor, dst_dir_fd=folder.descriptor)

    def finish(self) -> None:
        """Remove the folder of hidden files and close the folders to writing."""
        for path in (_HIDDEN_FOLDER, _OWN_FOLDER):
            self._paths.discard(path)
            # It may never have been made, or hold something else.
            with contextlib.suppress(OSError):
                folder, name = self._parent_of(path)
                os.rmdir(name, dir_fd=folder.descriptor)
        if self._read_only:
            for path in self._paths:
                with self._naming(path):
                    os.fchmod(self._folders.open(path).descriptor, 0o555)

    def _write_new(self, folder: "_OpenFolder", name: bytes, entry: Entry, content: Buffer) -> None:
        descriptor = self._create(folder, name, partial(os.open, name, _NEW_FILE_FLAGS, 0o600))
        try:
            write_at(descriptor, content)
            self._set_mode_and_time(descriptor, entry)
        except BaseException:
            os.unlink(name, dir_fd=folder.descriptor)
            raise
        finally:
            os.close(descriptor)

    def _is_right(self, entry: Entry, folder: int, name: bytes, status: os.stat_result) -> bool:
        if entry.kind is EntryKind.SYMLINK:
            return stat.S_ISLNK(status.st_mode) and os.readlink(name, dir_fd=folder) == entry.target
        if not stat.S_ISREG(status.st_mode) or status.st_size != entry.size:
            return False
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            if hash_open_file(descriptor) != entry.content_id:
                return False
            # A file with other names belongs to other copies too, which rely on its time.
            if status.st_nlink == 1:
                self._set_mode_and_time(descriptor, entry)
            return True
        finally:
            os.close(descriptor)

    def _create(self, folder: "_OpenFolder", name: bytes, create: Callable[..., T]) -> T:
        """Return what `create` returns; it is called with `dir_fd`."""
        try:
            return create(dir_fd=folder.descriptor)
        except FileExistsError:
            if self._existing not in (Existing.REPLACE, Existing.EXCHANGE):
                raise
            # A process that lost its right to this folder had begun the same file.
            os.unlink(name, dir_fd=folder.descriptor)
            return create(dir_fd=folder.descriptor)

    def _set_mode_and_time(self, descriptor: int, entry: Entry) -> None:
        mode = 0o444 if self._read_only else 0o644
        os.fchmod(descriptor, mode | (0o111 if entry.mode & 0o111 else 0))
        os.utime(descriptor, ns=(entry.mtime_ns, entry.mtime_ns))

    def _make_folder(self, path: bytes) -> None:
        if path in self._paths:
            return
        if path:
            self._make_folder(path.rpartition(b"/")[0])
        with self._naming(path):
            if path:
                folder, name = self._parent_of(path)
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o755, dir_fd=folder.descriptor)
                    self._new_folders.add(path)
            # Whatever the umask is, and though an earlier call closed it.
            os.fchmod(self._folders.open(path).descriptor, 0o755)
        self._paths.add(path)

    def _parent_of(self, path: bytes) -> tuple["_OpenFolder", bytes]:
        """Return the open folder of a path and the name of the path in it."""
        parent, _, name = path.rpartition(b"/")
        return self._folders.open(parent), name

    def _have_hidden_folder(self) -> "_OpenFolder":
        self._make_folder(_HIDDEN_FOLDER)
        return self._folders.open(_HIDDEN_FOLDER)

    def _open_hidden_files(self) -> tuple["_OpenFolder", "HiddenFiles"]:
        folder = self._folders.open(_HIDDEN_FOLDER)
        return folder, HiddenFiles(folder.descriptor)

    @contextlib.contextmanager
    def _naming(self, path: bytes) -> Iterator[None]:
        """Let an OSError name the whole path."""
        try:
            yield
        except OSError as error:
            full = os.path.join(self._root, path) if path else self._root
            error.filename, error.filename2 = show_path(full), None
            raise


class HiddenFiles:
    """Large files while their pieces arrive, in a folder of their own where nobody looks for them.

    They are under names made of their paths. `folder` is a descriptor of the open folder. Safe for several threads.
    """

    def __init__(self, folder: int) -> None:
        self.folder = folder

    def write(self, entry: Entry, offset: int, content: Buffer) -> None:
        """Write a piece of a file."""
        with self.open(entry) as descriptor:
            write_at(descriptor, content, offset)

    @contextlib.contextmanager
    def open(self, entry: Entry) -> Iterator[int]:
        """Open a file, made where it does not exist with the mode that the umask leaves to its entry."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        mode = 0o777 if entry.mode & 0o100 else 0o666
        descriptor = os.open(hidden_name(entry), flags, mode, dir_fd=self.folder)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def is_whole(self, entry: Entry) -> bool:
        """Return whether a file has the content of its entry, after cutting off what does not belong to it."""
        with self.open(entry) as descriptor:
            os.ftruncate(descriptor, entry.size)
            return hash_open_file(descriptor) == entry.content_id

    def discard(self, entry: Entry) -> None:
        """Remove a file; there may be none."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(hidden_name(entry), dir_fd=self.folder)


def hidden_name(entry: Entry) -> str:
    """Return the name that a file has until it becomes visible."""
    return file_id(entry.path).hex()


def write_at(descriptor: int, content: Buffer, offset: int = 0) -> None:
    """Write all of the content."""
    view = memoryview(content)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written


def hash_open_file(descriptor: int) -> bytes:
    """Return the content id of an open file. Mapping it into memory would count as memory of the process."""
    hasher, data, offset = new_hasher(), bytearray(_READ_BYTES), 0
    view = memoryview(data)
    while size := os.preadv(descriptor, [data], offset):
        hasher.update(view[:size])
        offset += size
    return hasher.digest()


class _OpenFolder:
    """An open folder, closed with its last reference: another thread may still use what was dropped here."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __del__(self) -> None:
        os.close(self.descriptor)


class _OpenFolders:
    """Folders that were used, open. Safe to use from several threads."""

    def __init__(self, root: bytes) -> None:
        self._root = root
        self._root_key: tuple[int, int] | None = None
        self._folders: dict[bytes, _OpenFolder] = {}

    def open(self, path: bytes) -> _OpenFolder:
        """Return an open folder. Raises OSError where a step to it is no folder, and where the root was renamed."""
        status = os.stat(self._root)
        key = status.st_dev, status.st_ino
        self._root_key = self._root_key or key
        if key != self._root_key:
            raise FileNotFoundError(errno.ENOENT, "Another folder took its place")
        return self._open(path)

    def _open(self, path: bytes) -> _OpenFolder:
        folder = self._folders.get(path)
        if folder is not None:
            return folder
        if path:
            parent, _, name = path.rpartition(b"/")
            folder = _OpenFolder(os.open(name, _FOLDER_FLAGS, dir_fd=self._open(parent).descriptor))
        else:
            # The way to the target itself may lead through links.
            folder = _OpenFolder(os.open(self._root, _FOLDER_FLAGS & ~os.O_NOFOLLOW))
        if len(self._folders) >= _OPEN_FOLDERS:
            self._folders.clear()
        self._folders[path] = folder
        return folder


def sync_disk(folder: Path) -> None:
    """Make everything written to the file system of `folder` durable, with one call for all files."""
    import ctypes  # noqa: PLC0415 (slow to load, and commands that only fetch files do without)

    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if hasattr(libc, "syncfs"):
            if libc.syncfs(descriptor) != 0:
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code), str(folder))
        else:
            os.sync()
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Make a folder and what is in it durable; where that are few files, without waiting for what others write."""
    paths = list(islice(folder.rglob("*"), _FEW_FILES + 1))
    if len(paths) > _FEW_FILES:
        sync_disk(folder)
        return
    for path in (*paths, folder):
        if path.is_symlink():
            continue  # its folder holds it
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
