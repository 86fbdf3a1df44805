"""Copies of commits in a folder of this host. Processes that outlive the connection fill, verify and remove them.

The folder is laid out as `nearline.pod.pool` says, and `nearline.pod.copies` is what the processes run. Beside the
copies `.records/ID` has the location of a copy from before its first file until after its last one, and `.work/ID-DUTY`
what a process was told and how it ended. `.nearline-site` names the site whose folder it is.
"""

import fcntl
import getpass
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compute.adapters.ssh.host import packages
from compute.errors import StartRefused

Json = dict[str, Any]

_OWNER, _RECORDS, _WORK, _TRASH = ".nearline-site", ".records", ".work", ".trash"
_OWN_NAMES = frozenset({_OWNER, _RECORDS, _WORK, _TRASH, "lost+found"})
_READY, _FILLING = "READY", "FILLING"
_LEAST_FREE_BYTES = 100 * 2**20
_HOPELESS = 3
"""The exit code of `nearline.pod.copies` for what trying again cannot cure."""
_MOST_TRIES, _LONG_S = 6, 600.0
"""A process that ended early is started again so often; one that had worked for long does not count."""
_TRY_S = 60
_MOST_WORDS = 500
_SERVE = "serve-"
_LISTENS_S, _STOPS_S, _POLL_S = 5.0, 5.0, 0.05
_RUN = (
    "import os, sys; from pathlib import Path; folder = Path(sys.argv[1]); "
    "(folder / 'pid').write_text(str(os.getpid())); before, after = sys.argv[2:4]; "
    "sys.path.insert(0, before); sys.path.append(after); from nearline.pod.copies import main; "
    "code = main(sys.argv[4:]); (folder / 'end').write_text(str(code))"
)
_TRY = (
    "import sys; before, after = sys.argv[1:3]; sys.path.insert(0, before); sys.path.append(after); "
    "import httpx, nearline.pod.copies, nearline._store"
)

_UNEXPLAINED = "The process that does it was killed again and again. Look at the log of the host; often it is memory."
_TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True)
class Caller:
    """What a process needs to speak with the platform for one copy, and the packages that it runs with.

    `peer` tells of another host that serves the same commit (`nearline.pod.peers.Peer`); empty: none does.
    """

    url: str
    token: str
    packages: str
    peer: Json = field(default_factory=dict)


