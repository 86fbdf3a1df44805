"""Pictures of a commit, small: made once for a content, and kept for the next reader."""

from accounts.permissions import Actor
from datasets.adapters import pictures
from datasets.models import Commit
from datasets.selectors import dicoms, files, volumes
from datasets.selectors.trees import Kept

MAX_SOURCE_BYTES = 32 * 1024 * 1024
"""Larger files are not read for a thumbnail."""

_KEPT_BYTES = 16 * 1024 * 1024
_HEAD_BYTES = 64 * 1024
_SMALL_BYTES = 1024 * 1024


def get_thumbnail(actor: Actor, commit: Commit, *, path: bytes, edge: int) -> bytes | None:
    """Return a file, or the slice or frame in its middle, as a WebP with no side longer than `edge`; None: no picture.

    Raises FileNotInCommit.
    """
    content = files.open_file(actor, commit, path=path)
    draw = volumes.draw_slice if volumes.is_volume(path) else dicoms.draw_frame if dicoms.is_dicom(path) else _shrink
    if content.size_bytes > MAX_SOURCE_BYTES and draw is _shrink:
        return None
    key = (content.entry.content_id.hex(), str(edge))
    small = _pictures.get(key)
    if small is None:
        small = draw(content, edge)
        if small is not None:
            _pictures.put(key, small, weight=len(small))
    return small


def describe(content: files.FileContent) -> str:
    """Return the size in pixels and their kind, such as `1024 x 1024, 8 bit grey`; empty when unknown."""
    return pictures.describe(b"".join(content.read(0, _HEAD_BYTES)))


def _shrink(content: files.FileContent, edge: int) -> bytes | None:
    # The many of a page are read side by side; a slow store holds up only its large ones.
    data = b"".join(content.read()) if content.size_bytes <= _SMALL_BYTES else b""
    with pictures.DRAWING:
        return pictures.shrink(data or b"".join(content.read()), edge)


_pictures: Kept[bytes] = Kept(_KEPT_BYTES)
