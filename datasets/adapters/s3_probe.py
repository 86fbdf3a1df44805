"""Finds out how an S3 server proves the body of a presigned PUT, by sending it wrong bodies.

Servers differ, and some accept a checksum header that they then ignore; so nothing counts but a refusal that was seen.
"""

import base64
import hashlib
import secrets
from datetime import datetime

import urllib3

from datasets.adapters.s3 import S3Location, S3Store
from datasets.engine.ports import Announcement, PutProof
from datasets.errors import InvalidStore, StoreUnreachable

_RIGHT = b"the announced body"
_WRONG = _RIGHT[::-1]
_NOT_IMPLEMENTED = 501
_LIFETIME_S = 300
_CANDIDATES = (PutProof.PAYLOAD_SHA256, PutProof.CHECKSUM_SHA256, PutProof.CONTENT_MD5)


def probe_put_proof(location: S3Location, *, access_key: str, secret_key: str, now: datetime) -> PutProof:
    """Return the strongest proof that the server was seen to enforce.

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
