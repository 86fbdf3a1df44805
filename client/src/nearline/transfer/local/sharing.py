"""Files of a clone out of a cached copy on this machine, without moving their bytes where the file system can.

A reflink is a file of its own that shares blocks until one of the two changes. A hard link is the cached copy's own
file: it is taken only where no mode bit lets anybody write to it. What remains is copied. Every file is compared with
its hash before it shows, wherever it comes from.
"""

import contextlib
import fcntl
import os
import shutil
import stat
from collections import Counter

from nearline.content.entries import Entry
from nearline.hydrate.folder import hash_open_file

_FICLONE = 0x40049409
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITABLE = 0o222


class Donor:
    """A folder that holds files of a commit. `shared` counts files by how they were got: reflink, hard link, copy.

    Whoever may write to everything, such as root, takes no hard links (`may_link`): an edit would change the folder's
    file too.
    """

    def __init__(self, root: bytes, *, may_link: bool) -> None:
        self.shared: Counter[str] = Counter()
        self._root = root
        self._may_clone, self._may_link = True, may_link

    def put(self, entry: Entry, place: bytes) -> bool:
        """Make a file at `place` that is that of the entry; return False, with nothing there, where none can be got."""
        source = self._root + b"/" + entry.path
        try:
            descriptor = os.open(source, _READ_FLAGS)
        except OSError:
            return False
        try:
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode) and status.st_size == entry.size:
                how = self._share(descriptor, source, status.st_mode, entry, place)
                if _has_content(place, entry.content_id):
                    self.shared[how] += 1
                    return True
        except OSError:
            # It is fetched from the store, which says what is wrong if something is.
            pass
        finally:
            os.close(descriptor)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(place)
        return False

    def _share(self, descriptor: int, source: bytes, mode: int, entry: Entry, place: bytes) -> str:
        if self._may_clone and self._write(place, entry, descriptor, is_clone=True):
            return "reflink"
        self._may_clone = False
        if self._may_link and not mode & _WRITABLE:
            try:
                os.link(source, place, follow_symlinks=False)
            except OSError:
                self._may_link = False
            else:
                return "hard link"
        self._write(place, entry, descriptor, is_clone=False)
        return "copy"

    def _write(self, place: bytes, entry: Entry, source: int, *, is_clone: bool) -> bool:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        target = os.open(place, flags, 0o777 if entry.mode & 0o100 else 0o666)
        try:
            if is_clone:
                fcntl.ioctl(target, _FICLONE, source)
            else:
                with open(source, "rb", closefd=False) as reading, open(target, "wb", closefd=False) as writing:
                    shutil.copyfileobj(reading, writing)
            os.utime(target, ns=(entry.mtime_ns, entry.mtime_ns))
        except OSError:
            os.unlink(place)
            if not is_clone:
                raise
            return False
        finally:
            os.close(target)
        return True


def _has_content(place: bytes, content_id: bytes) -> bool:
    descriptor = os.open(place, _READ_FLAGS)
    try:
        return hash_open_file(descriptor) == content_id
    finally:
        os.close(descriptor)
