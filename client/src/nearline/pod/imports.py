"""What a pod does for files that become a dataset where they lie: reads each once, and says what packs they make.

Or it copies them into the store: each pack is put together from the files, compared with its hashes, and sent.
"""

import base64
import hashlib
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

from nearline._http import Http
from nearline.content.entries import Entry, carried_ns, check_target
from nearline.content.errors import BadPath
from nearline.content.hashing import file_id, sha256_hex
from nearline.content.manifest import build_range
from nearline.content.mapping import FoundFile, MapWriter
from nearline.content.pack_maps import PackMap
from nearline.content.paths import check_path, show_path
from nearline.errors import Conflict
from nearline.pod.existing_files import list_files
from nearline.resources.storage_routes import read_signed

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_ENTRIES: Final = 5000
"""So many entries go to the platform at once, and so many blobs make a pack at most: what is sent stays small."""
_TELL_S = 1.0
_NAMED = 10


class FileChanged(Conflict):
    """A file was written to while it was read, or is not what was imported."""

    code = "client.source_changed"


class ImportRoutes:
    """The platform's routes for the pods of one import."""

    def __init__(self, http: Http) -> None:
        self._http = http
        self._api = http.with_long_retries()

    def begin(self, files: int, size_bytes: int) -> str:
        """Say how much there is to be read, and return the id under which it is sent."""
        body = {"files": files, "size_bytes": size_bytes}
        return str(self._api.post("/import-job/begin", body, may_repeat=True)["upload_id"])

    def report(self, read_bytes: int) -> None:
        """Say how much was read."""
        self._api.post("/import-job/progress", {"read_bytes": read_bytes}, may_repeat=True)

    def send_map(self, upload_id: str, name: str, pack_map: PackMap) -> None:
        """Have the map of a pack kept."""
        body = {"upload_id": upload_id, "name": name, "map": _encode(pack_map.encode())}
        self._api.post("/import-job/maps", body, may_repeat=True)

    def send_entries(self, upload_id: str, number: int, entries: Sequence[Entry]) -> None:
        """Have entries kept, whose packs were sent."""
        body = {"upload_id": upload_id, "number": number, "entries": _encode(build_range(entries).data)}
        self._api.post("/import-job/entries", body, may_repeat=True)

    def commit(self, upload_id: str) -> None:
        """Have the commit made of all entries."""
        self._api.post("/import-job/commit", {"upload_id": upload_id}, may_repeat=True)

    def next_map(self, after: str) -> tuple[str, PackMap] | None:
        """Return the next pack that the store does not have, and its map; None after the last one."""
        answer = self._api.post("/import-job/next", {"after": after}, may_repeat=True)
        return (answer["name"], PackMap.decode(base64.b64decode(answer["map"]))) if answer["name"] else None

    def store_pack(self, name: str, data: bytes) -> None:
        """Bring a pack into the store, and have it looked for there."""
        md5 = base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
        answer = self._api.post("/import-job/sign", {"name": name, "md5": md5}, may_repeat=True)
        if (request := read_signed(answer)) is not None:
            self._http.send_signed(request.method, request.url, request.headers, data)
        self._api.post("/import-job/stored", {"name": name}, may_repeat=True)


