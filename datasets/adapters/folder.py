"""A store in a local folder. Its signed addresses are served by the web process (`web.store_views`)."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

from datasets.adapters import store_grants
from datasets.adapters.folder_marks import STORE_MARK, MarkedFolder, holds_objects
from datasets.adapters.growing_file import GrowingFile
from datasets.adapters.store_grants import StoreGrant
from datasets.engine.layout import check_key, check_prefix
from datasets.engine.ports import Announcement, BlobStat, PutProof, SignedRequest
from datasets.errors import BlobMissing, ContentCorrupt, StoreUnreachable

# A key cannot start with a dot, so no object can lie here.
_UNFINISHED = ".unfinished"
_ADVICE = "Is its disk mounted? Once it is, what waits for the store goes on."
_WHERE = "Site admins read at Settings, Health where it should be."


class FolderStore:
    """One file for each object. An object appears by a rename, so it is whole or absent, also after a crash.

    The folder is used only while it has the store's mark. `mark` is empty in the row of an earlier version whose folder
    was not there since: then it must hold objects.
    """

    put_proof = PutProof.PAYLOAD_SHA256

    def __init__(self, root: Path, *, store_id: str, name: str, mark: str, base_url: str) -> None:
        self._root = root
        self._store_id = store_id
        self._name = name
        self._folder = MarkedFolder(root, STORE_MARK, mark) if mark else None
        self._base_url = base_url

    def put(self, key: str, data: bytes) -> None:
        """Store `data` durably."""
        body = Announcement(len(data), hashlib.sha256(data).hexdigest())
        self.receive(key, iter([data]), body)

    def receive(self, key: str, chunks: Iterable[bytes], body: Announcement) -> None:
        """Store a body as it arrives. Raises BodyRefused, and keeps nothing, unless it is the announced one."""
        growing = self.open_put(key, body)
        try:
            for chunk in chunks:
                growing.write(chunk)
            growing.finish()
        finally:
            growing.discard()

    def open_put(self, key: str, body: Announcement) -> GrowingFile:
        """Return what takes a body piece by piece. The caller finishes it, and discards it in any case."""
        self.require_folder()
        return GrowingFile(self._root / _UNFINISHED, self.path_of(key), body, self.require_folder)

    def sweep(self, *, before: datetime) -> int:
        """Remove what killed uploads left that nobody wrote to since `before`; return how many files it was."""
        self.require_folder()
        removed = 0
        for path in (self._root / _UNFINISHED).glob("*"):
            try:
                if path.stat().st_mtime < before.timestamp():
                    path.unlink()
                    removed += 1
            except FileNotFoundError:
                continue  # it was finished or discarded just now
        return removed

    def get(self, key: str) -> bytes:
        """Return the whole object."""
        path = self.path_of(key)
        self.require_folder()
        try:
            return path.read_bytes()
        except OSError as error:
            raise self._failure(key, error) from error

    def get_range(self, key: str, offset: int, size: int) -> bytes:
        """Return a part of an object."""
        path = self.path_of(key)
        self.require_folder()
        try:
            descriptor = os.open(path, os.O_RDONLY)
            try:
                data = os.pread(descriptor, size, offset)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._failure(key, error) from error
        if len(data) != size:
            raise ContentCorrupt(f"The object {key} is shorter than it should be.", key=key)
        return data

    def stat(self, key: str) -> BlobStat | None:
        """Return the size of an object."""
        path = self.path_of(key)
        self.require_folder()
        try:
            return BlobStat(key, path.stat().st_size)
        except (FileNotFoundError, NotADirectoryError):
            self.require_folder()  # it may have gone away just now
            return None
        except OSError as error:
            raise self._failure(key, error) from error

    def list_blobs(self, prefix: str) -> Iterator[BlobStat]:
        """Yield what lies under a prefix."""
        check_prefix(prefix)
        self.require_folder()
        yield from _walk(self._root / prefix, prefix)
        self.require_folder()  # what went away meanwhile was not listed

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects."""
        for key in keys:
            self.require_folder()
            try:
                self.path_of(key).unlink(missing_ok=True)
            except OSError as error:
                raise self._failure(key, error) from error

    def sign_put(self, key: str, body: Announcement, *, now: datetime, lifetime_s: int) -> SignedRequest:
        """Return a request to the web process."""
        check_key(key)
        expires_at = now + timedelta(seconds=lifetime_s)
        grant = StoreGrant("PUT", self._store_id, key, body.size_bytes, body.sha256, expires_at)
        return self._request(grant, {"Content-Length": str(body.size_bytes)})

    def sign_get(self, key: str, *, now: datetime, lifetime_s: int) -> SignedRequest:
        """Return a request to the web process."""
        check_key(key)
        return self._request(StoreGrant("GET", self._store_id, key, 0, "", now + timedelta(seconds=lifetime_s)), {})

    def _request(self, grant: StoreGrant, headers: dict[str, str]) -> SignedRequest:
        url = f"{self._base_url}/store/{store_grants.seal(grant)}"
        return SignedRequest(grant.method, url, headers, grant.expires_at)

    def path_of(self, key: str) -> Path:
        """Return the file that holds, or would hold, an object. Always inside the root."""
        check_key(key)
        return self._root / key

    def require_folder(self) -> None:
        """Raise StoreUnreachable where the folder is not that of the store: what is written there is hidden later."""
        try:
            absence = self._find_absence() if self._folder is None else self._folder.find_absence()
        except OSError as error:
            raise StoreUnreachable(f"The store's folder cannot be read: {error.strerror}.") from error
        if absence:
            away = StoreUnreachable(f"The folder of the store '{self._name}' is not there. {_ADVICE} {_WHERE}")
            away.for_admins = f"The store's folder {absence}. {_ADVICE}"
            raise away

    def _find_absence(self) -> str:
        if holds_objects(self._root):
            return ""
        return f"{self._root} is not there{': the folder at its place is empty' if self._root.is_dir() else ''}"

    def _failure(self, key: str, error: OSError) -> BlobMissing | StoreUnreachable:
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            self.require_folder()
            return BlobMissing(f"The store has no object {key}.", key=key)
        return StoreUnreachable(f"The store's folder cannot be read: {error.strerror}.")


def _walk(folder: Path, prefix: str) -> Iterator[BlobStat]:
    # A folder sorts as its name with a slash, so that everything comes in the order of its key.
    try:
        with os.scandir(folder) as entries:
            children = sorted((entry.name + "/" * entry.is_dir(), entry) for entry in entries if entry.name[0] != ".")
    except (FileNotFoundError, NotADirectoryError):
        return
    for name, entry in children:
        if entry.is_dir():
            yield from _walk(folder / entry.name, prefix + name)
        else:
            yield BlobStat(prefix + name, entry.stat().st_size)
