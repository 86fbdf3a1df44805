"""Our signatures are those of the reference implementation."""

from datetime import UTC, datetime
from unittest.mock import patch
from urllib.parse import parse_qsl, urlsplit

import pytest
from botocore import auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from datasets.adapters.s3 import S3Keys, presign

NOW = datetime(2026, 11, 21, 4, 5, 6, tzinfo=UTC)
KEYS = S3Keys("AKIAEXAMPLE", "secret/with+signs", "eu-central-1")


def reference(method, url, headers):
    request = AWSRequest(method=method, url=url, headers=headers)
    with patch.object(auth, "get_current_datetime", lambda: NOW.replace(tzinfo=None)):
        auth.S3SigV4QueryAuth(Credentials(KEYS.access_key, KEYS.secret_key), "s3", KEYS.region, expires=900).add_auth(
            request
        )
    return dict(parse_qsl(urlsplit(request.url).query))


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET", {}),
        ("PUT", {"Content-Length": "12"}),
        ("PUT", {"Content-Length": "12", "x-amz-checksum-sha256": "n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg="}),
        ("PUT", {"Content-Length": "12", "x-amz-content-sha256": "0" * 64}),
        ("PUT", {"Content-MD5": "CY9rzUYh03PK3k6DJie09g=="}),
    ],
)
def test_a_signature_agrees_with_botocore(method, headers):
    path = "/bucket/prefix/packs/ab/ab~c_d.e-f"

    url = presign(
        KEYS, method=method, endpoint="http://127.0.0.1:7070", path=path, headers=headers, now=NOW, lifetime_s=900
    )

    assert dict(parse_qsl(urlsplit(url).query)) == reference(method, f"http://127.0.0.1:7070{path}", headers)
    assert urlsplit(url).path == path
