"""Trees as archives (tar): how a pod, which has nothing but a URL, gets a tree and hands one in."""

import os
import tarfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import IO, Any, BinaryIO

from accounts.models import Project
from accounts.permissions import Actor, require
from datasets import permissions
from datasets.adapters.opening import open_dataset_store
from datasets.errors import ArchiveUnreadable
from datasets.models import StoredTree
from datasets.selectors import trees
from datasets.selectors.files import FileContent
from datasets.services.trees import LeftOut, SourceFile, store_tree
from nearline.content import archives
from nearline.content.manifest import EntryKind
from nearline.content.paths import find_fault

_MOST_FILES = 1_000_000
_MOST_HEADER_BYTES = 1 << 20


def read_archive(*, actor: Actor, tree: trees.FileTree) -> Iterator[bytes]:
    """Yield the archive of a tree; every byte is verified before it is handed on."""
    require(actor, permissions.VIEW, tree.dataset.project_id)
    store = open_dataset_store(tree.dataset)
    for entry in trees.list_entries(tree):
        name = os.fsdecode(entry.path)
        if entry.kind is EntryKind.SYMLINK:
            yield archives.header(name, 0o777, 0, entry.mtime_ns, os.fsdecode(entry.target))
            continue
        yield archives.header(name, entry.mode, entry.size, entry.mtime_ns)
        yield from archives.padded(FileContent(entry, tree.dataset, store).read(), entry.size)
    yield archives.end()


def store_archive(*, actor: Actor, project: Project, holder: str, stream: Any) -> tuple[StoredTree | None, LeftOut]:
    """Store the plain files of an archive, which come in the order of their paths, as a tree that `holder` holds.

    Return the tree, None where there is no file, and what of the archive is left out. Raises ArchiveUnreadable, and
    what `store_tree` raises; then nothing is held.
    """
    reader = _Reader(stream)
    try:
        files = reader.list_files()
        first = next(files, None)
        if first is None:
            return None, reader.left_out
        tree = store_tree(actor=actor, project=project, holder=holder, files=_chain(first, files))
    except (tarfile.TarError, EOFError) as error:
        raise ArchiveUnreadable(f"The archive cannot be read: {error}.") from error
    return tree, reader.left_out


def _chain(first: SourceFile, rest: Iterator[SourceFile]) -> Iterator[SourceFile]:
    yield first
    yield from rest


class _Reader:
    def __init__(self, stream: Any) -> None:
        self._stream = _Bounded(stream)
        self.left_out = LeftOut()

    def list_files(self) -> Iterator[SourceFile]:
        try:
            yield from self._list_files()
        except (ValueError, OverflowError) as error:  # what numbers of a header say
            raise ArchiveUnreadable(f"The archive cannot be read: {error}.") from error

    def _list_files(self) -> Iterator[SourceFile]:
        self._stream.expect(0)
        stream: Any = self._stream
        with tarfile.open(fileobj=stream, mode="r|", errors="surrogateescape") as archive:
            for count, member in enumerate(archive):
                if count >= _MOST_FILES:
                    raise ArchiveUnreadable(f"The archive holds more than {_MOST_FILES:,} files.")
                path = os.fsencode(member.name)
                if member.issparse():  # few bytes that stand for any number of them
                    raise ArchiveUnreadable(f"The archive holds {member.name!r} as a sparse file.")
                self._stream.expect(member.size)
                if why := _why_not(member, path):
                    self.left_out.add(path, why)
                    continue
                mtime_ns = int(member.pax_headers.get("NEARLINE.mtime_ns", int(member.mtime) * 10**9))
                mode = 0o755 if member.mode & 0o100 else 0o644
                yield SourceFile(path, mode, member.size, mtime_ns, partial(_open, archive, member))


class _Bounded:
    """Reads on in a stream, for headers of a bounded size: they are read into memory whole."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._left = 0

    def expect(self, size_bytes: int) -> None:
        """Say how much content comes before the next header."""
        self._left = size_bytes + _MOST_HEADER_BYTES

    def read(self, size: int) -> bytes:
        """Return at most so many bytes. Raises ArchiveUnreadable beyond what is expected."""
        data: bytes = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise ArchiveUnreadable(f"A header of the archive has more than {_MOST_HEADER_BYTES:,} bytes.")
        return data


def _why_not(member: tarfile.TarInfo, path: bytes) -> str:
    """Return why what an archive holds is left out; empty when it is not."""
    if not member.isreg():
        return member.pax_headers.get(archives.REASON, "is no plain file")
    return find_fault(path)


def _open(archive: tarfile.TarFile, member: tarfile.TarInfo) -> AbstractContextManager[BinaryIO]:
    content: IO[bytes] | None = archive.extractfile(member)
    return nullcontext(content)  # type: ignore[arg-type]  # a plain file has content
