"""The program of the platform on a host: answers what comes over one connection, until that ends.

Whatever it starts outlives it: jobs have shims, and trees that are being brought are waited for. Any number of these
processes may run side by side, since all that they know is in files.
"""

import base64
import logging
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from compute.adapters.local import questions
from compute.adapters.ssh import wire
from compute.adapters.ssh.host import attempt_calls, packages
from compute.adapters.ssh.host.attempt_calls import AttemptCalls
from compute.adapters.ssh.host.copies import Caller, CopyFolder
from compute.adapters.ssh.host.jobs import HostJobs
from core.errors import PlatformError

# A platform that is there asks more often than that; one that vanished without a word is not waited for.
_SILENCE_S = 300.0
_THREADS = 16
_POLL_S = 0.5
_MOST_LOG_BYTES = 4 * 2**20

log = logging.getLogger(__name__)


class Answers:
    """What can be asked, by name, with JSON types on both sides."""

    def __init__(self, jobs: HostJobs, folder: Path) -> None:
        self._jobs = jobs
        self._folder = folder
        self._driver = jobs.driver
        self.methods: Mapping[str, Callable[..., Any]] = {
            "probe": lambda: wire.nodes_to_json(jobs.probe()),
            "check": self._check,
            "leave": jobs.remove,
            "start": self._start,
            "list_jobs": lambda: list(map(wire.report_to_json, jobs.list_jobs())),
            "stop": self._driver.stop,
            "read_log": self._read_log,
            "read_usage": self._read_usage,
            "describe_output": jobs.describe_output,
            "forget": self._driver.forget,
            "delete": jobs.delete,
            "list_checkpoints": self._driver.list_checkpoints,
            "list_checkpoint_files": self._list_checkpoint_files,
            "read_checkpoint_file": self._read_checkpoint_file,
            "delete_checkpoint": self._driver.delete_checkpoint,
            "wait_for_news": self._driver.wait_for_news,
            "have_packages": packages.are_here,
            "bring_packages": packages.bring,
            "check_copies": self._check_copies,
            "measure_copies": lambda root, site: CopyFolder(Path(root), site).measure(),
            "list_copies": lambda root, site: CopyFolder(Path(root), site).list_copies(),
            "ensure_copy": self._ensure_copy,
            "stop_copy": self._stop_copy,
            "serve_copy": self._serve_copy,
            "verify_copy": self._verify_copy,
            "remove_copy": self._remove_copy,
        }

    def _check(self, url: str) -> dict[str, Any]:
        free_bytes = self._jobs.measure()
        self._jobs.remove()
        return {"platform_fault": attempt_calls.find_fault(url), "free_bytes": free_bytes}

    def _start(self, launch: wire.Json, url: str, token: str) -> None:
        self._jobs.start(wire.launch_from_json(launch), AttemptCalls(url, token))

    def _read_log(self, name: str, offset: int, limit: int) -> wire.Json:
        return questions.chunk_to_json(self._driver.read_log(name, offset, min(limit, _MOST_LOG_BYTES)))

    def _read_usage(self, name: str, after: str | None) -> wire.Json:
        moment = None if after is None else datetime.fromisoformat(after)
        return questions.samples_to_json(self._driver.read_usage(name, moment))

    def _list_checkpoint_files(self, name: str) -> list[wire.Json] | None:
        folder = self._driver.open_checkpoint(name)
        return None if folder is None else wire.files_to_json(folder.list_files())

    def _read_checkpoint_file(self, name: str, path: str, offset: int, limit: int) -> str | None:
        """Return a part of a file in base64; None where there is none."""
        folder = self._driver.open_checkpoint(name)
        if folder is None:
            return None
        try:
            with folder.open(path) as file:
                file.seek(offset)
                return base64.b64encode(file.read(limit)).decode()
        except OSError:
            return None

    def _check_copies(self, root: str, site: str, packages: str) -> wire.Json:
        copies = CopyFolder(Path(root), site)
        if fault := copies.find_fault(packages, self._folder):
            return {"fault": fault}
        return {"fault": "", "hard_links": copies.makes_hard_links()}

    def _ensure_copy(
        self, *, root: str, site: str, copy: str, location: str, options: list[str], is_known: bool, **caller: Any
    ) -> wire.Json:
        self._jobs.hide(Path(root))
        return CopyFolder(Path(root), site).ensure(copy, location, options, Caller(**caller), is_known=is_known)

    def _stop_copy(self, root: str, site: str, copy: str) -> bool:
        return CopyFolder(Path(root), site).stop(copy)

    def _serve_copy(self, root: str, site: str, copy: str, reader: str, **caller: Any) -> wire.Json:
        return CopyFolder(Path(root), site).serve(copy, reader, Caller(**caller))

    def _verify_copy(self, root: str, site: str, copy: str, options: list[str], **caller: Any) -> wire.Json:
        return CopyFolder(Path(root), site).verify(copy, options, Caller(**caller))

    def _remove_copy(self, root: str, site: str, copy: str, **caller: Any) -> wire.Json:
        return CopyFolder(Path(root), site).remove(copy, Caller(**caller), find_reader=self._jobs.find_reader)


class Connection:
    """Frames with questions on one side, frames with answers on the other, in the order in which they are ready."""

    def __init__(self, questions_file: BinaryIO, answers_file: BinaryIO, answers: Answers) -> None:
        self._questions_file, self._answers_file = questions_file, answers_file
        self._answers = answers
        self._guard = threading.Lock()

    def serve(self) -> None:
        """Answer until nobody asks any more."""
        with ThreadPoolExecutor(_THREADS) as pool:
            self._write(wire.GREETING)
            while (question := self._read()) is not None:
                pool.submit(self._answer, question)

    def _read(self) -> wire.Json | None:
        if not select.select([self._questions_file], [], [], _SILENCE_S)[0]:
            return None
        length = int.from_bytes(self._read_exactly(wire.LENGTH_BYTES), "big")
        text = self._read_exactly(length) if length <= wire.MOST_FRAME_BYTES else b""
        return wire.read(text) if text else None

    def _read_exactly(self, size: int) -> bytes:
        """Return so many bytes; fewer at the end."""
        parts = []
        while size and (part := self._questions_file.read(size)):
            parts.append(part)
            size -= len(part)
        return b"" if size else b"".join(parts)

    def _answer(self, question: wire.Json) -> None:
        try:
            answer = {"result": self._answers.methods[question["method"]](**question["arguments"])}
        except PlatformError as error:
            answer = {"error": error.message, "code": error.code}
        except Exception as error:
            log.exception("%s failed", question.get("method"))
            answer = {"error": str(error) or type(error).__name__, "code": ""}
        self._write(wire.frame({"id": question["id"], **answer}))

    def _write(self, data: bytes) -> None:
        with self._guard:
            try:
                self._answers_file.write(data)
                self._answers_file.flush()
            except BrokenPipeError:
                return  # The end of the questions is read next.


def main() -> None:
    """Serve the jobs of a folder on stdin and stdout. Arguments: the folder, and paths that jobs may read."""
    folder, *readable = (Path(path).expanduser() for path in sys.argv[1:])
    answers_file = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anything else prints must not get between the frames
    os.umask(0o077)
    folder = folder.absolute()
    jobs = HostJobs(folder, readable)
    # Unbuffered, as a select on the descriptor must see all that is to be read.
    Connection(open(0, "rb", buffering=0), answers_file, Answers(jobs, folder)).serve()  # noqa: SIM115
    while jobs.is_bringing:
        time.sleep(_POLL_S)
