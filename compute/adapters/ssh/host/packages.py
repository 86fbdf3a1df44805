"""Packages that the platform brought to this host, for processes that need more than Python's own library."""

import base64
import hashlib
import io
import shutil
import tempfile
import zipfile
from pathlib import Path

# Where the program itself was brought.
_PLACE = Path("~/.cache/nearline")
BEFORE, AFTER = "before", "after"
"""The folders of an archive: `before` precedes the packages of the host's Python on the search path. `after` follows
them, as it holds what another Python than the platform's cannot load and may have in a build of its own."""


def list_paths(digest: str) -> tuple[Path, Path]:
    """Return what goes before and after the host's own packages on the search path of a process."""
    folder = _folder_of(digest)
    return folder / BEFORE, folder / AFTER


def are_here(digest: str) -> bool:
    """Whether these packages were brought."""
    return _folder_of(digest).is_dir()


def bring(digest: str, data: str) -> None:
    """Unpack an archive, given in base64, whose SHA-256 is the digest. It is there whole or not at all."""
    content = base64.b64decode(data)
    if hashlib.sha256(content).hexdigest() != digest:
        raise ValueError("The packages arrived damaged.")
    folder = _folder_of(digest)
    draft = Path(tempfile.mkdtemp(dir=folder.parent))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(draft)
    try:
        draft.rename(folder)
    except OSError:  # another call was quicker
        if not folder.is_dir():
            raise
        shutil.rmtree(draft)


def _folder_of(digest: str) -> Path:
    return _PLACE.expanduser() / digest
