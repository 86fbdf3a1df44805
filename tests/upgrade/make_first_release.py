"""Writes `first_release.tar.xz`: the home folder of an installation, made by the first release itself.

    python tests/upgrade/make_first_release.py

It checks that release out beside this tree, runs its demo and a little more (see `_add_more`), stops it and packs its
home. Paths of the home stand in its database and files as HOME; who unpacks it elsewhere replaces them.
"""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

FIRST_RELEASE = "317e513"
HOME = Path("/var/tmp/nearline-first-release")
ARCHIVE = Path(__file__).with_name("first_release.tar.xz")
_ROOT = Path(__file__).resolve().parents[2]
_LIMIT_S = 600
_CENTURY_S = 100 * 365 * 86_400
# What a start makes anew, or what belongs to a process that is gone.
_LEFT_OUT = {"sample", "lock", ".shim.pyc", ".news", ".live", "nearline.sqlite3-wal", "nearline.sqlite3-shm"}

_FAILING = """flow: failing
steps:
  - name: write
    command: |
      echo one > "$NEARLINE_OUTPUT/one.txt"
      echo "cnvrg_tag_loss: 0.5"
    compute: [this-machine.small]
  - name: break
    command: echo about to fail; exit 3
    after: [write]
    compute: [this-machine.small]
"""
_LONG = f"""flow: long
steps:
  - name: first
    command: "true"
    simulated_duration: {_CENTURY_S}s
    compute: [lab.gpu-8]
  - name: second
    command: "true"
    after: [first]
    compute: [lab.gpu-1]
"""


def main() -> None:
    """Make the archive."""
    if HOME.exists():
        raise SystemExit(f"{HOME} is in the way: remove it first.")
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        _git("worktree", "add", "--detach", str(tree), FIRST_RELEASE)
        try:
            _run(tree)
        finally:
            _git("worktree", "remove", "--force", str(tree))
    _pack()


def _run(tree: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("NEARLINE_")},
        "PYTHONPATH": os.pathsep.join(str(tree / part) for part in (".", "platform", "client/src")),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "NEARLINE_HOME": str(HOME),
        "PORT": str(port),
    }
    product = subprocess.Popen([sys.executable, "manage.py", "up"], cwd=tree, env=environment)
    try:
        _wait((HOME / "sample.told").exists)
        _add_more(_Api(port), environment | {"NEARLINE_URL": f"http://127.0.0.1:{port}"})
    finally:
        product.send_signal(signal.SIGTERM)
        product.wait(30)


class _Api:
    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1"
        self._token = (HOME / "admin.token").read_text()

    def __call__(self, method: str, path: str, body: object = None) -> dict:
        request = urllib.request.Request(
            self._url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{method} {path} answered {error.code}: {error.read().decode()}") from error


def _add_more(api: _Api, environment: dict[str, str]) -> None:
    """Add what the demo has not: members, quotas, a second commit, a failed run, and work that runs and waits."""
    api("POST", "/projects", {"name": "team-b"})
    api("POST", "/users", {"username": "grace", "password": None})
    api("PUT", "/projects/team-b/members/grace", {"role": "member"})
    api("PUT", "/projects/demo/secrets/API_KEY", {"value": "only for this archive"})
    api("PATCH", "/scheduler/queues/demo", {"gpu_quota_milli": 8000, "over_quota_weight": 2})
    api("PATCH", "/scheduler/queues/team-b", {"gpu_quota_milli": 4000})
    api("POST", "/datasets/demo/digits/tags", {"name": "first", "commit": "main"})
    folder = HOME / "sample" / "digits"
    (folder / "README.txt").write_text("Handwritten digits.\n")
    command = ["nearline", "data", "sync", "--message", "A note", "--quiet"]
    secret = {"NEARLINE_TOKEN": (HOME / "admin.token").read_text()}
    subprocess.run(command, cwd=folder, env=environment | secret, check=True)
    for text in (_FAILING, _LONG):
        api("POST", "/flows", {"project": "demo", "text": text})
    failing = api("POST", "/flows/demo/failing/runs", {})["id"]
    _wait(lambda: api("GET", f"/runs/{failing}")["state"] == "failed")
    long = api("POST", "/flows/demo/long/runs", {})["id"]
    _wait(lambda: api("GET", f"/runs/{long}")["steps"][0]["state"] == "running")
    job = {"project": "team-b", "command": "true", "simulated_duration_s": _CENTURY_S, "template": "lab.gpu-8"}
    api("POST", "/compute/jobs", job | {"name": "runs"})
    _wait(lambda: api("GET", "/compute/jobs/runs")["state"] == "running")
    api("POST", "/compute/jobs", job | {"name": "waits"})
    _wait(lambda: any(item["reason"] for item in api("GET", "/scheduler/workloads?state=pending")["items"]))
    api("PUT", "/flows/drafts", {"project": "demo", "key": "digits", "text": _FAILING})
    api("POST", "/experiment-views", {"project": "demo", "name": "good ones", "query": "metrics.accuracy > 0.9"})


def _pack() -> None:
    database = sqlite3.connect(HOME / "nearline.sqlite3")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.execute("PRAGMA journal_mode=DELETE")
    database.execute("VACUUM")
    database.close()
    with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
        for path in sorted(HOME.iterdir()):
            archive.add(path, path.name, filter=_keep)


def _keep(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return None if Path(member.name).name in _LEFT_OUT else member


def _wait(is_done) -> None:
    deadline = time.monotonic() + _LIMIT_S
    while not is_done():
        if time.monotonic() > deadline:
            raise SystemExit("The first release did not get there in time.")
        time.sleep(0.1)


def _git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=_ROOT, check=True)


if __name__ == "__main__":
    main()
