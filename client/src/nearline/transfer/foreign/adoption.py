"""What another tool keeps on this machine, as files for a dataset: their paths, places and expected hashes."""

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from nearline.content.paths import show_path
from nearline.errors import Failed, InvalidRequest, hint_for
from nearline.transfer.local.walk import Skipped
from nearline.transfer.progress import Meter, OnProgress, ignore_progress

_READ_BYTES = 1 << 20
_NAMED = 20


@dataclass(frozen=True)
class Digest:
    """The hash that a tool knows a file by. `is_text`: of the file with the line ends of Unix.

    `algorithm` is one of hashlib, or `git`: the SHA-1 that git gives a blob.
    """

    algorithm: str
    value: str
    is_text: bool = False


@dataclass(frozen=True)
class Adoption:
    """Files by their path in the dataset, what their places must hold, words for the dataset, and what is left out."""

    files: Mapping[bytes, Path]
    digests: Mapping[Path, Digest] = field(default_factory=dict)
    description: str = ""
    skipped: Sequence[Skipped] = ()


def check_digests(adoption: Adoption, *, threads: int, on_progress: OnProgress = ignore_progress) -> None:
    """Read all files whose hash is known. Raises Failed, naming them, for those that are not what their tool says."""
    meter = Meter(on_progress, "Checking", files_total=len(adoption.digests))

    def is_right(item: tuple[Path, Digest]) -> bool:
        place, digest = item
        is_equal = _hash_file(place, digest.algorithm) == digest.value or (
            digest.is_text and _hash_text(place, digest.algorithm) == digest.value
        )
        meter.add(files=1)
        return is_equal

    with ThreadPoolExecutor(threads, thread_name_prefix="check") as pool:
        items = list(adoption.digests.items())
        wrong = {place for (place, _), right in zip(items, pool.map(is_right, items), strict=True) if not right}
    meter.finish()
    if wrong:
        paths = [path for path, place in adoption.files.items() if place in wrong]
        raise Failed(
            f"{_files(paths)} not as hashed by that tool: {name_some(paths)}. Nothing was imported.",
            code="client.damaged_source",
            hint="Fetch them anew with their own tool, then import again.",
        )


def _files(paths: Sequence[bytes]) -> str:
    return f"{len(paths):,} file{'' if len(paths) == 1 else 's'}"


def require_files(missing: Sequence[bytes], *, hint: str) -> None:
    """Raise Failed, naming them, where files are not on this machine."""
    if missing:
        raise Failed(
            f"The content of {_files(missing)} is not here: {name_some(missing)}. Nothing was imported.",
            code="client.missing_source",
            hint=hint,
        )


def is_plain_file(path: Path) -> bool:
    """Say whether a file is there that is no link."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def read_small(path: Path, most: int) -> bytes:
    """Return a file that describes others. Raises InvalidRequest when it is longer than such files are."""
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise InvalidRequest(f"'{path}' cannot be read: {error.strerror}.", hint=hint_for(error)) from error
    if len(data) > most:
        raise InvalidRequest(f"'{path}' is longer than {most:,} bytes, so it is not what its name says.")
    return data


def name_some(paths: Iterable[bytes]) -> str:
    """Return the first of many paths as text."""
    named = [show_path(path) for path in paths]
    rest = f" and {len(named) - _NAMED:,} more" if len(named) > _NAMED else ""
    return ", ".join(named[:_NAMED]) + rest


def _hash_file(place: Path, algorithm: str) -> str:
    descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:
        hasher = hashlib.new("sha1" if algorithm == "git" else algorithm, usedforsecurity=False)
        if algorithm == "git":
            hasher.update(b"blob %d\0" % os.fstat(descriptor).st_size)
        while data := file.read(_READ_BYTES):
            hasher.update(data)
    return hasher.hexdigest()


def _hash_text(place: Path, algorithm: str) -> str:
    return hashlib.new(algorithm, place.read_bytes().replace(b"\r\n", b"\n"), usedforsecurity=False).hexdigest()