class VolumeFiles:
    """The files of a mounted folder. Links are not followed."""

    parallel_reads = 4

    def __init__(self, folder: Path) -> None:
        self._top = os.fsencode(folder) + b"/"

    def list(self) -> Iterator[FoundFile]:
        """Yield all files and links, in an order of its own."""
        for path in list_files(Path(os.fsdecode(self._top))):
            try:
                check_path(path)
                status = os.lstat(self._top + path)
                mode = 0o755 if status.st_mode & 0o100 else 0o644
                if stat.S_ISLNK(status.st_mode):
                    target = os.fsencode(Path(os.fsdecode(self._top + path)).readlink())
                    check_target(path, target)
                    yield FoundFile(path, 0, "", carried_ns(status.st_mtime_ns), target=target)
                    continue
            except BadPath as error:
                yield FoundFile(path, 0, "", 0, why=error.why)
                continue
            why = "" if stat.S_ISREG(status.st_mode) else "is neither a file nor a folder nor a link"
            yield FoundFile(path, status.st_size, _version(status), carried_ns(status.st_mtime_ns), mode, why=why)

    @contextmanager
    def open(self, file: FoundFile) -> Iterator[BinaryIO]:
        """Return the content of a file; it is compared with what was found before and after it was read."""
        with os.fdopen(os.open(self._top + file.path, _READ), "rb", buffering=0) as stream:
            _compare(file, stream)
            yield stream
            _compare(file, stream)

    def read(self, path: bytes, offset: int, size: int) -> bytes:
        """Return a part of a file."""
        with os.fdopen(os.open(self._top + path, _READ), "rb") as stream:
            stream.seek(offset)
            return stream.read(size)


def import_folder(folder: Path, routes: ImportRoutes) -> dict[str, int]:
    """Have a folder become a commit, and return what was read. Raises FileChanged, and Conflict for what cannot be."""
    files = VolumeFiles(folder)
    listing = sorted(files.list(), key=lambda file: file.path)
    # The folder is the commit, so nothing in it can be left out.
    if refused := [f"'{show_path(file.path)}' {file.why}" for file in listing if file.why]:
        more = f" and {len(refused) - _NAMED} more" if len(refused) > _NAMED else ""
        raise Conflict(f"No dataset can carry this: {', '.join(refused[:_NAMED])}{more}.")
    if not listing:
        raise Conflict("The folder has no file.")
    upload_id = routes.begin(len(listing), sum(file.size_bytes for file in listing))
    told_at = time.monotonic()

    def tell(read_bytes: int) -> None:
        nonlocal told_at
        if time.monotonic() - told_at >= _TELL_S:
            told_at = time.monotonic()
            routes.report(read_bytes)

    writer = MapWriter(
        files,
        facts={},
        on_pack=lambda name, map_: routes.send_map(upload_id, name, map_),
        on_read=tell,
        on_changed=_changed,
        most_blobs=_ENTRIES,
    )
    entries = writer.write((file.path, file) for file in listing)
    number = 0
    while batch := list(islice(entries, _ENTRIES)):
        routes.send_entries(upload_id, number, batch)
        number += 1
    routes.report(writer.read_bytes)
    routes.commit(upload_id)
    return {"files": len(listing), "read_bytes": writer.read_bytes}


def promote_folder(folder: Path, routes: ImportRoutes) -> dict[str, int]:
    """Copy the packs of an import into the store, and return what was sent. Raises FileChanged."""
    files, after, sent_bytes = VolumeFiles(folder), "", 0
    while (pack_map := routes.next_map(after)) is not None:
        after, map_ = pack_map
        data = b"".join([*(_read_blob(files, map_, index) for index in range(len(map_.blobs))), map_.footer])
        if sha256_hex(data) != after:
            raise FileChanged(f"The files of the pack {after[:12]} are not what was imported.")
        routes.store_pack(after, data)
        sent_bytes += len(data)
    return {"sent_bytes": sent_bytes}


def _read_blob(files: VolumeFiles, map_: PackMap, index: int) -> bytes:
    blob, piece, file = map_.blobs[index], map_.pieces[index], map_.file_of(index)
    data = files.read(file.path, piece.offset, blob.size)
    if file_id(data) != blob.content_id:
        raise FileChanged(f"'{file.name}' is not what it was when it was imported.")
    return data


def _compare(file: FoundFile, stream: BinaryIO) -> None:
    status = os.fstat(stream.fileno())
    if not stat.S_ISREG(status.st_mode) or _version(status) != file.version or status.st_size != file.size_bytes:
        raise _changed(file)


def _changed(file: FoundFile) -> FileChanged:
    return FileChanged(f"'{show_path(file.path)}' changed while it was read.")


def _version(status: os.stat_result) -> str:
    return str(status.st_mtime_ns)


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()
