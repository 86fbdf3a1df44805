"""Reads commits from a folder that holds a copy of a store, by docs/reference/format.md and without Nearline.

    python read_store.py COPY                              lists datasets, their branches and tags, and commits
    python read_store.py COPY PROJECT/DATASET REF TARGET   writes the files of a branch, tag or commit into a new folder

Every hash is compared; what is not as the format says ends the program. Needs Python 3.11 and the package `blake3`.
"""

import hashlib
import json
import os
import struct
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from blake3 import blake3


def check(is_right: object, what: object) -> None:
    if not is_right:
        raise SystemExit(f"{what!r} is not as the format says.")


def read_named(path: Path) -> bytes:
    """Return an object whose name is the BLAKE3 of its bytes."""
    data = path.read_bytes()
    check(blake3(data).hexdigest() == path.name, path)
    return data


def read_record(dataset: Path) -> dict[str, Any]:
    """Return the newest record of a dataset: its names, branches and tags."""
    newest = max((dataset / "records").glob("*"))
    digest, text = newest.read_bytes().split(b"\n", 1)
    check(blake3(text).hexdigest().encode() == digest, newest)
    return dict(json.loads(text))


def read_root(data: bytes) -> Iterator[tuple[str, tuple[bytes, bytes, int, int]]]:
    """Yield the id of each range, and what the root says about it: first and last path, entries, bytes."""
    (*header, count), offset = struct.unpack_from("<4sBBHI", data), 12
    check(header == [b"NLRT", 1, 1, 0], "root")
    for _ in range(count):
        first, last, files, size, range_id = struct.unpack_from("<HHIQ32s", data, offset)
        middle, end = offset + 48 + first, offset + 48 + first + last
        yield range_id.hex(), (data[middle - first : middle], data[middle:end], files, size)
        offset = end
    check(offset == len(data), "root")


def read_range(data: bytes, range_id: str) -> Iterator[tuple[bytes, int, int, int, bytes, list[Any], bytes, int]]:
    """Yield path, kind, mode, size, content id, blobs, target, time of each entry. A blob: id, size, pack, offset."""
    *header, entries, chunks, blobs, packs = struct.unpack_from("<4sBBHIIII", data)
    check(header == [b"NLRG", 1, 1, 0], range_id)
    position, columns = 24, []

    def column(length: int) -> bytes:
        nonlocal position
        codec, stored = struct.unpack_from("<BI", data, position)
        raw, position = data[position + 5 : position + 5 + stored], position + 5 + stored
        raw = zlib.decompressobj().decompress(raw, length + 1) if codec else raw
        check(len(raw) == length, range_id)
        columns.append(length.to_bytes(8, "little") + raw)
        return raw

    def numbers(code: str, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}{code}", column(count * struct.calcsize(f"<{code}")))

    def texts(lengths: Sequence[int]) -> list[bytes]:
        raw = column(sum(lengths))
        return [raw[end - length : end] for end, length in zip(accumulate(lengths), lengths, strict=True)]

    shared, rests = numbers("H", entries), texts(numbers("H", entries))
    kinds, modes, sizes = column(entries), numbers("H", entries), numbers("Q", entries)
    ids, counts = texts([32] * entries), numbers("I", entries)
    targets = texts([size if kind else 0 for kind, size in zip(kinds, sizes, strict=True)])
    pieces = iter(list(zip(texts([32] * chunks), numbers("I", chunks), strict=True)))
    ordinals, offsets = numbers("I", blobs), numbers("I", blobs)
    names = [name.hex() for name in texts([32] * packs)]
    times, identity = numbers("q", entries), data[:24] + b"".join(columns[:14])
    check(position == len(data) and blake3(identity).hexdigest() == range_id, range_id)
    places, path = zip([names[ordinal] for ordinal in ordinals], offsets, strict=True), b""
    for i in range(entries):
        path = path[: shared[i]] + rests[i]
        own = [(ids[i], sizes[i])] if counts[i] == 1 else [next(pieces) for _ in range(counts[i])]
        yield path, kinds[i], modes[i], sizes[i], ids[i], [(*p, *next(places)) for p in own], targets[i], times[i]


def write_entry(folder: Path, entry: tuple[Any, ...], read_pack: Callable[[str], bytes]) -> None:
    (name, kind, mode, size, content_id, blobs, target, time_ns), path = entry, folder / os.fsdecode(entry[0])
    check(name[:1] != b"/" and b".." not in name.split(b"/"), name)
    path.parent.mkdir(parents=True, exist_ok=True)
    check(path.parent.resolve().is_relative_to(folder.resolve()), name)
    if kind:
        check(blake3(target).digest() == content_id, name)
        path.symlink_to(os.fsdecode(target))
        return
    whole = blake3()
    with path.open("xb") as file:
        for blob_id, length, pack, offset in blobs:
            data = read_pack(pack)[offset : offset + length]
            check(blake3(data).digest() == blob_id, name)
            whole.update(data)
            file.write(data)
        check(whole.digest() == content_id and file.tell() == size, name)
    os.utime(path, ns=(time_ns, time_ns))
    path.chmod(mode)


def write_commit(dataset: Path, root: str, near: list[Path], folder: Path) -> None:
    """Write all files of a tree. Its packs lie with the dataset, or with the stored trees of its project."""

    @lru_cache(maxsize=8)
    def read_pack(name: str) -> bytes:
        paths = (place / "packs" / name[:2] / name for place in near)
        if (path := next((path for path in paths if path.exists()), None)) is None:
            raise SystemExit(f"The pack {name} is not here. What was imported in place has a map: promote it first.")
        data = path.read_bytes()
        check(hashlib.sha256(data).hexdigest() == name, path)
        return data

    folder.mkdir()
    for range_id, stated in read_root(read_named(dataset / "roots" / root)):
        entries = list(read_range((dataset / "ranges" / range_id).read_bytes(), range_id))
        check((entries[0][0], entries[-1][0], len(entries), sum(entry[3] for entry in entries)) == stated, range_id)
        for entry in entries:
            write_entry(folder, entry, read_pack)


def main(copy: str, wanted: str = "", ref: str = "", folder: str = "") -> None:
    records = {path: read_record(path) for path in sorted(Path(copy, "datasets").iterdir())}
    for dataset, record in records.items():
        name, names = f"{record['project_name']}/{record['name']}", {**record["tags"], **record["branches"]}
        commits = {path.name: json.loads(read_named(path)) for path in sorted((dataset / "commits").glob("*"))}
        if wanted == name:
            id_ = names.get(ref) or next(id_ for id_ in commits if id_.startswith(ref))
            near = [dataset, *(path for path, other in records.items() if other["is_internal"])]
            write_commit(dataset, commits[id_]["root"], near, Path(folder))
        elif not wanted:
            lines = [f"{id_[:12]} {commit['author']}: {commit['message']!r}" for id_, commit in commits.items()]
            print(name, *(f"{label}={str(id_)[:12]}" for label, id_ in names.items()), *lines, sep="\n    ")


if __name__ == "__main__":
    main(*sys.argv[1:])
