"""A store in a bucket of an S3 server (StorageGRID, AWS, Ceph, versitygw), through boto3."""

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from datasets.engine.layout import check_key, check_prefix
from datasets.engine.ports import Announcement, BlobStat, PutProof, SignedRequest
from datasets.errors import BlobMissing, ContentCorrupt, InvalidStore, StoreUnreachable
from nearline.content.retry import Failure, RetryPolicy

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

import hmac
from collections.abc import Mapping
from urllib.parse import quote

T = TypeVar("T")

_DELETE_BATCH = 1000
# More than new buckets may be called on AWS: older ones, and those of other servers, have such names.
_ENDPOINT = re.compile(r"https?://[^/@?#\s]+")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
MISSING = {"404", "NoSuchKey", "NotFound"}
_SKEWED = {"RequestTimeTooSkewed", "RequestExpired"}
_SLOW = {"RequestTimeout", "SlowDown"}
_BROKEN, _PASSING = 500, {408, 429}
# Someone may be waiting for a page; what can wait for longer tries again by itself.
_ATTEMPTS, _LONGEST_WAIT_S = 5, 4.0
_REFUSED = {"403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "NoSuchBucket"}


def classify(error: Exception) -> Failure:
    """Return whether another attempt at a request to an S3 server may cure an error."""
    if not isinstance(error, StoreUnreachable):
        return Failure.PERMANENT
    if isinstance(error.__cause__, ClientError):
        answer = error.__cause__.response
        status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        is_passing = status >= _BROKEN or status in _PASSING or answer.get("Error", {}).get("Code") in _SLOW
        return Failure.SERVER_ERROR if is_passing else Failure.PERMANENT
    return Failure.SERVER_ERROR


_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True)
class S3Keys:
    """What signs: an access key, its secret, and the region that the server calls itself."""

    access_key: str
    secret_key: str
    region: str


@dataclass(frozen=True)
class S3Location:
    """Where in which server: `s3://bucket/prefix?endpoint=http://host:port&region=name`."""

    bucket: str
    prefix: str
    endpoint: str
    region: str

    @classmethod
    def parse(cls, url: str) -> "S3Location":
        """Take the address apart. Raises InvalidStore."""
        parts = urlsplit(url)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        if parts.scheme != "s3" or not parts.netloc or set(query) - {"endpoint", "region"}:
            raise InvalidStore(f"'{url}' is not an address of the form s3://bucket/prefix?endpoint=…&region=….")
        if not _BUCKET.fullmatch(parts.netloc):
            raise InvalidStore(f"'{parts.netloc}' cannot be the name of a bucket: letters, digits, '.', '-' and '_'.")
        region = query.get("region", "us-east-1")
        endpoint = query.get("endpoint", f"https://s3.{region}.amazonaws.com").rstrip("/")
        # A name and password in it would be in each signed address.
        if not _ENDPOINT.fullmatch(endpoint):
            raise InvalidStore(f"The endpoint '{endpoint}' is not of the form http(s)://host[:port].")
        prefix = parts.path.strip("/")
        if prefix:
            try:
                check_key(prefix)
            except ValueError as error:
                raise InvalidStore(f"'{prefix}' cannot be a prefix of keys.") from error
        return cls(parts.netloc, f"{prefix}/" if prefix else "", endpoint, region)


