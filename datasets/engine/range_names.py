"""The names in a range as they are kept of it, so that a tree is searched, and its collisions found, without entries.

The paths are kept in one piece, which is searched a hundred times as quickly as one path after another. A path may hold
any byte but NUL, so that is what stands before, between and behind them.

Fingerprints find names of one tree that some machine cannot hold apart. For each name they have a hash of it as a
careless file system sees it (case and Unicode form folded) beside a hash of what it is exactly. Two names collide where
the first hashes agree and the second do not.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from nearline.content.manifest import Entry
from nearline.content.paths import fold

_BETWEEN = b"\0"
_HASH_BYTES = 8
_FILE, _FOLDER = b"f", b"d"
# What is read of them takes some hundred bytes of memory each.
MOST_SUSPECTS = 200_000


def join_names(paths: Sequence[bytes]) -> bytes:
    """Return the paths of a range in one piece."""
    return b"".join((_BETWEEN, _BETWEEN.join(paths), _BETWEEN))


def find_holding(names: bytes, part: bytes, *, in_any_case: bool = False) -> Iterator[bytes]:
    """Yield the paths that hold `part`, in order; with `in_any_case`, in any case of ASCII letters."""
    if not part:
        yield from names[1:-1].split(_BETWEEN)
        return
    if _BETWEEN in part:
        return
    searched, part = (names.lower(), part.lower()) if in_any_case else (names, part)
    end = 0
    while (position := searched.find(part, end)) != -1:
        start, end = searched.rfind(_BETWEEN, 0, position) + 1, searched.find(_BETWEEN, position)
        yield names[start:end]


class Suspects(NamedTuple):
    """Names that seem to collide: for the index of a range, their folded hashes. Incomplete: there are more."""

    hashes: dict[int, set[bytes]]
    is_complete: bool


def fingerprints(entries: Iterable[Entry]) -> bytes:
    """Return the fingerprints of the files and folders in a range: 16 bytes for each name."""
    parts = []
    for name, kind, _ in _names(entries):
        parts.append(_fold_hash(name))
        parts.append(_exact_hash(name, kind))
    return b"".join(parts)


def find_suspects(ranges: Sequence[bytes], before: Sequence[bytes] = ()) -> Suspects:
    """Find names that seem to collide where at least one is not in `before`, the ranges of the tree before."""
    table = _table(ranges)
    owner = np.repeat(np.arange(len(ranges)), [len(part) // (2 * _HASH_BYTES) for part in ranges])
    order = np.argsort(table[:, 0], kind="stable")
    folded, exact = table[order, 0], table[order, 1]
    clashes = (folded[1:] == folded[:-1]) & (exact[1:] != exact[:-1])
    rows = np.flatnonzero(np.isin(folded, folded[1:][clashes]))
    new_rows = rows[~np.isin(exact[rows], _table(before)[:, 1])]
    rows = rows[np.isin(folded[rows], folded[new_rows])]
    hashes: dict[int, set[bytes]] = {}
    for row in rows[:MOST_SUSPECTS]:
        hashes.setdefault(int(owner[order[row]]), set()).add(folded[row].tobytes())
    return Suspects(hashes, len(rows) <= MOST_SUSPECTS)


def paths_behind(entries: Iterable[Entry], folded_hashes: Collection[bytes]) -> Iterator[bytes]:
    """Yield the files of a range whose name has one of these folded hashes, and a file in each such folder."""
    for name, _, path in _names(entries):
        if _fold_hash(name) in folded_hashes:
            yield path


def find_known(names: Collection[bytes], before: Sequence[bytes]) -> set[bytes]:
    """Return those of the names that are a file or a folder in the ranges of a tree."""
    hashes = b"".join(_exact_hash(name, kind) for name in names for kind in (_FILE, _FOLDER))
    known = np.isin(_table([hashes]), _table(before)[:, 1])
    return {name for name, pair in zip(names, known, strict=True) if pair.any()}


def _table(ranges: Sequence[bytes]) -> NDArray[np.uint64]:
    return np.frombuffer(b"".join(ranges), dtype=np.uint64).reshape(-1, 2)


def _exact_hash(name: bytes, kind: bytes) -> bytes:
    digest: bytes = blake3(kind + name).digest(_HASH_BYTES)
    return digest


def _fold_hash(name: bytes) -> bytes:
    folded = fold(name)
    text = folded.encode("utf-8", "surrogateescape") if isinstance(folded, str) else folded
    digest: bytes = blake3(text).digest(_HASH_BYTES)
    return digest


def _names(entries: Iterable[Entry]) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield each file and each folder once: its name, its kind, and the path of a file that has or needs it."""
    seen: set[bytes] = set()
    for entry in entries:
        yield entry.path, _FILE, entry.path
        folder = entry.path.rpartition(b"/")[0]
        while folder and folder not in seen:
            seen.add(folder)
            yield folder, _FOLDER, entry.path
            folder = folder.rpartition(b"/")[0]
