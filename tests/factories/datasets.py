"""Builds trees, stores and datasets for tests, by the same services and the same format that the product uses."""

import io
import itertools
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from accounts.models import Project
from accounts.permissions import Actor
from datasets.adapters.opening import open_dataset_store
from datasets.engine.layout import pack_key, range_key, root_key
from datasets.engine.ports import Announcement, BlobStore
from datasets.models import Branch, Commit, CommitSource, Dataset, Store, UploadSession
from datasets.services import commits, datasets, stores, uploads
from datasets.services.trees import SourceFile
from datasets.services.uploads import ObjectKind, Offer
from nearline.content.hashing import file_id, sha256_hex
from nearline.content.manifest import BlobRef, Entry, Tree, build_range, build_tree, new_symlink, read_range
from nearline.content.packs import PackBuilder, cut_chunks
from nearline.content.range_deltas import encode_delta

_counter = itertools.count(1)
MTIME_NS = 1_700_000_000_000_000_000

# What a tree is made of: names and contents; a str content is a link's target, a tuple is (content, mode).
Files = Mapping[str, bytes | str | tuple[bytes, int]]


class PackedTree:
    """A tree and all of its objects, ready to be stored or uploaded; its ranges as deltas of that of another tree."""

    def __init__(
        self,
        files: Files,
        *,
        pack_bytes: int = 1 << 20,
        mtime_ns: int = MTIME_NS,
        on: "PackedTree | None" = None,
    ) -> None:
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
        if on is not None:
            base = build_range(on.entries)
            entries = read_range(base.data).entries
            deltas = {
                range_id: encode_delta(base.range_id, entries, read_range(data).entries)
                for range_id, data in self.tree.objects.items()
                if range_id != base.range_id
            }
            self.tree = self.tree._replace(objects={**self.tree.objects, **deltas})

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
        ids = []
        for chunk in cut_chunks(io.BytesIO(content), len(content)):
            data = bytes(chunk.data)
            blob_id = file_id(data)
            ids.append(blob_id)
            if blob_id in self._places or any(blob_id == waiting for waiting, _ in self._waiting):
                continue
            if not self._builder.fits(len(data)):
                self._finish()
            self._builder.add(data, blob_id)
            self._waiting.append((blob_id, data))
        return ids

    def _finish(self) -> None:
        if self._builder.is_empty:
            return
        pack = self._builder.finish()
        assert pack.name == sha256_hex(pack.data)
        self.packs[pack.name] = bytes(pack.data)
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


def make_store(folder: Path) -> Store:
    """Make a folder the default store."""
    return stores.register_folder_store(actor=Actor.system("test"), name="folder", folder=folder)


def make_dataset(actor: Actor, project: Project, name: str = "") -> Dataset:
    """Create a dataset; a default store must exist."""
    return datasets.create_dataset(actor=actor, project=project, name=name or f"dataset-{next(_counter)}")


def upload_tree(actor: Actor, dataset: Dataset, tree: PackedTree, branch: str = "main") -> UploadSession:
    """Bring everything but the commit into the store, as a client does, and return the open session."""
    upload = uploads.start_upload(actor=actor, dataset=dataset, branch=branch, client_id="test").upload
    send_tree(actor, upload, tree)
    return upload


def send_tree(actor: Actor, upload: UploadSession, tree: PackedTree) -> None:
    """Bring all of a tree to the store in an open session, as a client does."""
    store = open_dataset_store(upload.dataset)
    offers = [Offer(ObjectKind.PACK, name, Announcement(len(data), name)) for name, data in tree.packs.items()]
    for answer in uploads.offer_packs(actor=actor, upload=upload, offers=offers):
        if answer.request is not None:
            store.put(pack_key(answer.id), tree.packs[answer.id])
    uploads.confirm_packs(actor=actor, upload=upload, names=list(tree.packs))
    for range_id, data in tree.tree.objects.items():
        store.put(range_key(range_id), data)
    store.put(root_key(tree.root_id), tree.tree.root)


def commit_files(
    actor: Actor,
    dataset: Dataset,
    files: Files,
    *,
    branch: str = "main",
    message: str = "",
    key: str = "",
    allow_collisions: bool = False,
    on: PackedTree | None = None,
) -> Commit:
    """Commit a whole tree on top of what the branch holds now; `on` is the one that its ranges are deltas of."""
    tree = PackedTree(files, on=on)
    upload = upload_tree(actor, dataset, tree, branch)
    return commits.commit_upload(
        actor=actor,
        upload=upload,
        root=tree.root_id,
        expected_head=Branch.objects.get(dataset=dataset, name=branch).head_id,
        message=message,
        source=CommitSource.CLI,
        idempotency_key=key,
        allow_collisions=allow_collisions,
    )


def source_files(content: Files) -> Iterator[SourceFile]:
    """Yield files to be stored in the order of their paths."""
    for path, value in sorted((name.encode("utf-8", "surrogateescape"), value) for name, value in content.items()):
        data, mode = value if isinstance(value, tuple) else (value, 0o644)
        target = data.encode() if isinstance(data, str) else b""
        body = b"" if isinstance(data, str) else data
        yield SourceFile(path, mode, len(body), MTIME_NS, partial(io.BytesIO, body), target)
