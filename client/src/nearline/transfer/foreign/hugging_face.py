"""Datasets of Hugging Face: a folder (a snapshot, what `save_to_disk` wrote), or their place in the hub's cache."""

import os
import re
from pathlib import Path

from nearline.errors import InvalidRequest
from nearline.transfer.foreign.adoption import Adoption, Digest, is_plain_file, name_some, read_small, require_files
from nearline.transfer.local.walk import IgnoreRules, Skipped, walk

_CARD = "README.md"
_MOST_CARD_BYTES = 4 << 20
_MOST_REF_BYTES = 1000
_LONGEST_DESCRIPTION = 2000
# The hub's cache calls a file by the hash that the hub knows it by: that of git-LFS, else that of git.
_ALGORITHMS = {64: "sha256", 40: "git"}
_HASH = re.compile(r"[0-9a-f]{64}|[0-9a-f]{40}")
_OWN = (b".git/", b".cache/")
_IN_CACHE = re.compile(r"(datasets|models|spaces)--.+")


def read_folder(root: Path) -> Adoption:
    """Return the files of a dataset, links into the hub's cache replaced by what they point to, and its card's text.

    Raises InvalidRequest for what is no dataset, and Failed naming the files whose content is not on this machine.
    """
    snapshot = _find_snapshot(root)
    blobs = _blobs_of(snapshot)
    files: dict[bytes, Path] = {}
    digests: dict[Path, Digest] = {}
    missing: list[bytes] = []
    skipped: list[Skipped] = []
    paths = [file.path for file in walk(os.fsencode(snapshot), IgnoreRules(), skipped)]
    for path in (*paths, *(skip.path for skip in skipped if not skip.is_own)):
        if path.startswith(_OWN):
            continue
        place = snapshot / os.fsdecode(path)
        # Putting says of other links why they are left out, or carries them.
        if place.is_symlink() and blobs is not None and (blob := place.resolve()).parent == blobs:
            if not is_plain_file(blob):
                missing.append(path)
                continue
            place = blob
            if _HASH.fullmatch(blob.name):
                digests[blob] = Digest(_ALGORITHMS[len(blob.name)], blob.name)
        files[path] = place
    require_files(missing, hint="Download the dataset again with its own tool, then import it.")
    if not files:
        raise InvalidRequest(f"'{snapshot}' holds no file.")
    own = [skip for skip in skipped if skip.is_own and not skip.path.startswith(_OWN)]
    return Adoption(files, digests, _read_card(files.get(_CARD.encode())), own)


def write_card(root: Path, title: str, description: str) -> None:
    """Give a folder a card, unless it has one."""
    card = root / _CARD
    if not card.exists() and not card.is_symlink():
        card.write_text(f"# {title}\n\n{description}\n" if description else f"# {title}\n")


def _find_snapshot(root: Path) -> Path:
    """Return the folder of files: of a dataset in the hub's cache, the snapshot of `main`, or else the only one."""
    snapshots = root / "snapshots"
    if not snapshots.is_dir():
        if not root.is_dir():
            raise InvalidRequest(f"'{root}' is no folder.")
        if repositories := sorted(path for path in root.iterdir() if _IN_CACHE.fullmatch(path.name)):
            raise InvalidRequest(
                f"'{root}' is the hub's cache of {name_some(os.fsencode(path.name) for path in repositories)}.",
                hint=f"Name one of them: {repositories[0]}",
            )
        return root
    main = root / "refs" / "main"
    names = sorted(path.name for path in snapshots.iterdir() if path.is_dir())
    name = read_small(main, _MOST_REF_BYTES).decode("utf-8", "replace").strip() if main.is_file() else ""
    if name not in names and len(names) == 1:
        name = names[0]
    if name not in names:
        raise InvalidRequest(
            f"'{root}' has {len(names)} snapshots and none of them is its main one.",
            hint=f"Name one of them: {snapshots}/REVISION",
        )
    return snapshots / name


def _blobs_of(snapshot: Path) -> Path | None:
    """Return the folder that a snapshot in the hub's cache links to; None for any other folder."""
    blobs = snapshot.resolve().parent.parent / "blobs"
    return blobs if snapshot.resolve().parent.name == "snapshots" and blobs.is_dir() else None


def _read_card(card: Path | None) -> str:
    if card is None:
        return ""
    text = read_small(card, _MOST_CARD_BYTES).decode("utf-8", "replace").replace("\r\n", "\n").replace("\0", "")
    _, mark, body = text.partition("\n---\n") if text.startswith("---\n") else ("", "", "")
    return (body if mark else text).strip()[:_LONGEST_DESCRIPTION]
