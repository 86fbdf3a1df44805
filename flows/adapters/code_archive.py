"""Unpacking a tar.gz that a stranger made: into one folder, never beside it, and never more than its bounds.

Not by `tarfile.extract`: its filters let links lead out (CVE-2025-4517) and differ between the Pythons that we promise,
and its reading of extended headers can be made to loop. An archive here holds files and folders. Every name is opened
below a descriptor of the folder above it and no link is followed, so that not even a link that is there already leads
out. Bytes, files, folders, depth and names are counted while they are read.
"""

import errno
import gzip
import io
import os
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from flows.errors import InvalidBundle

_BLOCK = 512
_PIECE = 2**20
_FILES = {tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE}
_EXTENSIONS = {tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK}
_LINKS = {tarfile.SYMTYPE, tarfile.LNKTYPE}
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# What the operating system says about a name that the archive chose badly. Anything else, such as a full disk, is ours.
_BAD_NAMES = {errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EINVAL, errno.EILSEQ, errno.ENAMETOOLONG}


@dataclass(frozen=True)
class Limits:
    """How much an archive may hold. `ratio` is of unpacked to packed bytes, and counts from `ratio_from_bytes` on."""

    unpacked_bytes: int = 200 * 2**20
    files: int = 10_000
    folders: int = 10_000
    depth: int = 64
    path_bytes: int = 1024
    name_bytes: int = 255
    header_bytes: int = 2**20
    ratio: int = 100
    ratio_from_bytes: int = 16 * 2**20

    @property
    def headers(self) -> int:
        """How many headers so many files and folders have at most: a plain one each, and two of extensions."""
        return 3 * (self.files + self.folders)


LIMITS = Limits()


def unpack(data: bytes, target: Path, limits: Limits = LIMITS) -> int:
    """Write the files of a tar.gz below `target`, a folder, and return how many. Raises InvalidBundle."""
    files = 0
    stream = _Stream(data, limits)
    folders = _Folders(target, limits)
    try:
        for member in _read_members(stream, limits):
            parent, name = folders.enter(member.parts[:-1]), member.parts[-1]
            if member.is_folder:
                folders.make(parent, name)
                continue
            files += 1
            if files > limits.files:
                raise InvalidBundle(f"The code holds more than {limits.files} files.")
            with open(os.open(name, _OPEN_FILE, 0o600, dir_fd=parent), "wb") as file:  # noqa: PTH123 (a descriptor)
                file.writelines(stream.take(member.size_bytes))
                os.fchmod(file.fileno(), 0o755 if member.is_executable else 0o644)
            stream.skip_padding(member.size_bytes)
        stream.finish()
    except OSError as error:
        if error.errno not in _BAD_NAMES:
            raise
        raise InvalidBundle("The code holds a name twice, or one that cannot be a file's here.") from error
    finally:
        folders.close()
    return files


@dataclass(frozen=True)
class _Member:
    parts: list[bytes]
    size_bytes: int
    is_folder: bool
    is_executable: bool


def _read_members(stream: "_Stream", limits: Limits) -> Iterator[_Member]:
    """Yield the members, each of whose content is to be taken before the next one."""
    extended: dict[bytes, bytes] = {}
    headers = 0
    while (block := stream.header()) is not None:
        headers += 1
        if headers > limits.headers:
            raise InvalidBundle(f"The code holds more than {limits.files} files.")
        try:
            header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.TarError as error:
            raise InvalidBundle("The code cannot be unpacked: this is no tar archive.") from error
        if header.type in _EXTENSIONS:
            extended |= _read_extension(header, stream, limits)
            continue
        member = _member_of(header, extended, limits)
        extended = {}
        if member.parts:
            yield member
        elif not member.is_folder:
            raise InvalidBundle("The code holds a file without a name.")


def _member_of(header: tarfile.TarInfo, extended: Mapping[bytes, bytes], limits: Limits) -> _Member:
    path = extended.get(b"path", header.name.encode("utf-8", "surrogateescape"))
    size = extended.get(b"size", b"%d" % header.size)
    if not size.isdigit() or len(size) > len(str(limits.unpacked_bytes)) or int(size) > limits.unpacked_bytes:
        raise InvalidBundle(f"The code unpacks to more than {limits.unpacked_bytes // 2**20} MiB.")
    parts = _split(path, limits)
    if header.type in _LINKS:
        raise InvalidBundle(f"The code holds a link: {_show(path)}. Put the file itself there.")
    is_folder = header.type == tarfile.DIRTYPE
    if not is_folder and header.type not in _FILES:
        raise InvalidBundle(f"The code holds what is neither a file nor a folder: {_show(path)}")
    return _Member(parts, 0 if is_folder else int(size), is_folder, bool(header.mode & 0o100))


def _read_extension(header: tarfile.TarInfo, stream: "_Stream", limits: Limits) -> Mapping[bytes, bytes]:
    """Return what a header of headers says about the member that follows: `path`, `size`."""
    if not 0 <= header.size <= limits.header_bytes:
        raise InvalidBundle("The code cannot be unpacked: it has a header of impossible length.")
    content = b"".join(stream.take(header.size))
    stream.skip_padding(header.size)
    if header.type == tarfile.XHDTYPE:
        return _read_records(content)
    return {b"path": content.rstrip(b"\0")} if header.type == tarfile.GNUTYPE_LONGNAME else {}


