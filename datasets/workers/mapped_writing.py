"""Writing the content of a source's files as packs of which a store gets the maps alone.

Packs are made as a client makes them, and named by all of their bytes; only what is kept of them differs.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from datasets.adapters.opening import open_manifests, open_source
from datasets.engine.layout import map_key
from datasets.engine.pack_maps import MappedFile, PackMap, Piece
from datasets.engine.ports import FoundFile
from datasets.errors import SourceChanged
from datasets.models import InPlaceImport, Pack, PackState
from datasets.services import damage, packs
from nearline.content.chunking import cut, is_chunked
from nearline.content.hashing import EMPTY_ID, file_id, new_hasher
from nearline.content.manifest import BlobRef, Entry, new_symlink
from nearline.content.packs import PackBuilder

# So many small files are read ahead of the one being packed.
_READ_AHEAD: Final = 64


@dataclass
class _Draft:
    """An entry whose blobs have no place yet."""

    entry: Entry
    blobs: list[bytes] = field(default_factory=list)


class MappedWriter:
    """Takes files in the order of their paths in the tree. `on_pack` is called after each pack, and may raise.

    `find_known` returns the entry that the tree has at a path, if its content is at hand: the same is not mapped again.
    """

    def __init__(
        self, row: InPlaceImport, *, find_known: Callable[[bytes], Entry | None], on_pack: Callable[[], None]
    ) -> None:
        self.read_bytes = 0
        self.written_bytes = 0
        self._row = row
        self._source = open_source(row.source)
        self._facts = {
            "id": row.source.pk,
            "name": row.source.name,
            "kind": str(row.source.kind),
            "location": row.source.location,
        }
        self._store = open_manifests(row.dataset)
        self._find_known = find_known
        self._on_pack = on_pack
        self._builder = PackBuilder()
        self._growing: dict[bytes, tuple[FoundFile, int]] = {}
        self._placed: dict[bytes, BlobRef] = {}

    def write(self, files: Sequence[tuple[bytes, FoundFile]]) -> Mapping[bytes, Entry]:
        """Map the content of files, each with its path in the tree, and return their entries by path.

        Raises SourceFileMissing and SourceFileChanged for what changes meanwhile, SourceUnreachable, StoreUnreachable.
        """
        drafts: list[_Draft] = []
        for path, file, data in self._read_ahead(files):
            if file.target:
                drafts.append(_Draft(new_symlink(path, file.target, file.mtime_ns)))
            elif data is None:
                drafts.append(self._take_large(path, file))
            else:
                drafts.append(self._take_small(path, file, data))
        self._flush()
        return {
            draft.entry.path: draft.entry._replace(blobs=tuple(self._placed[blob] for blob in draft.blobs))
            if draft.blobs
            else draft.entry
            for draft in drafts
        }

    def _read_ahead(self, files: Iterable[tuple[bytes, FoundFile]]) -> Iterator[tuple[bytes, FoundFile, bytes | None]]:
        """Yield files with their content; None for those that are too large to be held whole."""
        waiting = iter(files)
        with ThreadPoolExecutor(self._source.parallel_reads, thread_name_prefix="source") as pool:

            def start(item: tuple[bytes, FoundFile]) -> tuple[bytes, FoundFile, Future[bytes] | None]:
                is_whole = not item[1].target and not is_chunked(item[1].size_bytes)
                return *item, pool.submit(self._read, item[1]) if is_whole else None

            ahead = deque(map(start, islice(waiting, _READ_AHEAD)))
            try:
                while ahead:
                    path, file, reading = ahead.popleft()
                    yield path, file, None if reading is None else reading.result()
                    ahead.extend(map(start, islice(waiting, 1)))
            finally:
                pool.shutdown(cancel_futures=True)

    def _read(self, file: FoundFile) -> bytes:
        with self._source.open(file) as stream:
            data = stream.read(file.size_bytes + 1) if file.size_bytes else b""
            while len(data) < file.size_bytes and (more := stream.read(file.size_bytes - len(data))):
                data += more
        _check_length(file, len(data))
        return data

    def _take_small(self, path: bytes, file: FoundFile, data: bytes) -> _Draft:
        self.read_bytes += len(data)
        entry = Entry(path, file.mode, len(data), file.mtime_ns, file_id(data) if data else EMPTY_ID)
        if (draft := self._keep_known(path, entry)) is not None:
            return draft
        draft = _Draft(entry)
        if data:
            self._place(draft, entry.content_id, data, file, 0)
        return draft

    def _take_large(self, path: bytes, file: FoundFile) -> _Draft:
        draft = _Draft(Entry(path, file.mode, file.size_bytes, file.mtime_ns, EMPTY_ID))
        hasher, size = new_hasher(), 0
        with self._source.open(file) as stream:
            for offset, chunk in cut(stream, file.size_bytes):
                data = bytes(chunk)
                hasher.update(data)
                size += len(data)
                self._place(draft, file_id(data), data, file, offset)
        _check_length(file, size)
        self.read_bytes += size
        draft.entry = draft.entry._replace(content_id=hasher.digest())
        return self._keep_known(path, draft.entry) or draft

    def _keep_known(self, path: bytes, entry: Entry) -> _Draft | None:
        known = self._find_known(path)
        if known is None or (known.content_id, known.kind) != (entry.content_id, entry.kind):
            return None
        return _Draft(entry._replace(blobs=known.blobs))

    def _place(self, draft: _Draft, content_id: bytes, data: bytes, file: FoundFile, offset: int) -> None:
        draft.blobs.append(content_id)
        if content_id in self._placed or content_id in self._growing:
            return
        if not self._builder.fits(len(data)):
            self._flush()
        self._builder.add(data, content_id)
        self._growing[content_id] = (file, offset)

    def _flush(self) -> None:
        """Name the pack that grew, and put its map into the store."""
        if self._builder.is_empty:
            return
        pack = self._builder.finish()
        size_bytes = sum(map(len, pack.parts))
        origins, self._growing = self._growing, {}
        files = {file.path: file for file, _ in origins.values()}
        numbers = {path: number for number, path in enumerate(files)}
        places = [origins[blob.content_id] for blob in pack.blobs]
        mapped = PackMap(
            self._facts,
            [MappedFile(file.path, file.size_bytes, file.version) for file in files.values()],
            pack.blobs,
            [Piece(numbers[file.path], offset) for file, offset in places],
        )
        dataset = self._row.dataset
        claimed = packs.claim(dataset, {pack.name: size_bytes}).rows[pack.name]
        if claimed.state != PackState.COMPLETE:
            data = mapped.encode()
            self._store.put(map_key(pack.name), data)
            self.written_bytes += len(data)
            packs.mark_mapped(claimed, self._row)
            if claimed.state == PackState.DAMAGED:
                damage.check_packs(dataset, [Pack.objects.get(pk=claimed.pk)])
        for blob in pack.blobs:
            self._placed[blob.content_id] = BlobRef(blob.content_id, pack.sha256, blob.offset, blob.size)
        self._on_pack()


def _check_length(file: FoundFile, size: int) -> None:
    if size != file.size_bytes:
        name = file.path.decode("utf-8", "backslashreplace")
        raise SourceChanged(f"'{name}' changed while it was read.", path=name)
