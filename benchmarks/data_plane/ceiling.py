"""What the store and the machine can do at most: large objects between memory and the store, on a few connections."""

import http.client
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.data_plane.targets import Bucket, Folder, Target

OBJECT_BYTES = 32 << 20
PREFIX = "ceiling"
_CONNECTIONS = 4


class Ceiling:
    """Large objects, as many as a set has bytes, sent from memory and read into memory."""

    def __init__(self, target: Target, *, size_bytes: int) -> None:
        self._data = os.urandom(OBJECT_BYTES)
        keys = [f"{PREFIX}/{number}" for number in range(max(1, size_bytes // OBJECT_BYTES))]
        self.size_bytes = len(keys) * OBJECT_BYTES
        self._put: Callable[[Sequence[str]], None]
        self._get: Callable[[Sequence[str]], None]
        match target:
            case Folder(path):
                self._puts = self._gets = [str(path / key) for key in keys]
                self._put, self._get = self._write, _read
            case Bucket() as bucket:
                client = bucket.client()

                def sign(method: str) -> list[str]:
                    return [client.generate_presigned_url(method, {"Bucket": bucket.name, "Key": key}) for key in keys]

                host = urlsplit(bucket.endpoint).netloc
                self._puts, self._gets = sign("put_object"), sign("get_object")
                self._put, self._get = partial(self._upload, host), partial(_download, host)

    def put(self) -> None:
        """Send all objects."""
        _share_out(self._puts, self._put)

    def get(self) -> None:
        """Read all objects."""
        _share_out(self._gets, self._get)

    def _write(self, paths: Sequence[str]) -> None:
        for path in paths:
            Path(path).parent.mkdir(exist_ok=True)
            Path(path).write_bytes(self._data)

    def _upload(self, host: str, urls: Sequence[str]) -> None:
        connection = http.client.HTTPConnection(host)
        for url in urls:
            connection.request("PUT", url, self._data)
            answer = connection.getresponse()
            assert (answer.read(), answer.status)[1] == 200, answer.status
        connection.close()


def _share_out(objects: Sequence[str], work: Callable[[Sequence[str]], None]) -> None:
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        list(pool.map(work, (objects[number::_CONNECTIONS] for number in range(_CONNECTIONS))))


def _read(paths: Sequence[str]) -> None:
    memory = bytearray(OBJECT_BYTES)
    for path in paths:
        with Path(path).open("rb") as file:
            assert file.readinto(memory) == OBJECT_BYTES


def _download(host: str, urls: Sequence[str]) -> None:
    connection, memory = http.client.HTTPConnection(host), bytearray(OBJECT_BYTES)
    for url in urls:
        connection.request("GET", url)
        answer, view, filled = connection.getresponse(), memoryview(memory), 0
        while count := answer.readinto(view[filled:]):
            filled += count
        assert (answer.status, filled) == (200, OBJECT_BYTES)
    connection.close()
