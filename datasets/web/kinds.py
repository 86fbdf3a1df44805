"""What a file may be shown as, by the ending of its name. Only plain pixels and sounds are ever shown by a browser."""

from pathlib import PurePosixPath

from datasets.selectors import dicoms
from nearline.content.manifest import Entry, EntryKind
from nearline.content.paths import show_path

PIXELS = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".bmp": "image/bmp",
    ".avif": "image/avif",
}
"""Endings of pictures that a page may show as they are, with the type that they are sent as."""

SOUNDS = {
    ".mp3": "audio/mpeg",
    ".wav": "audio/wav",
    ".ogg": "audio/ogg",
    ".oga": "audio/ogg",
    ".opus": "audio/ogg",
    ".flac": "audio/flac",
    ".m4a": "audio/mp4",
}
FILMS = {".mp4": "video/mp4", ".m4v": "video/mp4", ".webm": "video/webm", ".ogv": "video/ogg", ".mov": "video/mp4"}
_SHRINKABLE = {".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff"}
VOLUMES = {".nii", ".nii.gz"}
"""Endings of volumes, of which one slice is drawn: more work than a small picture in a list is worth."""
DICOMS = set(dicoms.ENDINGS)
_DRAWN_BY_US = {".tif", ".tiff", *VOLUMES, *DICOMS}
_MAX_PICTURE_BYTES = 20 * 1024 * 1024


def ending_of(path: bytes) -> str:
    """Return the ending of a name in lower case, with its dot; of a packed volume both endings."""
    name = PurePosixPath(show_path(path))
    return ".nii.gz" if name.name.lower().endswith(".nii.gz") else name.suffix.lower()


def shown_type(entry: Entry) -> str | None:
    """Return the type as which the bytes of a file may be shown; None: they are only ever saved."""
    ending = ending_of(entry.path)
    if entry.kind is not EntryKind.FILE:
        return None
    if ending in PIXELS:
        return PIXELS[ending] if entry.size <= _MAX_PICTURE_BYTES else None
    return SOUNDS.get(ending) or FILMS.get(ending)


def has_thumbnail(entry: Entry) -> bool:
    """Whether the server makes a small picture of the file."""
    return entry.kind is EntryKind.FILE and ending_of(entry.path) in _SHRINKABLE


def kind_of(entry: Entry) -> str:
    """Return picture, drawn (a picture that only we can show), sound, film, link or file."""
    ending = ending_of(entry.path)
    if entry.kind is EntryKind.SYMLINK:
        return "link"
    if ending in _DRAWN_BY_US:
        return "drawn"
    if shown_type(entry) is None:
        return "file"
    return "picture" if ending in PIXELS else "sound" if ending in SOUNDS else "film"


ICONS = {"picture": "photo", "drawn": "photo", "sound": "music", "film": "movie", "link": "link", "file": "file"}
"""The icon of each kind."""
