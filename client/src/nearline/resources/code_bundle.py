"""The code that goes with a flow: the files beside it, as a tree, or for older servers as a tar.gz.

In a git repository these are the files that git tracks or would track. Elsewhere hidden files and environments stay
out. What `.nearlineignore` lists stays out everywhere. Folders linked to a dataset are data, not code. Links are never
sent: elsewhere they would lead to other places. Which version of the code it is, git says of the folder.
"""

import gzip
import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearline._http import Http
from nearline.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from nearline.transfer.local.walk import IgnoreRules, Skipped
    from nearline.transfer.progress import OnProgress

import hashlib

# What a server takes as a tree, and what an older one takes as an archive.
MAX_TREE_BYTES = 2 * 2**30
MAX_BYTES = 20 * 2**20
MAX_UNPACKED_BYTES = 200 * 2**20
MAX_FILES = 10_000
# The same files are the same tree whenever they were written. Archives of some kinds hold no time before 1980.
FILE_TIME_NS = 315_619_200 * 10**9

_DATA_FOLDER = ".nearline"
_NOT_CODE = {"__pycache__", "node_modules"}
_IGNORED = "listed in .nearlineignore"
_HINT = "Keep it out with .gitignore or .nearlineignore; a flow is pushed without code by --no-code."


@dataclass(frozen=True)
class Code:
    """The code in a folder: its files by name, and the names that were left out, by reason."""

    folder: Path
    names: list[str]
    left_out: dict[str, list[str]] = field(default_factory=dict)

    def leave_out(self, name: str, why: str) -> None:
        """Note that a name is left out."""
        self.left_out.setdefault(why, []).append(name)


def find_code(folder: Path, *, without: Path | None = None) -> Code | None:
    """Return the code of a folder, `without` the flow file itself; None where there is none."""
    if (folder / _DATA_FOLDER).exists():
        return None
    code = Code(folder, [])
    for name in sorted(_list_files(folder, code)):
        path = folder / name
        if path.is_symlink() and path != without:
            code.leave_out(name, "as links are not sent (put the files themselves there)")
        elif path != without:
            code.names.append(name)
    for names in code.left_out.values():
        names.sort()
    return code if code.names else None


def get_code(folder: Path) -> Code:
    """Return the code of a folder. Raises InvalidRequest where there is none."""
    if not folder.is_dir():
        raise InvalidRequest(f"'{folder}' is no folder.")
    code = find_code(folder)
    if code is None:
        raise InvalidRequest(
            f"'{folder}' holds no code to send.",
            hint="A folder that is linked to a dataset is data: name it with --data. What is ignored is not sent.",
        )
    return code


def send_code(http: Http, project: str, code: Code, on_progress: "OnProgress | None" = None) -> dict[str, Any]:
    """Send code to a project and return what the server says of it; names that cannot be carried are noted as left out.

    Raises InvalidRequest when it is more than a server takes.
    """
    from nearline.resources.storage_routes import CodeRoutes  # noqa: PLC0415 (brings what only transfers need)
    from nearline.transfer.progress import ignore_progress  # noqa: PLC0415
    from nearline.transfer.remote.retry import transfer_policy  # noqa: PLC0415
    from nearline.transfer.sync.options import Options  # noqa: PLC0415
    from nearline.transfer.sync.tree import send_tree  # noqa: PLC0415

    _check_size(code, MAX_TREE_BYTES)
    files = {os.fsencode(name): code.folder / name for name in code.names}
    policy = transfer_policy(http.policy.on_wait)
    options = Options(policy=policy, on_progress=on_progress or ignore_progress)
    skipped: list[Skipped] = []
    try:
        answer = send_tree(CodeRoutes(http, project), files, mtime_ns=FILE_TIME_NS, skipped=skipped, options=options)
    except NotFound:
        # A server of the release before takes archives only; to a project that is not there this says so.
        archive: dict[str, Any] = http.post_bytes("/flows/bundles", pack_code(code), project=project)
        return archive
    for skip in skipped:
        code.leave_out(os.fsdecode(skip.path), f"as the name {skip.why}")
    return answer


def pack_code(code: Code) -> bytes:
    """Return code as a tar.gz, the same bytes for the same files.

    Raises InvalidRequest when it is more than a server takes as an archive.
    """
    _check_size(code, MAX_UNPACKED_BYTES, MAX_FILES)
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name in code.names:
            _add(archive, code.folder / name, name)
    data = buffer.getvalue()
    if len(data) > MAX_BYTES:
        raise InvalidRequest(f"The code in '{code.folder}' packs to more than {MAX_BYTES // 2**20} MiB.", hint=_HINT)
    return data


