"""Builds trees, stores and datasets for tests, by the same services and the same format that the product uses."""

import itertools
from collections.abc import Mapping
from pathlib import Path

from nearline.content.chunking import cut
from nearline.content.hashing import file_id, sha256_hex
from nearline.content.manifest import BlobRef, Entry, Tree, build_tree, new_symlink
from nearline.content.packs import PackBuilder

from datasets.engine.layout import pack_key, range_key, root_key
from datasets.engine.ports import BlobStore

_counter = itertools.count(1)
MTIME_NS = 1_700_000_000_000_000_000

# What a tree is made of: names and contents; a str content is a link's target, a tuple is (content, mode).
Files = Mapping[str, bytes | str | tuple[bytes, int]]


class PackedTree:
    """A tree and all of its objects, ready to be stored or uploaded."""

    def __init__(self, files: Files, *, pack_bytes: int = 1 << 20, mtime_ns: int = MTIME_NS) -> None:
        self.packs: dict[str, bytes] = {}
        self._builder = PackBuilder(pack_bytes)
        self._waiting: list[tuple[bytes, bytes]] = []
        self._places: dict[bytes, BlobRef] = {}
        contents: list[tuple[bytes, bytes | str, int, list[bytes]]] = []
        for name, value in files.items():
            content, mode = value if isinstance(value, tuple) else (value, 0o644)
            blobs = [] if isinstance(content, str) else self._add(content)
            contents.append((name.encode("utf-8", "surrogateescape"), content, mode, blobs))
        self._finish()
        self.entries: list[Entry] = []
        for path, content, mode, blobs in sorted(contents):
            if isinstance(content, str):
                self.entries.append(new_symlink(path, content.encode(), mtime_ns))
            else:
                refs = tuple(self._places[blob] for blob in blobs)
                self.entries.append(Entry(path, mode, len(content), mtime_ns, file_id(content), blobs=refs))
        self.tree: Tree = build_tree(self.entries)

    @property
    def root_id(self) -> str:
        return self.tree.root_id

    def put_into(self, store: BlobStore) -> None:
        """Store every object."""
        for sha256, data in self.packs.items():
            store.put(pack_key(sha256), data)
        for range_id, data in self.tree.objects.items():
            store.put(range_key(range_id), data)
        store.put(root_key(self.root_id), self.tree.root)

    def _add(self, content: bytes) -> list[bytes]:
        import io

        ids = []
        for chunk in cut(io.BytesIO(content), len(content)):
            data = bytes(chunk.data)
            blob_id = file_id(data)
            ids.append(blob_id)
            if blob_id in self._places or any(blob_id == waiting for waiting, _ in self._waiting):
                continue
            if not self._builder.has_room(len(data)):
                self._finish()
            self._builder.add(data, blob_id)
            self._waiting.append((blob_id, data))
        return ids

    def _finish(self) -> None:
        if self._builder.is_empty:
            return
        pack = self._builder.finish()
        assert pack.name == sha256_hex(pack.data)
        self.packs[pack.name] = pack.data
        for blob in pack.blobs:
            self._places[blob.content_id] = BlobRef(blob.content_id, pack.sha256, blob.offset, blob.size)
        self._builder = PackBuilder(self._builder._target_bytes)
        self._waiting = []


def read_tree(folder: Path) -> dict[str, bytes | str]:
    """Return what lies under a folder in the form of `Files`, without modes."""
    found: dict[str, bytes | str] = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_file():
            found[name] = path.read_bytes()
    return found
