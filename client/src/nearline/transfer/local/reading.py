"""Reading local files so that what was read existed at one moment: a file that changes meanwhile is read again."""

import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, TypeAlias, TypeVar

from nearline.content.hashing import file_id, new_hasher
from nearline.content.packs import cut_chunks, is_chunked
from nearline.content.paths import show_path
from nearline.errors import Failed
from nearline.transfer.local.walk import LocalFile, cannot, describe

_READS = 5
# Small files are read in groups: handing each to a thread on its own would cost more than reading it.
_GROUP_BYTES = 1 << 20
_GROUP_FILES = 64
_GROUP_ROWS = 1024
_GROUPS_AHEAD = 16
# The largest file that is read at once for each of four threads.
_BYTES_AHEAD = 64 << 20
_T = TypeVar("_T")
_Rows: TypeAlias = list[tuple[_T, LocalFile | None]]


class Content(NamedTuple):
    """A file as it was read. `data` is None for a large one, which is read in pieces by `read_large`."""

    file: LocalFile
    content_id: bytes
    data: bytes | None


def read_ahead(
    root: bytes, rows: Iterable[tuple[_T, LocalFile | None]], threads: int
) -> Iterator[tuple[_T, LocalFile | None, Content | None]]:
    """Yield the rows in order, each with the content of its file: None for one that is gone, or where there is none.

    At most 80 MiB are read ahead, and 17,408 rows.
    """
    waiting: deque[tuple[_Rows[_T], int, Future[list[Content | None]]]] = deque()
    ahead_bytes = 0

    def take_first() -> Iterator[tuple[_T, LocalFile | None, Content | None]]:
        nonlocal ahead_bytes
        group, size, future = waiting.popleft()
        ahead_bytes -= size
        return ((row, file, content) for (row, file), content in zip(group, future.result(), strict=True))

    with ThreadPoolExecutor(threads, thread_name_prefix="read") as pool:
        try:
            for group, size in _group(rows):
                waiting.append((group, size, pool.submit(_read_group, root, group)))
                ahead_bytes += size
                while len(waiting) > _GROUPS_AHEAD or ahead_bytes > _BYTES_AHEAD:
                    yield from take_first()
            while waiting:
                yield from take_first()
        finally:
            for *_, future in waiting:
                future.cancel()


def read_small(root: bytes, file: LocalFile) -> Content | None:
    """Return the content of a file that is stored as one blob."""
    path = root + b"/" + file.path
    for _ in range(_READS):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise cannot("read", _shown(root, file), error) from error
        try:
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                return None
            now = describe(file.path, before)
            if is_chunked(now.size):
                return Content(now, b"", None)
            data = os.read(descriptor, now.size + 1)
            while len(data) < now.size and (more := os.read(descriptor, now.size + 1 - len(data))):
                data += more
            is_same = describe(file.path, os.fstat(descriptor)).signature == now.signature
        except OSError as error:
            raise cannot("read", _shown(root, file), error) from error
        finally:
            os.close(descriptor)
        if is_same and len(data) == now.size:
            return Content(now, file_id(data), data)
    raise _restless(_shown(root, file))


def read_large(
    root: bytes, local_file: LocalFile, take: Callable[[bytes, bytes], None]
) -> tuple[Content, list[bytes]] | None:
    """Read a file in chunks, hand each to `take` with its id, and return the content's id and those of the chunks.

    When the file changes meanwhile it is read again, and `take` is handed all its chunks again.
    """
    path = root + b"/" + local_file.path
    for _ in range(_READS):
        chunk_ids = []
        hasher = new_hasher()
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise cannot("read", _shown(root, local_file), error) from error
        with open(descriptor, "rb", buffering=0) as file:
            now = describe(local_file.path, os.fstat(descriptor))
            total = 0
            for chunk in cut_chunks(file, now.size):
                chunk_id = file_id(chunk.data)
                hasher.update(chunk.data)
                take(chunk_id, bytes(chunk.data))
                chunk_ids.append(chunk_id)
                total += len(chunk.data)
            is_same = describe(local_file.path, os.fstat(descriptor)).signature == now.signature
        if is_same and total == now.size:
            return Content(now, hasher.digest(), None), chunk_ids
    raise _restless(_shown(root, local_file))


def hash_file(root: bytes, file: LocalFile) -> Content | None:
    """Return the content id of a file of any size."""
    content = read_small(root, file)
    if content is None or content.data is not None:
        return content
    large = read_large(root, content.file, lambda _id, _data: None)
    return large[0] if large else None


def _read_group(root: bytes, group: _Rows[_T]) -> list[Content | None]:
    return [read_small(root, file) if file is not None else None for _, file in group]


def _group(rows: Iterable[tuple[_T, LocalFile | None]]) -> Iterator[tuple[_Rows[_T], int]]:
    """Yield the rows in groups, each with the number of bytes that reading it takes."""
    group: _Rows[_T] = []
    files = size = 0
    for row in rows:
        group.append(row)
        if (file := row[1]) is not None:
            files += 1
            size += 0 if is_chunked(file.size) else file.size
        if size >= _GROUP_BYTES or files == _GROUP_FILES or len(group) == _GROUP_ROWS:
            yield group, size
            group, files, size = [], 0, 0
    if group:
        yield group, size


def _shown(root: bytes, file: LocalFile) -> bytes:
    """Return what a person calls a file: its path in the folder, or on this machine where the whole machine is it."""
    return file.path if root else b"/" + file.path


def _restless(path: bytes) -> Failed:
    name = show_path(path)
    return Failed(
        f"'{name}' keeps changing while it is read.",
        code="client.local_file",
        hint="Sync again when nothing writes to it, or list it in .nearlineignore.",
        details={"path": name},
    )
