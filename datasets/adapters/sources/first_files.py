"""The first files of a source, for a look within a request: neither time nor memory grow with what it holds."""

from collections.abc import Iterator

from datasets.engine.ports import SourceFiles
from nearline.content.mapping import FoundFile


class LookedAtEnough(Exception):
    """A source holds more than is looked at within a request."""


class FirstFiles:
    """Lists at most `most_files` files in all, and reads at most `most_bytes` at once. Raises LookedAtEnough."""

    def __init__(self, files: SourceFiles, *, most_files: int, most_bytes: int) -> None:
        self._files = files
        self._left = most_files
        self._most_bytes = most_bytes
        self.parallel_reads = files.parallel_reads
        self.open = files.open

    def list_files(self, prefix: bytes) -> Iterator[FoundFile]:
        """Yield the files below a folder, as many as are left."""
        for file in self._files.list_files(prefix):
            if not self._left:
                raise LookedAtEnough
            self._left -= 1
            yield file

    def read(self, path: bytes, offset: int, size: int) -> bytes:
        """Return a part of a file."""
        data = self._files.read(path, offset, min(size, self._most_bytes + 1))
        if len(data) > self._most_bytes:
            raise LookedAtEnough
        return data
