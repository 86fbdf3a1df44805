"""What the store and the machine can do at most: large objects between memory and S3, on a few connections."""

import http.client
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import boto3
from botocore.config import Config

from benchmarks.data_plane.peers import Bucket

OBJECT_BYTES = 32 << 20
_CONNECTIONS = 4


class Ceiling:
    """Large objects, as many as a set has bytes, sent from memory and read into memory."""

    def __init__(self, bucket: Bucket, *, size_bytes: int) -> None:
        client = boto3.client(
            "s3",
            endpoint_url=bucket.endpoint,
            region_name="us-east-1",
            aws_access_key_id=bucket.access_key,
            aws_secret_access_key=bucket.secret_key,
            config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
        )
        self._host = urlsplit(bucket.endpoint).netloc
        self._data = os.urandom(OBJECT_BYTES)
        keys = [f"ceiling/{number}" for number in range(max(1, size_bytes // OBJECT_BYTES))]

        def sign(method: str) -> list[str]:
            return [client.generate_presigned_url(method, {"Bucket": bucket.name, "Key": key}) for key in keys]

        self._puts, self._gets = sign("put_object"), sign("get_object")
        self.size_bytes = len(keys) * OBJECT_BYTES

    def put(self) -> None:
        """Send all objects."""
        self._for_all(self._puts, self._put)

    def get(self) -> None:
        """Read all objects."""
        self._for_all(self._gets, self._get)

    def _for_all(self, urls: list[str], work: Callable[[http.client.HTTPConnection, str, bytearray], None]) -> None:
        def run(some: list[str]) -> None:
            connection, memory = http.client.HTTPConnection(self._host), bytearray(OBJECT_BYTES)
            for url in some:
                work(connection, url, memory)
            connection.close()

        with ThreadPoolExecutor(_CONNECTIONS) as pool:
            list(pool.map(run, (urls[number::_CONNECTIONS] for number in range(_CONNECTIONS))))

    def _put(self, connection: http.client.HTTPConnection, url: str, _memory: bytearray) -> None:
        connection.request("PUT", url, self._data)
        answer = connection.getresponse()
        assert (answer.read(), answer.status)[1] == 200, answer.status

    def _get(self, connection: http.client.HTTPConnection, url: str, memory: bytearray) -> None:
        connection.request("GET", url)
        answer, view, filled = connection.getresponse(), memoryview(memory), 0
        while count := answer.readinto(view[filled:]):
            filled += count
        assert (answer.status, filled) == (200, OBJECT_BYTES)
