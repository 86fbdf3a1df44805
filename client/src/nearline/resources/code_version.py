"""Which version of the code a flow comes from: the git commit of its folder and a hash of what is not committed."""

import hashlib
import subprocess
from pathlib import Path
from typing import Any

_TIMEOUT_S = 20


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


def _git(folder: Path, *arguments: str) -> bytes | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _text(output: bytes | None) -> str | None:
    return output.decode(errors="replace").strip() or None if output is not None else None


def _without_secret(remote: str | None) -> str | None:
    """Drop what may be a password: `https://user:token@host/...`."""
    if remote is None or "://" not in remote:
        return remote
    scheme, rest = remote.split("://", 1)
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