class CopyFolder:
    """The folder of one cache site on this host."""

    def __init__(self, root: Path, site: str) -> None:
        self._root, self._site = root, site

    def find_fault(self, digest: str, forbidden: Path) -> str:
        """Say why the folder cannot be used, and what to do; empty: it can.

        `digest` names the packages, `forbidden` is the folder of jobs.
        """
        is_new = not os.path.lexists(self._root)
        fault = self._find_wrong_place(forbidden) or self._find_wrong_content() or _find_fault_of_packages(digest)
        if fault and is_new:
            with suppress(OSError):
                self._root.rmdir()
        return fault

    def _find_wrong_place(self, forbidden: Path) -> str:
        root, real = self._root, Path(os.path.realpath(self._root))
        if real != root:
            return f"{root} leads to {real} by a symbolic link. Give {real}, or another folder."
        if real == forbidden or real in forbidden.parents or forbidden in real.parents:
            return (
                f"{root} and {forbidden}, where jobs of the host have their files, lie in each other. Choose another."
            )
        return ""

    def _find_wrong_content(self) -> str:
        root = self._root
        try:
            root.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=root) as file:
                file.write(b"x")
            owner, names = self._read_owner(), sorted({path.name for path in root.iterdir()} - _OWN_NAMES)
            free_bytes = shutil.disk_usage(root).free
        except OSError as error:
            user = getpass.getuser()
            make = f"`sudo install -d -o {user} {root}`"
            return f"{user} cannot write to {root} on the host: {error.strerror}. Make it there for {user}: {make}."
        if owner not in {"", self._site}:
            return f"{root} holds the copies of another cache site. If that is gone for good, delete {root / _OWNER}."
        if names and not owner:
            return f"{root} holds other files, such as {names[0]}. Choose an empty folder."
        if free_bytes < _LEAST_FREE_BYTES:
            return f"Only {free_bytes // 2**20} MiB are free in {root}. Free space on the host, or choose another disk."
        return ""

    def makes_hard_links(self) -> bool:
        """Whether a file in the folder can have two names."""
        with tempfile.TemporaryDirectory(dir=self._root, prefix=".try-") as folder:
            first = Path(folder, "first")
            first.touch()
            try:
                Path(folder, "second").hardlink_to(first)
            except OSError:
                return False
        return True

    def measure(self) -> Json:
        """Return the size of the disk and what is free there."""
        usage = shutil.disk_usage(self._root)
        return {"total_bytes": usage.total, "free_bytes": usage.free}

    def list_copies(self) -> dict[str, str]:
        """Return by id every copy of which anything is here, with its location; empty: it is not complete.

        What lies in a folder that another site has taken is none of ours.
        """
        if self._read_owner() != self._site:
            return {}
        records = {path.name: path.read_text() for path in self._list(_RECORDS)}
        strays = [path.name for path in self._list(_TRASH)]
        strays += [path.name for path in self._list("") if any((path / mark).is_file() for mark in (_READY, _FILLING))]
        return {
            copy: records.get(copy, copy) if (self._root / copy / _READY).is_file() else ""
            for copy in {*records, *strays}
        }

    def ensure(self, copy: str, location: str, options: Sequence[str], caller: Caller, *, is_known: bool) -> Json:
        """Have a copy filled. Return `made` once it is complete, `error` where that failed; empty: it is under way.

        `is_known` says that there are copies here. Raises StartRefused where the folder is not that of the site.
        """
        self._claim(is_known=is_known)
        work = self._work(copy, "fill")
        if (made := self._read_made(copy)) is not None:
            work.forget()
            return {"made": made}
        record = self._root / _RECORDS / copy
        if not record.exists():
            record.parent.mkdir(exist_ok=True)
            record.write_text(location)
        result = work.follow(["fill", str(self._root), *options, "--copy", copy], caller)
        if result is None or "error" in result:
            return result or {}
        return {"made": self._read_made(copy) or result}

    def stop(self, copy: str) -> bool:
        """End the process that fills a copy, unless it is complete, and say whether none does; what it wrote stays."""
        if self._read_made(copy) is not None:
            return False
        work = self._work(copy, "fill")
        give_up_at = time.monotonic() + _STOPS_S
        while not work.end():
            if time.monotonic() > give_up_at:
                return False
            time.sleep(_POLL_S)
        return True

    def serve(self, copy: str, reader: str, caller: Caller) -> Json:
        """Have a process that lets another host read a copy, complete or not; return what that has to know.

        `reader` is the copy that is made there, and the token of the caller the secret of the process. `is_starting`:
        ask again. Empty: no copy is here, or it cannot be served.
        """
        if not (self._root / _RECORDS / copy).exists():
            return {}
        work = self._work(copy, f"{_SERVE}{reader}")
        arguments = ["serve", str(self._root), "--copy", copy]
        if work.follow(arguments, caller) is not None:  # how the last one ended, as nobody had asked for a while
            work.follow(arguments, caller)
        return work.wait_for_address()

    def verify(self, copy: str, options: Sequence[str], caller: Caller) -> Json:
        """Have a complete copy compared and healed. Return what was found, or `error`; empty: it is under way."""
        if self._read_made(copy) is None:
            words = f"The copy is gone from {self._root} on the host: somebody deleted it."
            return {"error": words, "code": "host.copy_gone"}
        duty = "verify-part" if options else "verify"
        return self._work(copy, duty).follow(["verify", str(self._root), "--copy", copy, *options], caller) or {}

    def remove(self, copy: str, caller: Caller, *, find_reader: Callable[[Path], str]) -> Json:
        """Have a copy removed. Return `is_gone`, and what it waits for: `held_by` others, or `waits_for` itself.

        `find_reader` names a job that reads files below a folder; empty: there is none.
        """
        if reader := find_reader(self._root / copy):
            return {"is_gone": False, "held_by": f"the end of the job {reader}, which reads it"}
        names = [path.name for path in self._list(_WORK) if path.name.startswith(f"{copy}-{_SERVE}")]
        serving = [name.removeprefix(f"{copy}-") for name in names]
        for duty in ("fill", "verify", "verify-part", *serving):
            if not self._work(copy, duty).end():
                return {"is_gone": False, "waits_for": "the end of the process that works on it"}
        work = self._work(copy, "remove")
        places = [self._root / copy, self._root / _TRASH / copy]
        if any(os.path.lexists(place) for place in places):
            self._claim(is_known=True)
            result = work.follow(["remove", str(self._root), "--copy", copy], caller)
            if result is None:
                return {"is_gone": False, "waits_for": "the removal of its files"}
            if "error" in result:
                return {"is_gone": False, "held_by": f"a process that removes its files: {result['error']}"}
        work.forget()
        (self._root / _RECORDS / copy).unlink(missing_ok=True)
        return {"is_gone": True}

    def _claim(self, *, is_known: bool) -> None:
        """Note whose folder it is. Raises StartRefused where it is another's, or what was there is not."""
        owner = self._read_owner()
        if owner == self._site:
            return
        if owner or is_known:
            raise StartRefused(
                f"The folder of this site on its host is not there or not its own: {_OWNER} at its place is "
                f"{'of another one' if owner else 'not there'}. Is its disk mounted?"
            )
        self._root.mkdir(parents=True, exist_ok=True)
        (self._root / _OWNER).write_text(self._site)

    def _read_owner(self) -> str:
        try:
            return (self._root / _OWNER).read_text().strip()
        except FileNotFoundError:
            return ""

    def _read_made(self, copy: str) -> Json | None:
        try:
            made = json.loads((self._root / copy / _READY).read_bytes())
        except FileNotFoundError:
            return None
        return {"root": made["root"], **made["totals"]}

    def _list(self, place: str) -> list[Path]:
        try:
            return sorted((self._root / place).iterdir())
        except FileNotFoundError:
            return []

    def _work(self, copy: str, duty: str) -> "Work":
        return Work(self._root / _WORK / f"{copy}-{duty}")


