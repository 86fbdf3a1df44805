"""Damaged packs of the store made whole from good copies of their files.

A pack is named by its bytes, so the same bytes put in its place heal every commit that refers to it. What of a pack is
whole in the store is taken from there; only the blobs that are damaged are needed from here. Nothing is sent before the
pack has the hash that is its name.
"""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from nearline.content.entries import Entry
from nearline.content.errors import BadPack
from nearline.content.hashing import file_id, sha256_hex
from nearline.content.manifest import RootRange
from nearline.content.packs import BlobInPack, make_footer, read_footer
from nearline.content.retry import RetryPolicy
from nearline.errors import NotFound
from nearline.transfer.remote.manifests import Manifests
from nearline.transfer.remote.objects import ObjectReader
from nearline.transfer.remote.packing import Upload, send_pack
from nearline.transfer.remote.server import DamagedPack, ObjectKind, Server

# Returns the places on this machine where a file of this tree, or a content that no file of it has, may be found.
FindCopies = Callable[[bytes, Entry | None], Iterable[Path]]


class Healing(NamedTuple):
    """How many packs are whole again, which are not, and the files for which no good copy was found."""

    healed: int = 0
    damaged: frozenset[bytes] = frozenset()
    files: tuple[bytes, ...] = ()


class _Source(NamedTuple):
    """Where in which file of the tree a blob lies; no file where only the pack itself tells of it."""

    entry: Entry | None
    offset: int


class Healer:
    """Heals packs one after the other, so that one is in memory at a time."""

    def __init__(
        self, server: Server, upload: Upload, manifests: Manifests, policy: RetryPolicy, find_copies: FindCopies
    ) -> None:
        self._server = server
        self._upload = upload
        self._manifests = manifests
        self._policy = policy
        self._find_copies = find_copies

    def heal(self, packs: Sequence[DamagedPack], tree: Sequence[RootRange]) -> Healing:
        """Send again those of the packs that can be made whole from the store and the copies here."""
        known = self._list_blobs(tree, {bytes.fromhex(pack.name) for pack in packs})
        healed, damaged, files = 0, set(), set()
        for pack in packs:
            name = bytes.fromhex(pack.name)
            missing = self._heal_pack(pack, known.get(name, {}))
            if missing is None:
                healed += 1
            else:
                damaged.add(name)
                files |= missing
        return Healing(healed, frozenset(damaged), tuple(sorted(files)))

    def _list_blobs(self, tree: Sequence[RootRange], packs: set[bytes]) -> dict[bytes, dict[BlobInPack, list[_Source]]]:
        """Return what a tree says about the content of packs."""
        known: dict[bytes, dict[BlobInPack, list[_Source]]] = defaultdict(lambda: defaultdict(list))
        for row in tree:
            for entry in self._manifests.load_range(row.range_id):
                offset = 0
                for blob in entry.blobs:
                    if blob.pack in packs:
                        place = BlobInPack(blob.content_id, blob.offset, blob.size)
                        known[blob.pack][place].append(_Source(entry, offset))
                    offset += blob.size
        return known

    def _heal_pack(self, pack: DamagedPack, known: dict[BlobInPack, list[_Source]]) -> set[bytes] | None:
        """Make a pack whole and send it; return None, or the files of the tree that have no good copy here."""
        data = self._read(pack)
        blobs = dict(known)
        # A tree is checked by its hash, a footer that may be damaged is not: it only adds what no file of the tree has.
        offsets = {blob.offset for blob in blobs}
        with contextlib.suppress(BadPack):
            blobs.update((blob, [_Source(None, 0)]) for blob in read_footer(data) if blob.offset not in offsets)
        missing: set[bytes] = set()
        view = memoryview(data)
        for blob, sources in blobs.items():
            place = view[blob.offset : blob.offset + blob.size]
            if file_id(place) == blob.content_id:
                continue
            good = next(self._read_copies(blob, sources), None)
            if good is not None:
                place[:] = good
            else:
                missing.update(source.entry.path for source in sources if source.entry is not None)
        _mend_footer(data, sorted(blobs, key=lambda blob: blob.offset))
        if sha256_hex(data) != pack.name:
            return missing
        send_pack(self._server, self._upload, pack.name, data, self._policy)
        return None

    def _read(self, pack: DamagedPack) -> bytearray:
        """Return what the store has of a pack, in its full length."""
        data = bytearray(pack.size_bytes)

        def take(view: memoryview) -> None:
            size = min(len(view), len(data))
            data[:size] = view[:size]

        # Of one that is gone, all has to come from here.
        with contextlib.suppress(NotFound):
            ObjectReader(self._server, self._policy).read((ObjectKind.PACK, pack.name), take)
        return data

    def _read_copies(self, blob: BlobInPack, sources: Iterable[_Source]) -> Iterator[bytes]:
        """Yield the bytes of a blob from every file here that has them."""
        for source in sources:
            content_id = source.entry.content_id if source.entry is not None else blob.content_id
            for path in self._find_copies(content_id, source.entry):
                try:
                    with path.open("rb") as file:
                        file.seek(source.offset)
                        content = file.read(blob.size)
                except OSError:
                    continue
                if file_id(content) == blob.content_id:
                    yield content


def _mend_footer(data: bytearray, blobs: Sequence[BlobInPack]) -> None:
    """Write the footer of a pack anew where all of its blobs are known."""
    end = 0
    for blob in blobs:
        if blob.offset != end:
            return
        end += blob.size
    footer = make_footer(blobs)
    if end + len(footer) == len(data):
        data[end:] = footer
