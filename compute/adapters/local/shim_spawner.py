"""Where shims come from: one small process that has loaded their program and forks, instead of a Python for each job.

Starting Python costs more than many a job does. The process ends when the platform does, its shims stay.
"""

import functools
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

_ROOT = Path(__file__).parents[3]
_PROGRAM = "import sys; sys.path.append(sys.argv.pop(1)); from {} import main; main()"
_TRIAL = "import sys; sys.path.append(sys.argv.pop(1)); from compute.adapters.local.sandbox import try_out; try_out()"
_TIMEOUT_S = 30


class ShimSpawner:
    """Starts shims. Begins with the first of them, and again when its process was killed."""

    def __init__(self, jobs: Path, module: str) -> None:
        self._jobs = jobs
        self._program = _PROGRAM.format(module)
        self._guard = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None

    def spawn(self, folder: str, order: bytes, descriptors: Sequence[int]) -> None:
        """Start a shim for a job. It has `descriptors` (lock, control, log) from the moment that this sends them.

        Raises OSError.
        """
        with self._guard, os.fdopen(os.memfd_create("order"), "r+b", buffering=0) as order_file:
            order_file.write(order)
            order_file.seek(0)
            passed = [*descriptors, order_file.fileno()]
            try:
                socket.send_fds(self._channel or self._spawn(), [os.fsencode(folder)], passed)
            except (BrokenPipeError, ConnectionResetError):
                socket.send_fds(self._spawn(), [os.fsencode(folder)], passed)

    def close(self) -> None:
        """Let the process end. The shims stay."""
        with self._guard:
            if self._channel is not None and self._process is not None:
                self._channel.close()
                self._process.wait()
            self._channel = self._process = None

    def _spawn(self) -> socket.socket:
        if self._process is not None:
            self._process.wait()
        # Messages keep their borders, and the other side reads an end when this one is closed, even by a SIGKILL.
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", self._program, str(_ROOT), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                cwd=self._jobs,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._channel = ours
        return ours


@functools.cache
def find_refusal() -> str:
    """Try a sandbox out in a process of its own and say why it cannot be made; empty when it can."""
    command = [sys.executable, "-I", "-S", "-c", _TRIAL, str(_ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, env={}, timeout=_TIMEOUT_S, check=False)
    return done.stdout.strip() or ("" if done.returncode == 0 else "Trying it out failed.")
