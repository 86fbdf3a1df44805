"""Trees in packs, and a source that reads them from memory."""

from nearline.content.entries import BlobRef, Entry, new_symlink
from nearline.content.hashing import file_id
from nearline.content.packs import MAX_BLOB_BYTES, PackBuilder

MTIME_NS = 1_500_000_000_000_000_000


class Damaged(Exception):
    """The error of this source for content that stays damaged."""


class Packs:
    """A source in memory; `reads` are the parts that were asked for. `before` may fail or damage a read."""

    def __init__(self, before=lambda data: data):
        self.data = {}
        self.reads = []
        self.before = before

    def add(self, files, *, mode=0o644):
        """Put files into one pack and return their entries; a text is the target of a link."""
        builder = PackBuilder()
        entries = []
        for name, content in sorted(files.items()):
            path = name.encode()
            if isinstance(content, str):
                entries.append(new_symlink(path, content.encode(), MTIME_NS))
                continue
            cuts = range(0, len(content), MAX_BLOB_BYTES)
            blobs = tuple(builder.add(content[at : at + MAX_BLOB_BYTES]) for at in cuts)
            entries.append(Entry(path, mode, len(content), MTIME_NS, file_id(content), blobs=blobs))
        pack = builder.finish()
        self.data[pack.name] = bytes(pack.data)
        return [
            entry._replace(blobs=tuple(BlobRef(b.content_id, pack.sha256, b.offset, b.size) for b in entry.blobs))
            for entry in entries
        ]

    def announce(self, packs):
        pass

    def read(self, pack, offset, size):
        self.reads.append((pack, offset, size))
        return self.before(self.data[pack][offset : offset + size])

    def damage_error(self, path, pack):
        return Damaged(path, pack)
