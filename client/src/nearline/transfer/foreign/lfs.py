"""Git repositories with git-LFS: files as they are, and for each pointer the object that it names. No git is run."""

import hashlib
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from nearline.content.entries import Entry, EntryKind
from nearline.errors import InvalidRequest
from nearline.transfer.foreign.adoption import Adoption, Digest, is_plain_file, name_some, read_small, require_files
from nearline.transfer.foreign.git_writer import FILE, LINK, PROGRAM, GitFile, GitWriter
from nearline.transfer.local.walk import IgnoreRules, Skipped, walk

# A pointer has at most this length (git-lfs, docs/spec.md).
_MOST_POINTER_BYTES = 1024
_MOST_LINK_BYTES = 8192
_ATTRIBUTES = b".gitattributes"
_ALL_TRACKED = "* filter=lfs diff=lfs merge=lfs -text\n.gitattributes !filter !diff !merge text\n"
# What git-lfs knows as a hook of its own, so that it can replace it by that of its version.
_PUSH_HOOK = '#!/bin/sh\ngit lfs pre-push "$@"\n'
_POINTER = re.compile(
    rb"version https://(?:git-lfs\.github\.com|hawser\.github\.com)/spec/v1\n(?:ext-.*\n)*"
    rb"oid sha256:([0-9a-f]{64})\nsize (\d{1,19})\n"
)


def read_repository(root: Path) -> Adoption:
    """Return the files of a working tree, pointers replaced by what they point to.

    Raises InvalidRequest for what is no repository, and Failed naming the pointers whose object is not on this machine.
    """
    objects = _git_folder(root) / "lfs" / "objects"
    files: dict[bytes, Path] = {}
    digests: dict[Path, Digest] = {}
    missing: list[bytes] = []
    skipped: list[Skipped] = []
    for file in walk(os.fsencode(root), IgnoreRules(), skipped):
        if file.path.split(b"/", 1)[0] == b".git":
            continue
        place = root / os.fsdecode(file.path)
        oid = None if file.target or not 0 < file.size <= _MOST_POINTER_BYTES else _read_pointer(place)
        if oid is None:
            files[file.path] = place
            continue
        stored = objects / oid[:2] / oid[2:4] / oid
        if is_plain_file(stored):
            files[file.path] = stored
            digests[stored] = Digest("sha256", oid)
        else:
            missing.append(file.path)
    skipped = [skip for skip in skipped if not skip.path.startswith(b".git/")]
    # Putting says of these why they are left out.
    files.update((skip.path, root / os.fsdecode(skip.path)) for skip in skipped if not skip.is_own)
    require_files(missing, hint="Run `git lfs fetch` in the repository, then import again.")
    if not files:
        raise InvalidRequest(f"'{root}' holds no file.", hint="Run `git checkout` there, then import again.")
    return Adoption(files, digests, skipped=[skip for skip in skipped if skip.is_own])


def check_entries(entries: Iterable[Entry]) -> None:
    """Raise InvalidRequest for names that git keeps for itself. An imported repository's attributes are a file."""
    own = [
        entry.path
        for entry in entries
        if (entry.path == _ATTRIBUTES and entry.kind is not EntryKind.FILE)
        or b".git" in (part.lower() for part in entry.path.split(b"/"))
    ]
    if own:
        raise InvalidRequest(
            f"A git repository has files of its own with such names: {name_some(own)}.",
            hint="Remove or rename them in the dataset, or export what a query selects.",
        )


def write_repository(root: Path, *, author: str, seconds: int, message: str) -> None:
    """Make a git repository of a folder: one commit of pointers, and the objects of git-LFS that they name.

    Objects are copies: a file may be edited in its place. `check_entries` says which entries may be in the folder.
    Attributes that are there are kept: what is said last of a file holds, that it is an object of git-LFS.
    """
    objects = root / ".git" / "lfs" / "objects"
    _track_all(root / os.fsdecode(_ATTRIBUTES))
    files = list(walk(os.fsencode(root), IgnoreRules(), []))
    git = GitWriter(root)
    tracked = []
    for file in files:
        place = root / os.fsdecode(file.path)
        if file.kind is EntryKind.SYMLINK:
            tracked.append(GitFile(file.path, LINK, git.put_blob(file.target)))
        else:
            data = b"" if not file.size else place.read_bytes() if file.path == _ATTRIBUTES else _point(place, objects)
            tracked.append(GitFile(file.path, PROGRAM if file.mode & 0o100 else FILE, git.put_blob(data)))
    git.commit(tracked, author=author, seconds=seconds, message=message)
    # git-lfs makes it at a first checkout, which this working tree does not need. Without it a push sends no objects.
    hook = root / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir()
    hook.write_text(_PUSH_HOOK)
    hook.chmod(0o755)


def _track_all(attributes: Path) -> None:
    before = attributes.read_bytes() if attributes.exists() else b""
    tracking = _ALL_TRACKED.encode()
    if not before.endswith(tracking):
        lines = before + b"\n" if before and not before.endswith(b"\n") else before
        attributes.unlink(missing_ok=True)  # it may be read-only
        attributes.write_bytes(lines + tracking)


def _point(place: Path, objects: Path) -> bytes:
    """Keep a file as an object of git-LFS, and return the pointer to it."""
    with place.open("rb") as file:
        oid = hashlib.file_digest(file, "sha256").hexdigest()
    object_path = objects / oid[:2] / oid[2:4] / oid
    if not object_path.exists():
        object_path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(place, object_path)
    return b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n" % (
        oid.encode(),
        place.stat().st_size,
    )


def _read_pointer(place: Path) -> str | None:
    match = _POINTER.fullmatch(read_small(place, _MOST_POINTER_BYTES))
    return match[1].decode() if match else None


def _git_folder(root: Path) -> Path:
    """Return the folder that holds the objects: of a further working tree, that of the first one."""
    git = root / ".git"
    if git.is_dir():
        return git
    if not git.is_file():
        raise InvalidRequest(f"'{root}' is no git repository: it has no .git.")
    text = read_small(git, _MOST_LINK_BYTES).decode("utf-8", "surrogateescape")
    own = (root / text.removeprefix("gitdir:").strip()).resolve()
    common = own / "commondir"
    if not common.is_file():
        return own
    return (own / read_small(common, _MOST_LINK_BYTES).decode("utf-8", "surrogateescape").strip()).resolve()
