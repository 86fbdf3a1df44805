"""Names of one tree that some machine cannot hold apart, found across ranges without reading them all.

Each range keeps fingerprints of its names: a hash of the name as a careless file system sees it (case and Unicode form
folded) beside a hash of what it is exactly. Two names collide where the first hashes agree and the second do not.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from nearline.content.manifest import Entry
from nearline.content.paths import fold

_HASH_BYTES = 8
_FILE, _FOLDER = b"f", b"d"


def fingerprints(entries: Iterable[Entry]) -> bytes:
    """Return the fingerprints of the files and folders in a range: 16 bytes for each name."""
    parts = []
    for name, kind in _names(entries):
        parts.append(_fold_hash(name))
        parts.append(blake3(kind + name).digest(_HASH_BYTES))
    return b"".join(parts)


def find_suspects(ranges: Sequence[bytes]) -> list[tuple[int, bytes]]:
    """Return, for names that seem to collide, (index of the range, folded hash). Empty: nothing collides."""
    if not any(ranges):
        return []
    table: NDArray[np.uint64] = np.frombuffer(b"".join(ranges), dtype=np.uint64).reshape(-1, 2)
    owner = np.repeat(np.arange(len(ranges)), [len(part) // (2 * _HASH_BYTES) for part in ranges])
    order = np.argsort(table[:, 0], kind="stable")
    folded, exact = table[order, 0], table[order, 1]
    clashes = (folded[1:] == folded[:-1]) & (exact[1:] != exact[:-1])
    bad = np.unique(folded[1:][clashes])
    rows = np.flatnonzero(np.isin(folded, bad))
    return sorted({(int(owner[order[row]]), folded[row].tobytes()) for row in rows})


def names_behind(entries: Iterable[Entry], folded_hash: bytes) -> Iterator[bytes]:
    """Yield the names in a range that have this folded hash; a folder's ends in a slash."""
    for name, kind in _names(entries):
        if _fold_hash(name) == folded_hash:
            yield name + b"/" if kind == _FOLDER else name


def _fold_hash(name: bytes) -> bytes:
    folded = fold(name)
    text = folded.encode("utf-8", "surrogateescape") if isinstance(folded, str) else folded
    digest: bytes = blake3(text).digest(_HASH_BYTES)
    return digest


def _names(entries: Iterable[Entry]) -> Iterator[tuple[bytes, bytes]]:
    seen: set[bytes] = set()
    for entry in entries:
        yield entry.path, _FILE
        folder = entry.path.rpartition(b"/")[0]
        while folder and folder not in seen:
            seen.add(folder)
            yield folder, _FOLDER
            folder = folder.rpartition(b"/")[0]