def read_code_version(folder: Path) -> dict[str, Any] | None:
    """Return commit, diff hash (None when clean), branch and remote; None outside of a git repository."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    diff = _git(folder, "diff", "HEAD", "--binary", "--no-ext-diff") or b""
    untracked = _git(folder, "ls-files", "--others", "--exclude-standard", "-z", "--full-name", ":/") or b""
    hasher = hashlib.sha256(diff)
    for name in sorted(untracked.split(b"\0")):
        hasher.update(name + b"\0")
    has_changes = bool(diff or untracked)
    return {
        "commit": commit.decode().strip(),
        "diff_hash": hasher.hexdigest() if has_changes else None,
        "branch": _text(_git(folder, "rev-parse", "--abbrev-ref", "HEAD")),
        "remote": _without_secret(_text(_git(folder, "config", "--get", "remote.origin.url"))),
    }


def _list_files(folder: Path, code: Code) -> Iterator[str]:
    from nearline.content.paths import find_fault  # noqa: PLC0415 (brings what only transfers need)
    from nearline.transfer.local.walk import read_rules  # noqa: PLC0415 (likewise)

    @cache
    def is_data(place: Path) -> bool:
        return place != folder and ((place / _DATA_FOLDER).exists() or is_data(place.parent))

    rules = read_rules(os.fsencode(folder))
    listed = _list_with_git(folder)
    for name in _walk(folder, rules, code) if listed is None else listed:
        if f"/{_DATA_FOLDER}/" in f"/{name}":
            continue
        if fault := find_fault(os.fsencode(name)):
            code.leave_out(name, f"as the name {fault}")
            continue
        path = folder / name
        is_listed = path.is_file() or path.is_symlink()
        if listed is not None and is_listed and rules.covers(os.fsencode(name)):
            code.leave_out(name, _IGNORED)
        elif is_listed and not is_data(path.parent):
            yield name


def _list_with_git(folder: Path) -> list[str] | None:
    listed = _git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard", timeout_s=60)
    return None if listed is None else [os.fsdecode(name) for name in set(listed.split(b"\0")) if name]


def _git(folder: Path, *arguments: str, timeout_s: float = 20) -> bytes | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=timeout_s, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _walk(folder: Path, rules: "IgnoreRules", code: Code) -> Iterator[str]:
    from nearline.content.folders import walk_folders  # noqa: PLC0415 (brings what only transfers need)
    from nearline.content.paths import find_fault  # noqa: PLC0415 (likewise)

    for place, folders, files in walk_folders(os.fspath(folder)):
        inside = Path(place).relative_to(folder)
        entered = []
        for name in filter(_may_hold_code, folders):
            path = inside / name
            if rules.is_ignored(os.fsencode(path), is_folder=True):
                code.leave_out(f"{path}/", _IGNORED)
            elif find_fault(os.fsencode(path)):
                yield str(path)  # in place of what lies in it, which cannot be carried either
            elif (folder / path).is_symlink():
                files.append(name)
            elif not (folder / path / "pyvenv.cfg").exists():
                entered.append(name)
        folders[:] = entered
        for name in files:
            path = inside / name
            if rules.is_ignored(os.fsencode(path), is_folder=False):
                code.leave_out(str(path), _IGNORED)
            elif not name.startswith("."):
                yield str(path)


def _may_hold_code(folder: str) -> bool:
    return not folder.startswith(".") and folder not in _NOT_CODE


def _check_size(code: Code, max_bytes: int, max_files: int | None = None) -> None:
    size_bytes = sum((code.folder / name).stat().st_size for name in code.names)
    if size_bytes > max_bytes or (max_files is not None and len(code.names) > max_files):
        files = f" in {max_files:,} files" if max_files is not None else ""
        raise InvalidRequest(
            f"'{code.folder}' holds more code than may be sent: {max_bytes // 2**20:,} MiB{files}.", hint=_HINT
        )


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    # Owners and times differ from machine to machine and would make another version of the same code.
    member = tarfile.TarInfo(name)
    status = path.stat()
    member.size = status.st_size
    member.mode = 0o755 if status.st_mode & 0o100 else 0o644
    with path.open("rb") as file:
        archive.addfile(member, file)


def _text(output: bytes | None) -> str | None:
    return output.decode(errors="replace").strip() or None if output is not None else None


def _without_secret(remote: str | None) -> str | None:
    """Drop what may be a password: `https://user:token@host/...`."""
    if remote is None or "://" not in remote:
        return remote
    scheme, rest = remote.split("://", 1)
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
