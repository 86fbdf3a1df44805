"""Maps of packs whose content stays in files of a source: which file, and where in it, each blob is read from.

A map stands in a store for the pack of the same name. docs/reference/format.md has it byte by byte.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from nearline.content.packs import BlobInPack, make_footer
from nearline.content.paths import show_path

_FORMAT: Final = 1
_MOST_BYTES: Final = 256 << 20


@dataclass(frozen=True)
class MappedFile:
    """A file of a source, as it was when it was imported. `version` differs once it was written to."""

    path: bytes
    size_bytes: int
    version: str

    @property
    def name(self) -> str:
        """The path as text for people."""
        return show_path(self.path)


@dataclass(frozen=True)
class Piece:
    """Where the content of a blob lies: the number of a file of the map, and the first byte in it."""

    file: int
    offset: int


@dataclass(frozen=True)
class PackMap:
    """A map: the blobs of a pack in their order, and for each its piece.

    `source` says in the store where the files lie, for whoever rebuilds the database: id, name, kind and location.
    """

    source: Mapping[str, str]
    files: Sequence[MappedFile]
    blobs: Sequence[BlobInPack]
    pieces: Sequence[Piece]

    @cached_property
    def footer(self) -> bytes:
        """What follows the blobs in the pack."""
        return make_footer(self.blobs)

    @property
    def blob_bytes(self) -> int:
        """How many bytes the blobs have together."""
        return self.blobs[-1].offset + self.blobs[-1].size

    @property
    def size_bytes(self) -> int:
        """How many bytes the pack has."""
        return self.blob_bytes + len(self.footer)

    def file_of(self, index: int) -> MappedFile:
        """Return the file that holds a blob."""
        return self.files[self.pieces[index].file]

    def encode(self) -> bytes:
        """Return the bytes that a store keeps."""
        facts = {
            "format": _FORMAT,
            "source": dict(self.source),
            "files": [[file.path.hex(), file.size_bytes, file.version] for file in self.files],
            "blobs": [
                [blob.content_id.hex(), blob.size, piece.file, piece.offset]
                for blob, piece in zip(self.blobs, self.pieces, strict=True)
            ],
        }
        return zlib.compress(json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode())

    @classmethod
    def decode(cls, data: bytes) -> "PackMap":
        """Read the bytes of a map. Raises ValueError."""
        try:
            facts = json.loads(zlib.decompressobj().decompress(data, _MOST_BYTES))
            if facts["format"] != _FORMAT:
                raise ValueError(f"its format is {facts['format']}")
            files = [MappedFile(bytes.fromhex(path), size, version) for path, size, version in facts["files"]]
            blobs, pieces, end = [], [], 0
            for content_id, size, file, offset in facts["blobs"]:
                blobs.append(BlobInPack(bytes.fromhex(content_id), end, size))
                pieces.append(Piece(range(len(files))[file], offset))
                end += size
            source = {str(key): str(value) for key, value in facts["source"].items()}
        except (zlib.error, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            raise ValueError("it is no map of a pack") from error
        if not blobs:
            raise ValueError("it has no blob")
        return cls(source, files, blobs, pieces)
