"""A commit that a job reads while its cached copy is being filled: what the job asks of the platform."""

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nearline._http import Http
from nearline.errors import Failed, InvalidRequest
from nearline.models import Commit
from nearline.reading.blobs import BlobReader, Reader
from nearline.reading.commit_files import DEFAULT_MEMORY_BYTES, CommitFiles
from nearline.reading.early import CopyReader
from nearline.resources.storage_routes import StorageRoutes
from nearline.transfer.remote.server import Storage

VARIABLE = "NEARLINE_EARLY_DATA"
# On a link that all connections share evenly, the job's reads have more of it than those that fill the copy.
_THREADS = 16
_LOOK_AT_LEAST_S, _LOOK_AT_MOST_S = 0.05, 1.0
_LOOK_SHARE = 0.05
"""After this share of the time that was waited the platform is asked again."""


class EarlyRoutes(StorageRoutes):
    """The platform's routes for a job that reads one cached copy early."""

    def __init__(self, http: Http) -> None:
        super().__init__(http, "/copy/early")

    def get_commit(self) -> Commit:
        """Return the commit that is read."""
        return Commit.read(self._api.get(self._path)["commit"])

    def is_complete(self) -> bool:
        """Return whether all files of the copy are in place. Raises Failed where it could not be completed."""
        copy = self._api.get(self._path)
        if error := copy.get("error"):  # platforms of before do not say it
            hint = "Read the files by nearline.open_data, which takes what is missing from the store."
            raise Failed(f"The cached copy is not complete: {error}", code="client.copy_failed", hint=hint)
        return bool(copy["is_complete"])

    def request(self, packs: Sequence[str]) -> None:
        """Have these packs fetched before others."""
        self._http.post(self._path + "/wanted", {"packs": list(packs)}, may_repeat=True)

    def report_damaged_packs(self, packs: Sequence[str]) -> None:
        """Leave it to who fills the copy, who finds the same."""


@dataclass(frozen=True)
class EarlyData:
    """The dataset of a job under one name: `folder` is where its files appear."""

    name: str
    folder: Path

    def __call__(self) -> EarlyRoutes:
        """Open a connection to the platform, which is waited for where it is away: it gave the address itself.

        Raises InvalidRequest in a job that does not read it early.
        """
        given = json.loads(os.environ.get(VARIABLE) or "{}")
        token = given.get("tokens", {}).get(self.name)
        if token is None:
            raise InvalidRequest(
                f"This job does not read '{self.name}' early.",
                hint="Say `start: early` in its data, or read the files at nearline.data(NAME).",
            )
        return EarlyRoutes(Http(given["url"], token, max_first_attempts=sys.maxsize))

    def wait(self) -> None:
        """Return when all files are there. Raises Failed where they do not come."""
        routes, began = self(), time.monotonic()
        while not routes.is_complete():
            waited_s = time.monotonic() - began
            time.sleep(min(max(_LOOK_AT_LEAST_S, waited_s * _LOOK_SHARE), _LOOK_AT_MOST_S))


class EarlyFiles(CommitFiles):
    """The files of a commit whose cached copy is being filled, with the methods of `CommitFiles`."""

    def __init__(self, data: EarlyData, *, memory_bytes: int = DEFAULT_MEMORY_BYTES, threads: int = _THREADS) -> None:
        super().__init__(data().get_commit(), data, memory_bytes=memory_bytes, threads=threads)
        self._folder = data.folder

    def _near(self, storage: Storage, blobs: BlobReader) -> Reader:
        assert isinstance(storage, EarlyRoutes)  # noqa: S101 (what EarlyData opens)
        return CopyReader(self._folder, blobs, storage.request)
