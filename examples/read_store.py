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
from io import BytesIO
from pathlib import Path
from typing import Any

from blake3 import blake3

CODES = ("H", "H", "", "", "H", "Q", "32s", "I", "", "32s", "I", "I", "I", "32s")  # of the columns that make an id


def check(is_right: object, what: object) -> None:
    if not is_right:
        raise SystemExit(f"{what!r} is not as the format says.")


def read_named(path: Path) -> bytes:
    data = path.read_bytes()
    check(blake3(data).hexdigest() == path.name, path)
    return data


def read_columns(data: bytes) -> Iterator[tuple[Any, ...]]:
    """Yield path, kind, mode, size, content id, blobs, target, time of each entry. A blob: id, size, pack, offset."""
    columns, position = list[Any](), 24
    for code in (*CODES, "q"):
        codec, stored = struct.unpack_from("<BI", data, position)
        raw, position = data[position + 5 : position + 5 + stored], position + 5 + stored
        raw = zlib.decompressobj().decompress(raw, 1 << 26) if codec else raw
        columns.append([value for (value,) in struct.iter_unpack(f"<{code}", raw)] if code else raw)
    check(data[:8] == b"NLRG\1\1\0\0" and position == len(data), "range")
    shared, lengths, rests, kinds, modes, sizes, ids, counts, targets, *blobs, packs, times = columns
    pieces, places = zip(*blobs[:2], strict=True), zip((packs[number] for number in blobs[2]), blobs[3], strict=True)
    rests, targets, path = BytesIO(rests), BytesIO(targets), b""
    for i, kind in enumerate(kinds):
        path = path[: shared[i]] + rests.read(lengths[i])
        own = [(ids[i], sizes[i])] if counts[i] == 1 else [next(pieces) for _ in range(counts[i])]
        target = targets.read(sizes[i]) if kind else b""
        yield path, kind, modes[i], sizes[i], ids[i], [(*piece, *next(places)) for piece in own], target, times[i]


def identify(entries: Sequence[tuple[Any, ...]]) -> str:
    """Return the id of the range of these entries: the hash of its header, and of all columns but the times."""
    paths, kinds, modes, sizes, ids, own, targets, _ = zip(*entries, strict=True)
    folders = [path.rpartition(b"/")[0] for path in paths]
    shared = [(len(name) + 1) * (name == last > b"") for name, last in zip(folders, [b"", *folders], strict=False)]
    rests = [path[length:] for path, length in zip(paths, shared, strict=True)]
    blobs, chunks = [blob for of in own for blob in of], [blob for of in own if len(of) > 1 for blob in of]
    packs = {name: number for number, name in enumerate(dict.fromkeys(blob[2] for blob in blobs))}
    columns: list[Any] = [shared, map(len, rests), b"".join(rests), bytes(kinds), modes, sizes, ids, map(len, own)]
    columns += [b"".join(targets), [blob[0] for blob in chunks], [blob[1] for blob in chunks]]
    columns += [[packs[blob[2]] for blob in blobs], [blob[3] for blob in blobs], packs]
    whole = blake3(struct.pack("<4sBBH4I", b"NLRG", 1, 1, 0, len(entries), len(chunks), len(blobs), len(packs)))
    for code, values in zip(CODES, columns, strict=True):
        raw = b"".join(struct.pack(f"<{code}", value) for value in values) if code else values
        whole.update(len(raw).to_bytes(8, "little") + raw)
    return str(whole.hexdigest())