class S3Store:
    """Objects in a bucket, under a prefix. Signed requests go to the S3 server itself, never through us."""

    def __init__(
        self,
        location: S3Location,
        *,
        access_key: str,
        secret_key: str,
        put_proof: PutProof,
        policy: RetryPolicy | None = None,
    ) -> None:
        self.put_proof = put_proof
        self._policy = policy or RetryPolicy(classify, max_attempts=_ATTEMPTS, max_delay_s=_LONGEST_WAIT_S)
        self._bucket = location.bucket
        self._prefix = location.prefix
        self._endpoint = location.endpoint
        self._keys = S3Keys(access_key, secret_key, location.region)
        self._client = make_client(location, self._keys)

    def put(self, key: str, data: bytes) -> None:
        """Store `data`."""
        digest = base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
        self._try(
            key,
            lambda: self._client.put_object(Bucket=self._bucket, Key=self._key(key), Body=data, ContentMD5=digest),
        )

    def get(self, key: str) -> bytes:
        """Return the whole object."""
        return self._read(key)

    def get_range(self, key: str, offset: int, size: int) -> bytes:
        """Return a part of an object."""
        data = self._read(key, Range=f"bytes={offset}-{offset + size - 1}")
        if len(data) != size:
            raise ContentCorrupt(f"The object {key} is shorter than it should be.", key=key)
        return data

    def stat(self, key: str) -> BlobStat | None:
        """Return the size of an object."""
        try:
            head = self._try(key, lambda: self._client.head_object(Bucket=self._bucket, Key=self._key(key)))
        except BlobMissing:
            return None
        return BlobStat(key, head["ContentLength"])

    def list_blobs(self, prefix: str) -> Iterator[BlobStat]:
        """Yield what lies under a prefix."""
        check_prefix(prefix)
        position: dict[str, str] = {}
        while True:
            page = self._try(
                prefix,
                lambda: self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix + prefix, **position),  # type: ignore[arg-type]
            )
            for row in page.get("Contents", []):
                yield BlobStat(row["Key"].removeprefix(self._prefix), row["Size"])
            if not page.get("IsTruncated"):
                return
            position["ContinuationToken"] = page["NextContinuationToken"]

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, many in one request."""
        batch: list[str] = []
        for key in keys:
            batch.append(self._key(key))
            if len(batch) == _DELETE_BATCH:
                self._delete(batch)
                batch = []
        if batch:
            self._delete(batch)

    def sign_put(self, key: str, body: Announcement, *, now: datetime, lifetime_s: int) -> SignedRequest:
        """Return a request to the S3 server."""
        return self._sign("PUT", key, {"Content-Length": str(body.size_bytes), **self._proof(body)}, now, lifetime_s)

    def sign_get(self, key: str, *, now: datetime, lifetime_s: int) -> SignedRequest:
        """Return a request to the S3 server."""
        return self._sign("GET", key, {}, now, lifetime_s)

    def _proof(self, body: Announcement) -> dict[str, str]:
        if self.put_proof == PutProof.PAYLOAD_SHA256:
            return {"x-amz-content-sha256": body.sha256}
        if self.put_proof == PutProof.CHECKSUM_SHA256:
            return {"x-amz-checksum-sha256": base64.b64encode(bytes.fromhex(body.sha256)).decode()}
        if self.put_proof == PutProof.CONTENT_MD5 and body.md5 is not None:
            return {"Content-MD5": body.md5}
        return {}

    def _sign(self, method: str, key: str, headers: dict[str, str], now: datetime, lifetime_s: int) -> SignedRequest:
        url = presign(
            self._keys,
            method=method,
            endpoint=self._endpoint,
            path=f"/{self._bucket}/{self._key(key)}",
            headers=headers,
            now=now,
            lifetime_s=lifetime_s,
        )
        return SignedRequest(method, url, headers, now + timedelta(seconds=lifetime_s))

    def _delete(self, keys: Sequence[str]) -> None:
        answer = self._try(
            "objects to delete",
            lambda: self._client.delete_objects(
                Bucket=self._bucket, Delete={"Objects": [{"Key": key} for key in keys], "Quiet": True}
            ),
        )
        if faults := answer.get("Errors"):
            raise StoreUnreachable(f"The store did not delete {len(faults)} of {len(keys)} objects.")

    def _read(self, key: str, **part: str) -> bytes:
        def read() -> bytes:
            return self._client.get_object(Bucket=self._bucket, Key=self._key(key), **part)["Body"].read()  # type: ignore[arg-type]

        return self._try(key, read)

    def _try(self, key: str, call: Callable[[], T]) -> T:
        def attempt() -> T:
            with _translated(key):
                return call()

        return self._policy.repeat(attempt)

    def _key(self, key: str) -> str:
        check_key(key)
        return self._prefix + key


def make_client(location: S3Location, keys: S3Keys) -> "S3Client":
    """Return a client of boto3 that makes each request once and adds no checksums of its own."""
    client = boto3.client(
        "s3",
        endpoint_url=location.endpoint,
        region_name=location.region,
        aws_access_key_id=keys.access_key,
        aws_secret_access_key=keys.secret_key,
        config=Config(
            signature_version="s3v4",
            s3={"addressing_style": "path"},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            connect_timeout=5,
            read_timeout=60,
            # We try again ourselves: boto3 would not where a body breaks off while it is read.
            retries={"total_max_attempts": 1},
            max_pool_connections=32,
        ),
    )
    client.meta.events.register("before-call.s3.DeleteObjects", _add_content_md5)
    return client


def _add_content_md5(params: dict[str, Any], **_: object) -> None:
    # Older servers take a deletion of many objects only with this header, which boto3 no longer sends by itself.
    digest = hashlib.md5(params["body"], usedforsecurity=False).digest()
    params["headers"]["Content-MD5"] = base64.b64encode(digest).decode()


@contextmanager
def _translated(key: str) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code in MISSING:
            raise BlobMissing(f"The store has no object {key}.", key=key) from error
        if code in _REFUSED:
            raise InvalidStore(f"The store refuses us ({code}).") from error
        if code in _SKEWED:
            raise StoreUnreachable(
                "The store refuses our requests because its clock and ours differ by more than it allows; "
                "set both by a time server."
            ) from error
        if code in {"InvalidRange", "416"}:
            raise ContentCorrupt(f"The object {key} is shorter than it should be.", key=key) from error
        raise StoreUnreachable(f"The store answered with {code}.") from error
    except BotoCoreError as error:
        raise StoreUnreachable(f"The store does not answer: {error}") from error


def presign(
    keys: S3Keys,
    *,
    method: str,
    endpoint: str,
    path: str,
    headers: Mapping[str, str],
    now: datetime,
    lifetime_s: int,
) -> str:
    """Return the URL that makes this request valid with these headers, all of them signed, for `lifetime_s`.

    That is AWS Signature Version 4 in the query. boto3's own presigner gives no say over the payload hash and takes
    many times as long.
    `endpoint` is `scheme://host[:port]`; `path` starts with a slash and is not yet encoded.
    """
    host = endpoint.split("://", 1)[1]
    signed = {"host": host, **{name.lower(): value.strip() for name, value in headers.items()}}
    names = ";".join(sorted(signed))
    moment = now.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{moment[:8]}/{keys.region}/s3/aws4_request"
    query = {
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{keys.access_key}/{scope}",
        "X-Amz-Date": moment,
        "X-Amz-Expires": str(lifetime_s),
        "X-Amz-SignedHeaders": names,
    }
    query_text = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in sorted(query.items()))
    encoded_path = quote(path, safe="/-_.~")
    canonical = "\n".join(
        [
            method,
            encoded_path,
            query_text,
            *(f"{name}:{signed[name]}" for name in sorted(signed)),
            "",
            names,
            signed.get("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
        ]
    )
    to_sign = "\n".join([_ALGORITHM, moment, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    signature = hmac.new(_signing_key(keys, moment[:8]), to_sign.encode(), hashlib.sha256).hexdigest()
    return f"{endpoint}{encoded_path}?{query_text}&X-Amz-Signature={signature}"


def _signing_key(keys: S3Keys, date: str) -> bytes:
    key = f"AWS4{keys.secret_key}".encode()
    for part in (date, keys.region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key
