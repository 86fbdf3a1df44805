"""Folders as streams of bytes (tar archives), so that neither side needs space for both."""

import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import Any

from nearline.content.folders import list_plain_files

_PIECE = 1 << 18
_BLOCK = 512
REASON = "NEARLINE.why"
"""The header of what is left out of an archive that says why."""


def pack(folder: Path) -> Iterator[bytes]:
    """Yield an archive of the plain files of a folder, in the order of their paths' bytes. Links are left out.

    What cannot be carried or read is told by an empty folder with the reason. Raises OSError for other failures.
    """
    for file in list_plain_files(os.fsencode(folder)):
        name = os.fsdecode(file.path)
        if file.why:
            yield header(name, 0, 0, 0, why=file.why)
            continue
        path = os.fsencode(folder) + b"/" + file.path
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as content:
            facts = os.fstat(content.fileno())
            if not S_ISREG(facts.st_mode):
                continue
            yield header(name, facts.st_mode & 0o777, facts.st_size, facts.st_mtime_ns)
            yield from padded(_pieces(content, facts.st_size), facts.st_size)
    yield end()


def header(name: str, mode: int, size_bytes: int, mtime_ns: int, target: str = "", *, why: str = "") -> bytes:
    """Return what stands before a file, or with a target before a link, in an archive.

    With `why`, it stands for a file or folder that is left out.
    """
    info = tarfile.TarInfo(name)
    info.mode, info.size, info.mtime = mode, size_bytes, mtime_ns // 10**9
    # A number of seconds is no place for nanoseconds, as it is written as a float.
    info.pax_headers = {"NEARLINE.mtime_ns": str(mtime_ns)}
    if target:
        info.type, info.linkname = tarfile.SYMTYPE, target
    if why:
        info.type = tarfile.DIRTYPE
        info.pax_headers[REASON] = why
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def padded(pieces: Iterator[bytes], size_bytes: int) -> Iterator[bytes]:
    """Yield the content of a file, filled up as an archive wants it."""
    yield from pieces
    yield bytes(-size_bytes % _BLOCK)


def end() -> bytes:
    """Return what stands at the end of an archive."""
    return bytes(2 * _BLOCK)


def unpack(pieces: Iterator[bytes], folder: Path) -> None:
    """Write an archive of our own platform into a folder. Repeated, it writes the same again.

    Raises OSError, and tarfile.TarError for an archive that breaks off.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stream: Any = _Stream(pieces)
    with tarfile.open(fileobj=stream, mode="r|", errors="surrogateescape") as archive:
        for member in archive:
            parts = member.name.split("/")
            if not {"", ".", ".."}.isdisjoint(parts):
                raise OSError(f"The archive names a file outside of its folder: {member.name!r}.")
            path = folder.joinpath(*parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                path.unlink()
            if member.issym():
                path.symlink_to(member.linkname)
            elif (content := archive.extractfile(member)) is not None:
                with path.open("xb") as file:
                    shutil.copyfileobj(content, file, _PIECE)
                path.chmod(member.mode)
                mtime_ns = int(member.pax_headers.get("NEARLINE.mtime_ns", member.mtime * 10**9))
                os.utime(path, ns=(mtime_ns, mtime_ns))


class _Stream:
    """Reads pieces as a file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def read(self, size: int) -> bytes:
        """Return so many bytes; fewer at the end."""
        parts, missing = [], size
        while missing:
            self._rest = self._rest or next(self._pieces, b"")
            if not self._rest:
                break
            parts.append(self._rest[:missing])
            self._rest = self._rest[missing:]
            missing -= len(parts[-1])
        return b"".join(parts)


def _pieces(content: Any, size_bytes: int) -> Iterator[bytes]:
    left = size_bytes
    while left:
        piece = content.read(min(left, _PIECE))
        if not piece:
            raise OSError("A file became shorter while it was read.")
        left -= len(piece)
        yield piece
