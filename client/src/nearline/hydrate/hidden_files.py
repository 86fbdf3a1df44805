"""Large files while their pieces arrive, in a folder of their own where nobody looks for them."""

import contextlib
import os
from collections.abc import Iterator

from nearline.content.entries import Entry
from nearline.content.hashing import Buffer, file_id, new_hasher

_READ_BYTES = 1 << 20


class HiddenFiles:
    """Files under names made of their paths. `folder` is a descriptor of the open folder. Safe for several threads."""

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
