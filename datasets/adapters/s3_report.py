"""Tries out on a bucket what the product asks of an S3 server, and says what it means where the server does otherwise.

Nothing counts but what was seen: servers ignore headers that they accept, and differ in what they refuse.
"""

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import urllib3
from botocore.exceptions import BotoCoreError, ClientError

from datasets.adapters.s3 import S3Keys, S3Location, S3Store, make_client
from datasets.engine.ports import Announcement, PutProof
from datasets.errors import BlobMissing, ContentCorrupt, InvalidStore, StoreUnreachable

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

import base64

_BODY: Final = b"0123456789"
_NAMES: Final = ("0", "1", "2")
_LIFETIME_S: Final = 300
_MOST_SKEW: Final = timedelta(minutes=5)
_REFUSALS: Final = range(400, 500)
_NOT_SET: Final = {"NoSuchLifecycleConfiguration", "ObjectLockConfigurationNotFoundError"}


_RIGHT = b"the announced body"
_WRONG = _RIGHT[::-1]
_NOT_IMPLEMENTED = 501
_CANDIDATES = (PutProof.PAYLOAD_SHA256, PutProof.CHECKSUM_SHA256, PutProof.CONTENT_MD5)


class Outcome(StrEnum):
    """What a check has shown. WARNING: the product works, at a cost. UNKNOWN: the server does not say."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """What was seen of one thing, and what to do where it is not as it should be."""

    name: str
    outcome: Outcome
    text: str


@dataclass(frozen=True)
class StoreReport:
    """What a server was seen to do. `put_proof` is the strongest proof of an upload that it enforces."""

    put_proof: PutProof
    findings: Sequence[Finding]


def report_on(location: S3Location, *, access_key: str, secret_key: str, now: datetime) -> StoreReport:
    """Put a few small objects under `probe/`, look at what the server does with them, and delete them.

    Raises InvalidStore when it refuses our keys or the bucket, StoreUnreachable when it does not answer.
    """
    proof = probe_put_proof(location, access_key=access_key, secret_key=secret_key, now=now)
    store = S3Store(location, access_key=access_key, secret_key=secret_key, put_proof=proof)
    client = make_client(location, S3Keys(access_key, secret_key, location.region))
    folder = f"probe/{secrets.token_hex(16)}"
    with urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(connect=5, read=30)) as pool:
        bench = _Bench(store, client, pool, location, folder, now)
        try:
            findings = [_run(name, check, bench) for name, check in _CHECKS.items()]
        finally:
            store.delete(bench.keys)
    return StoreReport(proof, findings)


@dataclass(frozen=True)
class _Bench:
    """What checks work with: the server, and the keys of three objects that are deleted afterwards."""

    store: S3Store
    client: "S3Client"
    pool: urllib3.PoolManager
    location: S3Location
    folder: str
    now: datetime

    @property
    def keys(self) -> list[str]:
        return [f"{self.folder}/{name}" for name in _NAMES]

    def send(self, method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> int:
        return self.pool.request(method, url, body=body, headers=headers).status

    def sign_put(self, key: str, *, now: datetime | None = None) -> tuple[str, dict[str, str]]:
        """Return the address and the headers of a signed PUT of the body."""
        body = Announcement(len(_BODY), hashlib.sha256(_BODY).hexdigest())
        request = self.store.sign_put(key, body, now=now or self.now, lifetime_s=_LIFETIME_S)
        # The length is that of the body that is sent.
        return request.url, {name: value for name, value in request.headers.items() if name != "Content-Length"}

    def sign_get(self, key: str, *, now: datetime | None = None) -> str:
        return self.store.sign_get(key, now=now or self.now, lifetime_s=_LIFETIME_S).url


class _Fault(Exception):
    """What a check has shown that is not as it should be."""

    def __init__(self, outcome: Outcome, text: str) -> None:
        super().__init__(text)
        self.outcome = outcome


def _run(name: str, check: Callable[[_Bench], str], bench: _Bench) -> Finding:
    try:
        return Finding(name, Outcome.OK, check(bench))
    except _Fault as fault:
        return Finding(name, fault.outcome, str(fault))
    except (BlobMissing, ContentCorrupt, InvalidStore, StoreUnreachable) as error:
        return Finding(name, Outcome.FAILED, error.message)
    except ClientError as error:
        return Finding(name, Outcome.FAILED, f"The store answered with {error.response['Error']['Code']}.")
    except (urllib3.exceptions.HTTPError, BotoCoreError) as error:
        return Finding(name, Outcome.FAILED, f"The store does not answer: {error}")


def _expect(holds: bool, text: str, outcome: Outcome = Outcome.FAILED) -> None:  # noqa: FBT001 (reads as a sentence)
    if not holds:
        raise _Fault(outcome, text)


def _check_reading(bench: _Bench) -> str:
    for key in bench.keys:
        bench.store.put(key, _BODY[::-1])
        bench.store.put(key, _BODY)
    for key in bench.keys:
        _expect(
            bench.store.get(key) == _BODY,
            "An object that was replaced was read as it was before. Use a consistency of 'read after new write' or "
            "stronger for the bucket: records of datasets are replaced.",
        )
    return "What was written, also again, is read at once."


def _check_ranges(bench: _Bench) -> str:
    _expect(
        bench.store.get_range(bench.keys[0], 3, 4) == _BODY[3:7],
        "The server gave other bytes than those of the range. Nothing can be read from packs.",
    )
    return "A range is exactly the bytes asked for."


def _check_missing(bench: _Bench) -> str:
    key = f"{bench.folder}/missing"
    _expect(bench.store.stat(key) is None, "The server says that an object is there which nobody wrote.")
    return "An object that is not there is told from an error."


def _check_listing(bench: _Bench) -> str:
    keys: list[str] = []
    position: dict[str, Any] = {}
    prefix = f"{bench.location.prefix}{bench.folder}/"
    for _ in bench.keys:
        page = bench.client.list_objects_v2(Bucket=bench.location.bucket, Prefix=prefix, MaxKeys=2, **position)
        keys += [item["Key"].removeprefix(bench.location.prefix) for item in page.get("Contents", [])]
        if not page.get("IsTruncated"):
            break
        position = {"ContinuationToken": page["NextContinuationToken"]}
    _expect(
        keys == bench.keys,
        f"Of {len(_NAMES)} objects that were just written the listing has {len(keys)}. `fsck`, a rebuild and the "
        "deletion of a dataset miss what was written shortly before them.",
        Outcome.WARNING,
    )
    return "Listings have what was just written, page by page, in order."


def _check_put_proof(bench: _Bench) -> str:
    proof = bench.store.put_proof
    _expect(
        proof != PutProof.NONE,
        "The server takes any body for a signed upload: damage on the way there is found only when a file is read.",
        Outcome.WARNING,
    )
    return f"The server refuses an upload with other bytes than announced, by {proof}."


def _check_signed_put(bench: _Bench) -> str:
    key, other = bench.keys[:2]
    url, headers = bench.sign_put(key)
    _expect(
        bench.send("PUT", url, _BODY, headers) < _REFUSALS[0], "The server refuses a signed upload: none can be made."
    )
    for what, address, body in (
        ("of another length", url, _BODY + b"x"),
        ("of another object", url.replace(key, other), _BODY),
    ):
        _expect(
            bench.send("PUT", address, body, headers) in _REFUSALS,
            f"A signed upload was also taken for a body {what}. Whoever may upload can store what was not counted.",
        )
    return "A signed upload is good for its object and its length only."


def _check_signed_get(bench: _Bench) -> str:
    key, other = bench.keys[:2]
    url = bench.sign_get(key)
    answer = bench.pool.request("GET", url, headers={"Range": "bytes=3-6"})
    _expect(answer.data == _BODY[3:7], "A signed address does not give a range. Clones and caches need ranges.")
    _expect(
        bench.send("GET", url.replace(key, other)) in _REFUSALS,
        "A signed address also gave another object. Whoever may read one dataset can read all.",
    )
    return "A signed address gives ranges of its object, and no other object."


def _check_expiry(bench: _Bench) -> str:
    past = bench.now - timedelta(seconds=10 * _LIFETIME_S)
    url, headers = bench.sign_put(bench.keys[0], now=past)
    is_refused = bench.send("PUT", url, _BODY, headers) in _REFUSALS
    is_refused &= bench.send("GET", bench.sign_get(bench.keys[0], now=past)) in _REFUSALS
    _expect(is_refused, "A signed address was good after its end. Whoever once saw one keeps the access.")
    return "A signed address is refused after its end."


def _check_strangers(bench: _Bench) -> str:
    location = bench.location
    url = f"{location.endpoint}/{location.bucket}/{location.prefix}{bench.keys[0]}"
    _expect(
        bench.send("GET", url) in _REFUSALS,
        "Everybody can read the bucket, without keys. Take public access away from it.",
    )
    return "Nobody can read an object without keys or a signed address."


def _check_clock(bench: _Bench) -> str:
    date = bench.pool.request("HEAD", bench.sign_get(bench.keys[0])).headers.get("Date", "")
    try:
        skew = abs(parsedate_to_datetime(date).astimezone(UTC) - bench.now)
    except ValueError as error:
        raise _Fault(Outcome.UNKNOWN, "The server does not tell its time.") from error
    _expect(
        skew < _MOST_SKEW,
        f"The clocks of the server and of this machine differ by {skew.total_seconds():.0f} s. From 15 minutes on it "
        "refuses everything. Set both by a time server.",
        Outcome.WARNING,
    )
    return f"Its clock and ours differ by less than {_MOST_SKEW.total_seconds() / 60:.0f} minutes."


def _check_deleting(bench: _Bench) -> str:
    bench.store.delete([*bench.keys, f"{bench.folder}/missing"])
    left = [key for key in bench.keys if bench.store.stat(key) is not None]
    _expect(not left, f"{len(left)} of {len(_NAMES)} objects are still there after they were deleted.")
    return "Many objects are deleted by one request, missing ones included."


def _check_lifecycle(bench: _Bench) -> str:
    answer = _ask(lambda: bench.client.get_bucket_lifecycle_configuration(Bucket=bench.location.bucket))
    rules = [rule for rule in answer.get("Rules", []) if rule.get("Status") == "Enabled" and rule.get("Expiration")]
    harmful = [rule.get("ID", "without a name") for rule in rules if _is_ours(_prefix_of(rule), bench.location)]
    _expect(
        not harmful,
        f"A lifecycle rule of the bucket deletes objects by their age: {', '.join(map(str, harmful))}. Data will be "
        "lost. Take the rule away, or limit it to another prefix.",
    )
    return "No lifecycle rule deletes objects."


def _check_versioning(bench: _Bench) -> str:
    answer = _ask(lambda: bench.client.get_bucket_versioning(Bucket=bench.location.bucket))
    _expect(
        answer.get("Status") != "Enabled",
        "The bucket keeps versions: what is deleted still takes space. Add a lifecycle rule for versions that are not "
        "current.",
        Outcome.WARNING,
    )
    return "What is deleted takes no space."


def _check_lock(bench: _Bench) -> str:
    answer = _ask(lambda: bench.client.get_object_lock_configuration(Bucket=bench.location.bucket))
    rule = answer.get("ObjectLockConfiguration", {}).get("Rule")
    _expect(
        rule is None,
        "The bucket locks each object for some time. What nobody needs any more takes space until then.",
        Outcome.WARNING,
    )
    return "Objects are not locked."


_CHECKS: Final[Mapping[str, Callable[[_Bench], str]]] = {
    "read after write": _check_reading,
    "ranges": _check_ranges,
    "missing objects": _check_missing,
    "listing": _check_listing,
    "verified uploads": _check_put_proof,
    "signed uploads": _check_signed_put,
    "signed downloads": _check_signed_get,
    "expiry": _check_expiry,
    "strangers": _check_strangers,
    "clock": _check_clock,
    "deletion": _check_deleting,
    "lifecycle rules": _check_lifecycle,
    "versions": _check_versioning,
    "object lock": _check_lock,
}


def _ask(question: Callable[[], Any]) -> Mapping[str, Any]:
    """Return what a bucket is set to; nothing where it is not set."""
    try:
        answer: Mapping[str, Any] = question()
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code in _NOT_SET:
            return {}
        raise _Fault(Outcome.UNKNOWN, f"The server does not say ({code}). Look at the bucket's settings.") from error
    return answer


def _prefix_of(rule: Mapping[str, Any]) -> str:
    chosen = rule.get("Filter", {})
    return str(rule.get("Prefix") or chosen.get("Prefix") or chosen.get("And", {}).get("Prefix") or "")


def _is_ours(prefix: str, location: S3Location) -> bool:
    return prefix.startswith(location.prefix) or location.prefix.startswith(prefix)


def probe_put_proof(location: S3Location, *, access_key: str, secret_key: str, now: datetime) -> PutProof:
    """Return the strongest proof of the body of a presigned PUT that the server was seen to enforce.

    That is found out by sending wrong bodies: some servers accept a checksum header that they then ignore.
    Raises InvalidStore when it refuses our keys or the bucket, StoreUnreachable when it does not answer.
    """
    with urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(connect=5, read=30)) as pool:
        for candidate in _CANDIDATES:
            store = S3Store(location, access_key=access_key, secret_key=secret_key, put_proof=candidate)
            if _is_enforced(store, pool, now):
                return candidate
    _check_plain_put(S3Store(location, access_key=access_key, secret_key=secret_key, put_proof=PutProof.NONE))
    return PutProof.NONE


def _is_enforced(store: S3Store, pool: urllib3.PoolManager, now: datetime) -> bool:
    key = f"probe/{secrets.token_hex(16)}"
    digest = base64.b64encode(hashlib.md5(_RIGHT, usedforsecurity=False).digest()).decode()
    body = Announcement(len(_RIGHT), hashlib.sha256(_RIGHT).hexdigest(), digest)
    request = store.sign_put(key, body, now=now, lifetime_s=_LIFETIME_S)
    try:
        takes_right = _send(pool, request.url, dict(request.headers), _RIGHT)
        takes_wrong = takes_right and _send(pool, request.url, dict(request.headers), _WRONG)
    finally:
        store.delete([key])
    return takes_right and not takes_wrong


def _send(pool: urllib3.PoolManager, url: str, headers: dict[str, str], body: bytes) -> bool:
    try:
        status = pool.request("PUT", url, body=body, headers=headers).status
    except urllib3.exceptions.HTTPError as error:
        raise StoreUnreachable(f"The store does not answer: {error}") from error
    if status >= 500 and status != _NOT_IMPLEMENTED:  # noqa: PLR2004 (its own failure says nothing about what it enforces)
        raise StoreUnreachable(f"The store answered with {status} while it was being tried out.")
    return status < 300  # noqa: PLR2004


def _check_plain_put(store: S3Store) -> None:
    key = f"probe/{secrets.token_hex(16)}"
    try:
        store.put(key, _RIGHT)
        if store.get(key) != _RIGHT:
            raise InvalidStore("The store gave back other bytes than it was given.")
    finally:
        store.delete([key])