@dataclass(frozen=True)
class Work:
    """What one process was told, and how it ended. It holds the lock of the folder as long as it lives."""

    folder: Path

    def follow(self, arguments: Sequence[str], caller: Caller) -> Json | None:
        """Return what the process said at its end, once; None: it is at work, and is started if it is not.

        One that was killed, or met what may pass, is started again, for a limited number of times.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = self._lock()
        if lock is None:
            return None
        try:
            code, result, tries = self._read("end"), self._read_result(), int(self._read("tries") or 0)
            if code == 0:
                self.forget()
                return result
            if code == _HOPELESS or tries >= _MOST_TRIES:
                error = self._explain_end()
                self.forget()
                return {"error": error, **result}
            self._start(arguments, caller, lock, tries + 1)
        finally:
            os.close(lock)
        return None

    def wait_for_address(self) -> Json:
        """Return by what others reach a process that serves; `is_starting`: not yet, and empty: it has ended."""
        give_up_at = time.monotonic() + _LISTENS_S
        while time.monotonic() < give_up_at and self._is_at_work():
            with suppress(FileNotFoundError):
                address: Json = json.loads((self.folder / "peer").read_bytes())
                os.utime(self.folder / "peer")  # somebody still wants it
                return address
            time.sleep(_POLL_S)
        return {"is_starting": True} if self._is_at_work() else {}

    def end(self) -> bool:
        """Kill the process, if there is one, and forget it; say whether it has ended."""
        if not self.folder.exists():
            return True
        lock = self._lock()
        if lock is None:
            if (pid := self._read("pid")) is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return False
        os.close(lock)
        self.forget()
        return True

    def forget(self) -> None:
        """Remove what is known of the process."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, arguments: Sequence[str], caller: Caller, lock: int, tries: int) -> None:
        has_worked_long = time.time() - (self._read("began") or time.time()) > _LONG_S
        for name in ("pid", "end", "result.json", "peer"):
            (self.folder / name).unlink(missing_ok=True)
        (self.folder / "tries").write_text("1" if has_worked_long else str(tries))
        (self.folder / "began").write_text(str(int(time.time())))
        token = self._write_secret("token", caller.token)
        peer = {"NEARLINE_PEER": self._write_secret("peer", json.dumps(caller.peer))} if caller.peer else {}
        environment = {
            **os.environ,
            **peer,
            "NEARLINE_URL": caller.url,
            "NEARLINE_COPY_TOKEN_FILE": token,
            "NEARLINE_TERMINATION_MESSAGE": str(self.folder / "result.json"),
        }
        with (self.folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-I", "-c", _RUN, self.folder, *packages.list_paths(caller.packages), *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(lock,),
                start_new_session=True,
            )
        threading.Thread(target=process.wait, name=f"wait for {process.pid}", daemon=True).start()

    def _write_secret(self, name: str, text: str) -> str:
        path = self.folder / name
        path.touch(0o600)
        path.write_text(text)
        return str(path)

    def _is_at_work(self) -> bool:
        lock = self._lock()
        if lock is not None:
            os.close(lock)
        return lock is None

    def _lock(self) -> int | None:
        """Return the descriptor of the lock, which the process inherits; None while one lives."""
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor

    def _read(self, name: str) -> int | None:
        try:
            return int((self.folder / name).read_text())
        except (FileNotFoundError, ValueError):  # a process that was killed while it wrote
            return None

    def _explain_end(self) -> str:
        """Say why the process ended without a result, as far as it is known."""
        with suppress(FileNotFoundError):
            words = (self.folder / "log").read_text(errors="replace").strip()
            if _TRACEBACK in words:
                return f"The process that does it failed again and again: {words.splitlines()[-1][:_MOST_WORDS]}"
        return _UNEXPLAINED

    def _read_result(self) -> Json:
        try:
            result: Json = json.loads((self.folder / "result.json").read_bytes())
        except (FileNotFoundError, ValueError):
            return {}
        return result


def _find_fault_of_packages(digest: str) -> str:
    command = [sys.executable, "-I", "-c", _TRY, *map(str, packages.list_paths(digest))]
    try:
        tried = subprocess.run(command, capture_output=True, timeout=_TRY_S, check=False)
    except subprocess.TimeoutExpired:
        return f"{sys.executable} on the host takes too long to start."
    if tried.returncode == 0:
        return ""
    line = tried.stderr.decode(errors="replace").strip().splitlines()[-1:] or [f"it exits with {tried.returncode}"]
    version = ".".join(map(str, sys.version_info[:2]))
    return (
        f"The program that fills copies does not run with Python {version} of the host: {line[0]}. Install what is "
        f"missing for it, `{sys.executable} -m pip install blake3`, or attach the host with another Python."
    )
