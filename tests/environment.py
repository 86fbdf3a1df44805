"""Loaded before Django: gives the whole test run a home folder of its own and keys that need no file."""

import atexit
import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import settings

_HOME = tempfile.mkdtemp(prefix="nearline-tests-")
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)
os.environ.update(
    NEARLINE_HOME=_HOME,
    NEARLINE_SECRET_KEY="only for tests: signs sessions and store addresses",
    NEARLINE_SECRETS_KEY="b25seSBmb3IgdGVzdHM6IDMyIGJ5dGVzIGFzIGtleSE=",
    NEARLINE_LOG_LEVEL="WARNING",
    PORT="8000",
)
for name in ("NEARLINE_URL", "NEARLINE_TOKEN", "NEARLINE_PROJECT"):
    os.environ.pop(name, None)

# A failure of a contract says what differs, as one of a test module does.
pytest.register_assert_rewrite("tests.contracts")

# Where a shell runs the tests in the background, they and the programs that they start would ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Property tests are about what is right, not how fast: a busy machine must not fail them.
settings.register_profile("steady", deadline=None)
settings.load_profile("steady")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage while thousands of tests are collected, nor among what stays until the run ends."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
