"""Programs that end with the process that started them, and a cleaner that removes what they leave on the machine.

Each program asks the kernel for SIGKILL at the end of its parent, so a test process that is killed leaves none behind.
The thread that starts a program is that parent: start programs from the main thread.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

DIES_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "--")


class Programs:
    """The running programs of one cluster by name, each with a log file."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._processes: dict[str, subprocess.Popen] = {}

    def start(self, name: str, command: Iterable[object]) -> subprocess.Popen:
        """Start a program in a process group of its own; its output is appended to its log."""
        with (self._logs / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [*DIES_WITH_PARENT, *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                umask=0o022,  # not ours, which is strict: root folders of containers inherit it
            )
        self._processes[name] = process
        return process

    def is_running(self, name: str) -> bool:
        return name in self._processes and self._processes[name].poll() is None

    def pid(self, name: str) -> int:
        return self._processes[name].pid

    def kill(self, name: str) -> None:
        """End a program as a power cut would; nothing happens where it was not started."""
        if name not in self._processes:
            return
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def stop(self) -> None:
        """End all programs, the last one first. None is asked to finish: what they hold is thrown away."""
        for name in reversed(list(self._processes)):
            self.kill(name)

    def wait_until(self, holds: Callable[[], bool], *, limit_s: float = 600) -> None:
        """Wait until something holds; raise with the end of the logs when a program ended or `limit_s` passed."""
        deadline = time.monotonic() + limit_s
        while not holds():
            ended = [name for name in self._processes if not self.is_running(name)]
            if ended or time.monotonic() > deadline:
                why = f"{', '.join(ended)} ended" if ended else f"not ready after {limit_s} s"
                raise RuntimeError(f"The cluster did not start: {why}.\n{self._ends_of_logs(ended)}")
            time.sleep(0.02)

    def _ends_of_logs(self, names: list[str]) -> str:
        logs = [self._logs / f"{name}.log" for name in names or self._processes]
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}" for log in logs)


class Cleaner:
    """A process that removes what is registered with it when it is told to, or when its parent is gone."""

    def __init__(self) -> None:
        script = Path(__file__).with_name("clean.py")
        command = [sys.executable, script]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True)

    def register(self, kind: str, name: object) -> None:
        """Have a `folder`, `bridge`, `cgroup` or `table` removed at the end; what is registered last goes first."""
        self._process.stdin.write(f"{kind} {name}\n")
        self._process.stdin.flush()

    def clean(self) -> None:
        """Remove everything now. Raises RuntimeError when something stays."""
        self._process.stdin.close()
        if self._process.wait() != 0:
            raise RuntimeError("Not everything of the cluster could be removed; see the output above.")