def _read_records(content: bytes) -> dict[bytes, bytes]:
    """Read the `length key=value` lines of an extended header, each as long as it says."""
    records = {}
    position = 0
    while position < len(content):
        digits, _, _ = content[position : position + 20].partition(b" ")
        end = position + int(digits) if digits.isdigit() else position
        key, equals, value = content[position + len(digits) + 1 : end].partition(b"=")
        if end > len(content) or not equals or not value.endswith(b"\n") or key.startswith(b"GNU.sparse"):
            raise InvalidBundle("The code cannot be unpacked: it has an extended header that cannot be read.")
        records[key] = value[:-1]
        position = end
    return records


def _split(path: bytes, limits: Limits) -> list[bytes]:
    """Return the names that lead to a member. Raises InvalidBundle for a path that leads out, or is too long."""
    parts = [name for name in path.split(b"/") if name not in {b"", b"."}]
    if path.startswith(b"/"):
        raise InvalidBundle(f"The code holds an absolute path: {_show(path)}")
    if b".." in parts or b"\0" in path:
        raise InvalidBundle(f"The code holds a path that leads out of its folder: {_show(path)}")
    if len(path) > limits.path_bytes or max(map(len, parts), default=0) > limits.name_bytes:
        raise InvalidBundle(
            f"The code holds a path of more than {limits.path_bytes} bytes, or a name of more than "
            f"{limits.name_bytes}: {_show(path)}"
        )
    if len(parts) > limits.depth:
        raise InvalidBundle(f"The code holds more than {limits.depth} levels of folders: {_show(path)}")
    return parts


def _show(path: bytes) -> str:
    text = path.decode("utf-8", "backslashreplace")
    return ascii(text if len(text) <= 100 else f"{text[:100]}…")[1:-1]  # noqa: PLR2004 (as much as a line shows)


class _Stream:
    """The unpacked bytes in order, each counted."""

    def __init__(self, data: bytes, limits: Limits) -> None:
        self._file = gzip.GzipFile(fileobj=io.BytesIO(data))
        self._limits = limits
        self._most_bytes = limits.unpacked_bytes + limits.headers * 2 * _BLOCK
        self._most_for_packed = max(limits.ratio_from_bytes, limits.ratio * len(data))
        self._read_bytes = 0

    def header(self) -> bytes | None:
        """Return the next block; None where the archive ends."""
        block = self._read(_BLOCK)
        return None if block in {b"", bytes(_BLOCK)} else block

    def take(self, size: int) -> Iterator[bytes]:
        """Yield the next `size` bytes in pieces."""
        while size > 0:
            piece = self._read(min(size, _PIECE))
            if not piece:
                raise InvalidBundle("The code cannot be unpacked: the archive is cut off.")
            size -= len(piece)
            yield piece

    def skip_padding(self, size: int) -> None:
        """Go to the beginning of the next block after a content of `size` bytes."""
        self._read(-size % _BLOCK)

    def finish(self) -> None:
        """Read what follows the last member: at its end stands a checksum, which a cut-off archive lacks."""
        while self._read(_PIECE):
            pass

    def _read(self, size: int) -> bytes:
        try:
            piece = self._file.read(size)
        except (EOFError, OSError, zlib.error) as error:  # gzip reads from memory: its OSError is about the format
            raise InvalidBundle(f"The code cannot be unpacked: {error}.") from error
        self._read_bytes += len(piece)
        if self._read_bytes > self._most_bytes:
            raise InvalidBundle(f"The code unpacks to more than {self._limits.unpacked_bytes // 2**20} MiB.")
        if self._read_bytes > self._most_for_packed:
            raise InvalidBundle(f"The code unpacks to more than {self._limits.ratio} times its size.")
        return piece


class _Folders:
    """The folders from the target down to the one that was entered last, open, so that the way there is walked once."""

    def __init__(self, target: Path, limits: Limits) -> None:
        self._names: list[bytes] = []
        self._open = [os.open(target, _OPEN_FOLDER)]
        self._limits = limits
        self._made = 0

    def enter(self, parts: list[bytes]) -> int:
        """Return a descriptor of the folder that `parts` lead to, made where it is missing."""
        pairs = enumerate(zip(self._names, parts, strict=False))
        common = next((level for level, (old, new) in pairs if old != new), min(len(self._names), len(parts)))
        while len(self._names) > common:
            self._names.pop()
            os.close(self._open.pop())
        for name in parts[common:]:
            self.make(self._open[-1], name)
            self._open.append(os.open(name, _OPEN_FOLDER, dir_fd=self._open[-1]))
            self._names.append(name)
        return self._open[-1]

    def make(self, parent: int, name: bytes) -> None:
        """Make a folder below an open one, unless something has its name."""
        try:
            os.mkdir(name, 0o755, dir_fd=parent)
        except FileExistsError:
            return
        self._made += 1
        if self._made > self._limits.folders:
            raise InvalidBundle(f"The code holds more than {self._limits.folders} folders.")

    def close(self) -> None:
        """Close every folder."""
        while self._open:
            os.close(self._open.pop())
