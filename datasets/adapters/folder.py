"""A store in a local folder. Its signed addresses are served by the web process (`web.store_views`).

What exactly the holder of an address may do is sealed in it with the key of the site. Packs whose content lies in a
source have such addresses too, in every store.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from django.core import signing

from datasets.adapters.folder_marks import STORE_MARK, MarkedFolder, holds_objects
from datasets.engine.layout import check_key, check_prefix
from datasets.engine.ports import Announcement, BlobStat, PutProof, SignedRequest
from datasets.errors import (
    BlobMissing,
    BodyRefused,
    ContentCorrupt,
    SignatureExpired,
    SignatureInvalid,
    StoreUnreachable,
)

# A key cannot start with a dot, so no object can lie here.
_UNFINISHED = ".unfinished"
_SALT = "datasets.store"
_ADVICE = "Is its disk mounted? Once it is, what waits for the store goes on."
_WHERE = "Site admins read at Settings, Health where it should be."


@dataclass(frozen=True)
class StoreGrant:
    """One method on one key of one store until a moment; for a PUT, of a body of that length and hash."""

    method: str
    store_id: str
    key: str
    size_bytes: int
    sha256: str
    expires_at: datetime

    def request(self, base_url: str) -> SignedRequest:
        """Return the request to the web process that has this grant in its address."""
        headers = {"Content-Length": str(self.size_bytes)} if self.method == "PUT" else {}
        return SignedRequest(self.method, f"{base_url}/store/{self.seal()}", headers, self.expires_at)

    def seal(self) -> str:
        """Return the grant as text for a URL that nobody else can make."""
        expires = int(self.expires_at.timestamp())
        facts = [self.method, self.store_id, self.key, self.size_bytes, self.sha256, expires]
        return signing.Signer(salt=_SALT).sign_object(facts)

    @classmethod
    def unseal(cls, text: str, *, method: str, now: datetime) -> "StoreGrant":
        """Return what `text` allows.

        Raises SignatureInvalid when it is not ours or for another method, SignatureExpired when it is late.
        """
        try:
            signed_method, store_id, key, size_bytes, sha256, expires = signing.Signer(salt=_SALT).unsign_object(text)
        except (signing.BadSignature, ValueError) as error:
            raise SignatureInvalid("This store address was not signed by this installation.") from error
        if signed_method != method:
            raise SignatureInvalid(f"This store address is for {signed_method}, not for {method}.")
        expires_at = datetime.fromtimestamp(expires, tz=UTC)
        if now >= expires_at:
            raise SignatureExpired("This store address has expired.")
        return cls(signed_method, store_id, key, size_bytes, sha256, expires_at)


class GrowingFile:
    """Takes a body piece by piece, beside the place of its file. It appears there only if it is what was announced.

    `finish` publishes it durably; `discard` leaves nothing, also after a failure.

    `require_store` raises where the store is not there any more, so that nothing is made in its place.
    """

    def __init__(self, folder: Path, target: Path, body: Announcement, require_store: Callable[[], None]) -> None:
        self._target = target
        self._body = body
        self._require_store = require_store
        self._hasher = hashlib.sha256()
        self._size = 0
        try:
            folder.mkdir(exist_ok=True)
            self._descriptor, self._name = tempfile.mkstemp(dir=folder)
        except OSError as error:
            raise _unwritable(error) from error

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append the next piece. Raises BodyRefused when there are more bytes than announced."""
        self._size += len(data)
        if self._size > self._body.size_bytes:
            raise BodyRefused(f"More than the announced {self._body.size_bytes} bytes were sent.")
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError as error:
            raise _unwritable(error) from error
        self._hasher.update(data)

    def finish(self) -> None:
        """Publish the file under its name. Raises BodyRefused unless it is what was announced."""
        if self._size != self._body.size_bytes:
            raise BodyRefused(f"{self._size} bytes were sent where {self._body.size_bytes} were announced.")
        if self._hasher.hexdigest() != self._body.sha256:
            raise BodyRefused("The bytes that were sent do not have the announced SHA-256.")
        try:
            os.fsync(self._descriptor)
            self._require_store()
            self._target.parent.mkdir(parents=True, exist_ok=True)
            Path(self._name).replace(self._target)
            self._close()
            _sync_folder(self._target.parent)
        except OSError as error:
            raise _unwritable(error) from error

    def discard(self) -> None:
        """Remove what is there of it; nothing happens to a file that was finished."""
        if self._descriptor >= 0:
            self._close()
            Path(self._name).unlink(missing_ok=True)

    def _close(self) -> None:
        os.close(self._descriptor)
        self._descriptor = -1


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
        return grant.request(self._base_url)

    def sign_get(self, key: str, *, now: datetime, lifetime_s: int) -> SignedRequest:
        """Return a request to the web process."""
        check_key(key)
        grant = StoreGrant("GET", self._store_id, key, 0, "", now + timedelta(seconds=lifetime_s))
        return grant.request(self._base_url)

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


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unwritable(error: OSError) -> StoreUnreachable:
    return StoreUnreachable(f"The store's folder cannot be written: {error.strerror}.")
