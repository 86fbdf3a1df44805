"""Where the local driver keeps a job: one folder each, with everything about it, readable by people.

<jobs>/<name>/   work/ output/ data/ input/ tmp/ parameters.json log usage.jsonl launch.json started.json exit.json
                 lock (held by the shim as long as it lives)  control (a FIFO for orders to the shim)
<jobs>/.live/<name>   made before a job's folder, removed when the platform has forgotten the job: what to list
<jobs>/.news          a FIFO on which each shim writes its job's name when it begins and when it ends
"""

import errno
import fcntl
import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compute.engine.environment import JobPaths
from compute.engine.ports import Launch

# A reader may hold the lock for a moment to see whether it is free; a starter tries a little longer than that.
_LOCK_TRIES, _LOCK_PAUSE_S = 20, 0.001


@dataclass(frozen=True)
class JobFolder:
    """The folder of one job, whose paths are texts: those of pathlib take a tenth of what a start takes."""

    path: str

    @property
    def log(self) -> str:
        """What the command printed."""
        return f"{self.path}/log"

    @property
    def usage(self) -> str:
        """One sample a line."""
        return f"{self.path}/usage.jsonl"

    @property
    def output(self) -> str:
        """What the job leaves for its children."""
        return f"{self.path}/output"

    @property
    def control(self) -> str:
        """The FIFO that takes orders for the shim."""
        return f"{self.path}/control"

    def read(self, name: str) -> dict[str, Any] | None:
        """Return one of the JSON files; None when it is not there."""
        try:
            with open(f"{self.path}/{name}", "rb", buffering=0) as file:
                value: dict[str, Any] = json.loads(file.read())
        except FileNotFoundError:
            return None
        return value

    def lock(self) -> int | None:
        """Take the lock and return its descriptor; None when a shim, or another starter, holds it."""
        descriptor = os.open(f"{self.path}/lock", os.O_RDWR | os.O_CREAT, 0o600)
        for _ in range(_LOCK_TRIES):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_LOCK_PAUSE_S)
            else:
                return descriptor
        os.close(descriptor)
        return None

    def is_locked(self) -> bool:
        """Whether a shim lives, or a starter is at work."""
        try:
            descriptor = os.open(f"{self.path}/lock", os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            return False
        finally:
            os.close(descriptor)

    def has_begun(self) -> bool:
        """Whether the job was started, or ended before it could be."""
        return self._has("started.json") or self._has("exit.json")

    def has_ended(self) -> bool:
        """Whether the job was started and nothing can be printed any more."""
        return self._has("exit.json") or (self._has("started.json") and not self.is_locked())

    def _has(self, name: str) -> bool:
        return os.path.exists(f"{self.path}/{name}")

    def open_control(self) -> int:
        """Make the FIFO for orders and open both its ends, so that an order given early waits in it."""
        control = self.control
        with suppress(FileExistsError):
            os.mkfifo(control, 0o600)
        return os.open(control, os.O_RDWR)

    def send(self, order: str) -> None:
        """Give the shim an order; without effect when none lives."""
        try:
            descriptor = os.open(self.control, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno in {errno.ENXIO, errno.ENOENT}:
                return
            raise
        try:
            os.write(descriptor, order.encode() + b"\n")
        except BrokenPipeError:
            return  # The shim ended between the open and the write.
        finally:
            os.close(descriptor)

    def prepare(self, launch: Launch, notes: Sequence[str]) -> JobPaths:
        """Make the folders and files that the job finds at its start. Repeating it changes nothing."""
        folders = {part: f"{self.path}/{part}" for part in ("work", "output", "data", "input", "tmp")}
        for folder in folders.values():
            with suppress(FileExistsError):
                os.mkdir(folder)
        parameters = f"{self.path}/parameters.json"
        _write(parameters, dict(launch.spec.parameters))  # no job reads it before it is whole
        if notes:
            Path(self.log).write_text("".join(f"[nearline] {note}\n" for note in notes))
        return JobPaths(parameters=parameters, **folders)


def write_json(path: str, value: Mapping[str, object]) -> None:
    """Write a JSON file so that it is there whole or not at all."""
    part = f"{path}.part"
    _write(part, value)
    os.replace(part, path)


def _write(path: str, value: Mapping[str, object]) -> None:
    with open(path, "wb") as file:
        file.write(json.dumps(value).encode())
