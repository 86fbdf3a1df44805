"""The launcher of a gang: a pod without GPUs that starts processes in the others, as `mpirun` does. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

_GIB = 1 << 30
_LAST_PORT = 65_535


@dataclass(frozen=True)
class Launcher:
    """What the launcher gets, and what the replicas run meanwhile. The launcher runs the command of the job.

    `worker_port`: the launcher begins once each replica listens there; 0: once their host names are known.
    """

    cpu_millicores: int = 500
    memory_bytes: int = _GIB
    worker_command: str = "exec /usr/sbin/sshd -D"
    worker_port: int = 22

    def list_faults(self) -> Sequence[str]:
        """Say what of it cannot be."""
        faults = {
            "A launcher needs some CPU and some memory.": self.cpu_millicores <= 0 or self.memory_bytes <= 0,
            "Replicas beside a launcher need a command, such as /usr/sbin/sshd -D.": not self.worker_command.strip(),
            "The command of replicas beside a launcher holds a NUL byte.": "\0" in self.worker_command,
            f"'{self.worker_port}' is no port.": not 0 <= self.worker_port <= _LAST_PORT,
        }
        return [text for text, is_so in faults.items() if is_so]

    def in_words(self) -> str:
        """Return it for people."""
        size = f"{self.cpu_millicores / 1000:g} CPU, {self.memory_bytes / _GIB:.3g} GiB"
        return f"{size}; the replicas run {self.worker_command}"
