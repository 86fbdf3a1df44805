"""What is sent to a host so that it can fill copies, and what is said where that does not run."""

import io
import subprocess
import sys
import time
import zipfile

import pytest

from compute.adapters.ssh.host import packages
from compute.adapters.ssh.host.copies import Caller, Work
from compute.adapters.ssh.program import build_packages

DEADLINE_S = 120


@pytest.fixture
def caller(tmp_path, monkeypatch) -> Caller:
    monkeypatch.setenv("HOME", str(tmp_path))
    return Caller("http://127.0.0.1:9", "token", "digest")


def test_a_python_without_any_packages_fills_copies_with_those_that_are_sent(tmp_path):
    with zipfile.ZipFile(io.BytesIO(build_packages().data)) as archive:
        archive.extractall(tmp_path)

    program = f"import sys; sys.path += [{str(tmp_path / 'before')!r}, {str(tmp_path / 'after')!r}]; "
    program += "import nearline.pod.copies, nearline._http, nearline._store, httpx, urllib3, blake3"
    tried = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False)

    assert (tried.returncode, tried.stderr) == (0, "")


def test_a_process_that_fails_each_time_is_told_in_its_last_words(tmp_path, caller):
    before, _ = packages.list_paths(caller.packages)
    (before / "nearline").mkdir(parents=True)
    (before / "nearline/__init__.py").write_text("raise RuntimeError('no such thing')")
    work = Work(tmp_path / "work")

    result, deadline = None, time.monotonic() + DEADLINE_S
    while result is None and time.monotonic() < deadline:
        result = work.follow([], caller)

    assert result == {"error": "The process that does it failed again and again: RuntimeError: no such thing"}
