"""Git repositories with git-LFS: files as they are, and for each pointer the object that it names. No git is run."""

import os
import re
from pathlib import Path

from nearline.errors import InvalidRequest
from nearline.transfer.foreign.adoption import Adoption, Digest, is_plain_file, read_small, require_files
from nearline.transfer.local.ignore import IgnoreRules
from nearline.transfer.local.walk import Skipped, walk

# A pointer has at most this length (git-lfs, docs/spec.md).
_MOST_POINTER_BYTES = 1024
_MOST_LINK_BYTES = 8192
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
    # Putting says of these why they are left out.
    files.update((skip.path, root / os.fsdecode(skip.path)) for skip in skipped if not skip.path.startswith(b".git/"))
    require_files(missing, hint="Run `git lfs fetch` in the repository, then import again.")
    return Adoption(files, digests)


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