def read_range(ranges: Path, range_id: str, depth: int = 4) -> list[tuple[Any, ...]]:
    """Return the entries of a range, which may lie in the store as a delta: as what it changes of another one."""
    data, by_path, end = (ranges / range_id).read_bytes(), dict[bytes, tuple[Any, ...]](), 0
    if data[4:5] == b"\2":
        base_id, count, _, stored = struct.unpack_from("<32sIBI", data, 8)
        check(data[:8] == b"NLRG\2\1\0\0" and depth, range_id)
        end = 49 + stored
        gone = set(struct.unpack(f"<{count}I", zlib.decompressobj().decompress(data[49:end], 4 * count + 1)))
        by_path = {e[0]: e for i, e in enumerate(read_range(ranges, base_id.hex(), depth - 1)) if i not in gone}
    by_path |= {e[0]: e for e in (read_columns(data[end:]) if data[end:] else ())}
    entries = [by_path[path] for path in sorted(by_path)]
    check(identify(entries) == range_id, range_id)
    return entries


def write_entry(folder: Path, entry: tuple[Any, ...], read_pack: Callable[[str], bytes]) -> None:
    (name, kind, mode, size, content_id, blobs, target, time_ns), path = entry, folder / os.fsdecode(entry[0])
    check(name[:1] != b"/" and b".." not in name.split(b"/"), name)
    path.parent.mkdir(parents=True, exist_ok=True)
    check(path.parent.resolve().is_relative_to(folder.resolve()), name)
    if kind:
        check(blake3(target).digest() == content_id, name)
        path.symlink_to(os.fsdecode(target))
        return
    with path.open("xb") as file:
        for blob_id, length, pack, offset in blobs:
            data = read_pack(pack.hex())[offset : offset + length]
            check(blake3(data).digest() == blob_id, name)
            file.write(data)
    check(blake3().update_mmap(path).digest() == content_id and path.stat().st_size == size, name)
    os.utime(path, ns=(time_ns, time_ns))
    path.chmod(mode)


def write_commit(dataset: Path, root: bytes, near: list[Path], folder: Path) -> None:
    """Write all files of a tree. Its packs lie with the dataset, or with the stored trees of its project."""

    @lru_cache(maxsize=8)
    def read_pack(name: str) -> bytes:
        data = next((path.read_bytes() for place in near if (path := place / "packs" / name[:2] / name).exists()), b"")
        if not data:
            raise SystemExit(f"The pack {name} is not here. What was imported in place has a map: promote it first.")
        check(hashlib.sha256(data).hexdigest() == name, name)
        return data

    folder.mkdir()
    end = 12
    for _ in range(int.from_bytes(root[8:end], "little")):
        first, last, files, size, range_id = struct.unpack_from("<HHIQ32s", root, end)
        middle, end = end + 48 + first, end + 48 + first + last
        entries = read_range(dataset / "ranges", range_id.hex())
        summary = entries[0][0], entries[-1][0], len(entries), sum(entry[3] for entry in entries)
        check(summary == (root[middle - first : middle], root[middle:end], files, size), range_id)
        for entry in entries:
            write_entry(folder, entry, read_pack)
    check(root[:8] == b"NLRT\1\1\0\0" and end == len(root), "root")


def main(copy: str, dataset_id: str = "", ref: str = "", folder: str = "") -> None:
    records = {}
    for path in sorted(Path(copy, "datasets").iterdir()):
        digest, text = max((path / "records").glob("*")).read_bytes().split(b"\n", 1)
        check(blake3(text).hexdigest().encode() == digest, path)
        records[path] = json.loads(text)
    for dataset, record in records.items():
        name, names = f"{record['project_name']}/{record['name']}", {**record["tags"], **record["branches"]}
        commits = {path.name: json.loads(read_named(path)) for path in sorted((dataset / "commits").glob("*"))}
        if dataset_id == name:
            id_ = names.get(ref) or next(id_ for id_ in commits if id_.startswith(ref))
            near = [dataset, *(path for path, other in records.items() if other["is_internal"])]
            write_commit(dataset, read_named(dataset / "roots" / commits[id_]["root"]), near, Path(folder))
        elif not dataset_id:
            lines = [f"{id_[:12]} {commit['author']}: {commit['message']!r}" for id_, commit in commits.items()]
            print(name, *(f"{label}={str(id_)[:12]}" for label, id_ in names.items()), *lines, sep="\n    ")


if __name__ == "__main__":
    main(*sys.argv[1:])
