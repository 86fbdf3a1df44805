"""A real S3 server for the suites of stores."""

import os
import shutil
from pathlib import Path

import pytest
import urllib3

from tests import services


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Serve S3 on loopback. Without the server's program the tests are skipped; in CI they fail."""
    program = os.environ.get("NEARLINE_TEST_VERSITYGW") or shutil.which("versitygw")
    if not program:
        text = "No S3 server: install versitygw, or set NEARLINE_TEST_VERSITYGW to where it is."
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(text)
    with services.s3(Path(program), tmp_path_factory.mktemp("s3")) as environment:
        yield environment["NEARLINE_TEST_S3"]


@pytest.fixture
def send():
    with urllib3.PoolManager(retries=False, timeout=120) as pool:

        def perform(request, body):
            # The client of the signed request sends its headers; the length is that of the body it really has.
            headers = {key: value for key, value in request.headers.items() if key != "Content-Length"}
            response = pool.request(request.method, request.url, body=body or None, headers=headers)
            return response.status < 300, response.data

        yield perform
