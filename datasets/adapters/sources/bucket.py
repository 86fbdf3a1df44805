"""A source in a bucket of an S3 server: the objects below a prefix. Read with an admin's keys, never written."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from botocore.response import StreamingBody

from datasets.adapters.s3 import MISSING, S3Keys, S3Location, classify, make_client
from datasets.errors import SourceFileChanged, SourceFileMissing, SourceUnreachable
from nearline.content.errors import BadPath
from nearline.content.mapping import FoundFile
from nearline.content.paths import check_path, show_path
from nearline.content.retry import RetryPolicy

T = TypeVar("T")

_ATTEMPTS, _LONGEST_WAIT_S = 5, 4.0
_PAST_END = {"InvalidRange", "416"}
_CHANGED = {"PreconditionFailed", "412"}
_REFUSED = {
    "SignatureDoesNotMatch": "its secret key is wrong",
    "InvalidAccessKeyId": "its access key is not known there",
    "AccessDenied": "its key may not read it",
    "NoSuchBucket": "there is no such bucket",
}


class SourceBucket:
    """Objects are files by their keys; keys that end in a slash stand for folders and are passed over."""

    parallel_reads = 16

    def __init__(self, name: str, location: S3Location, *, access_key: str, secret_key: str) -> None:
        self._name = name
        self._bucket, self._prefix = location.bucket, location.prefix
        self._client = make_client(location, S3Keys(access_key, secret_key, location.region))
        self._policy = RetryPolicy(classify, max_attempts=_ATTEMPTS, max_delay_s=_LONGEST_WAIT_S)

    def list_files(self, prefix: bytes) -> Iterator[FoundFile]:
        """Yield the objects below a prefix, and those that no dataset can carry with their reason."""
        below = self._prefix + (prefix.decode() + "/" if prefix else "")
        position: dict[str, str] = {}
        is_empty = True
        while True:
            page = self._try(
                prefix,
                lambda: self._client.list_objects_v2(Bucket=self._bucket, Prefix=below, **position),  # type: ignore[arg-type]
            )
            for item in page.get("Contents", []):
                is_empty = False
                if not item["Key"].endswith("/"):
                    yield _describe(item, self._prefix, below)
            if not page.get("IsTruncated"):
                break
            position["ContinuationToken"] = page["NextContinuationToken"]
        if is_empty and prefix:
            raise self._missing(prefix)

    @contextmanager
    def open(self, file: FoundFile) -> Iterator[BinaryIO]:
        """Return the content of an object, provided that it is still the one that was found."""
        body = self._get(file.path, IfMatch=file.version)
        try:
            yield io.BufferedReader(_Body(body, self._unreachable))
        finally:
            body.close()

    def read(self, path: bytes, offset: int, size: int) -> bytes:
        """Return a part of an object."""
        at = self._at(path) | {"Range": f"bytes={offset}-{offset + size - 1}"}

        def read() -> bytes:
            return self._client.get_object(**at)["Body"].read()

        return self._try(path, read, b"")

    def _get(self, path: bytes, **conditions: str) -> StreamingBody:
        return self._try(path, lambda: self._client.get_object(**self._at(path), **conditions)["Body"])  # type: ignore[arg-type]

    def _at(self, path: bytes) -> dict[str, Any]:
        return {"Bucket": self._bucket, "Key": self._prefix + path.decode()}

    def _try(self, path: bytes, call: Callable[[], T], past_end: T | None = None) -> T:
        """Call the server, again where that may help; `past_end` is the answer to a part beyond an object's end."""

        def attempt() -> T:
            try:
                return call()
            except ClientError as error:
                code = error.response.get("Error", {}).get("Code", "")
                if code in _PAST_END and past_end is not None:
                    return past_end
                if code in MISSING:
                    raise self._missing(path) from error
                if code in _CHANGED:
                    name = show_path(path)
                    raise SourceFileChanged(
                        f"'{name}' in the source '{self._name}' changed while it was read.",
                        path=name,
                        source=self._name,
                    ) from error
                raise self._unreachable(_REFUSED.get(code, code)) from error
            except BotoCoreError as error:
                raise self._unreachable(str(error)) from error

        return self._policy.repeat(attempt)

    def _missing(self, path: bytes) -> SourceFileMissing:
        name = show_path(path)
        return SourceFileMissing(f"'{name}' is not in the source '{self._name}'.", path=name, source=self._name)

    def _unreachable(self, why: str) -> SourceUnreachable:
        return SourceUnreachable(f"The source '{self._name}' cannot be read: {why}.", source=self._name)


class _Body(io.RawIOBase):
    """The body of an answer as a file. A connection that breaks off is told as what it is."""

    def __init__(self, body: StreamingBody, failure: Callable[[str], SourceUnreachable]) -> None:
        self._body = body
        self._failure = failure

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._body.read(len(buffer))
        except BotoCoreError as error:
            raise self._failure(str(error)) from error
        buffer[: len(data)] = data
        return len(data)


def _describe(item: Any, prefix: str, below: str) -> FoundFile:
    path = item["Key"].removeprefix(prefix).encode("utf-8", "surrogateescape")
    inner = item["Key"].removeprefix(below).encode("utf-8", "surrogateescape")
    try:
        check_path(inner)
    except BadPath as error:
        return FoundFile(path, 0, "", 0, why=error.why)
    modified_ns = int(item["LastModified"].timestamp() * 1_000_000_000)
    return FoundFile(path, item["Size"], item["ETag"], modified_ns)
