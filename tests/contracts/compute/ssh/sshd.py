"""A real sshd on loopback, with keys and a home of its own, that lets in who runs the tests."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from compute.adapters.ssh.connection import Host
from tests.ports import reserve_port

USER = pwd.getpwuid(os.getuid()).pw_name
_PROGRAM = shutil.which("sshd", path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin")
_START_LIMIT_S = 300


class Sshd:
    """One server. `home` is the home of whoever is let in, so that nothing is written to that of the tests' user."""

    def __init__(self, folder: Path) -> None:
        if _PROGRAM is None:
            pytest.skip("needs sshd: `apt install openssh-server`")
        self.folder, self.port = folder, reserve_port()
        self.home = folder / "home"
        self.programs = folder / "programs"
        for path in (self.home, self.programs):
            path.mkdir(parents=True)
        for name in ("host", "client", "other"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", folder / name]
            subprocess.run(command, check=True)
        shutil.copy(folder / "client.pub", folder / "authorized")
        search_path = f"{self.programs}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
        lines = {
            "Port": self.port,
            "ListenAddress": "127.0.0.1",
            "HostKey": folder / "host",
            "AuthorizedKeysFile": folder / "authorized",
            "StrictModes": "no",
            "UsePAM": "no",
            "PidFile": "none",
            "SetEnv": f"HOME={self.home} PATH={search_path}",
        }
        (folder / "config").write_text("".join(f"{name} {value}\n" for name, value in lines.items()))
        self._process: subprocess.Popen | None = None
        self.start()

    @property
    def private_key(self) -> str:
        return (self.folder / "client").read_text()

    @property
    def known_host(self) -> str:
        return self.known_host_of("host")

    def known_host_of(self, key: str) -> str:
        kind, text, *_ = (self.folder / f"{key}.pub").read_text().split()
        return f"[127.0.0.1]:{self.port} {kind} {text}"

    def describe(self, **changes) -> Host:
        values = {
            "user": USER,
            "name": "127.0.0.1",
            "port": self.port,
            "private_key": self.private_key,
            "known_host": self.known_host,
            "folder": str(self.folder / "nearline"),
        }
        return Host(**values | changes)

    def start(self) -> None:
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        log = (self.folder / "log").open("ab")
        self._process = subprocess.Popen([_PROGRAM, "-D", "-e", "-f", self.folder / "config"], stderr=log)
        deadline = time.monotonic() + _START_LIMIT_S
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except ConnectionRefusedError:
                assert self._process.poll() is None, (self.folder / "log").read_text()
                time.sleep(0.01)
            else:
                return
        raise AssertionError((self.folder / "log").read_text())

    def kill(self) -> None:
        """Kill it together with all that serve a connection: no chance to say goodbye. What they started stays."""
        self._process.send_signal(signal.SIGSTOP)  # it takes no new connection meanwhile
        self.cut_connections()
        self._process.kill()
        self._process.wait()

    def cut_connections(self) -> None:
        """Kill what serves the connections; new ones are taken."""
        for pid in self._list_serving(self._process.pid):
            with suppress(ProcessLookupError):  # it has ended by itself, as one does whose child was killed
                os.kill(pid, signal.SIGKILL)

    def _list_serving(self, parent: int) -> list[int]:
        """Return the processes of sshd below another, the deepest first."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                fields = (entry / "stat").read_text().rpartition(")")
            except (OSError, NotADirectoryError):
                continue
            if fields[0].endswith("(sshd") and int(fields[2].split()[1]) == parent:
                found += [*self._list_serving(int(entry.name)), int(entry.name)]
        return found
