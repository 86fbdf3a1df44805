"""A source on a volume of a cluster. Only pods there read it, so here each attempt says what can be done."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO, NoReturn

from datasets.errors import SourceOnSite
from nearline.content.mapping import FoundFile


class SourceVolume:
    """Refuses in words whatever would read a file."""

    parallel_reads = 1

    def __init__(self, name: str, site: str) -> None:
        self._name = name
        self._site = site

    def list_files(self, prefix: bytes) -> Iterator[FoundFile]:  # noqa: ARG002 (none is read)
        """Refuse."""
        self._refuse()

    def open(self, file: FoundFile) -> AbstractContextManager[BinaryIO]:  # noqa: ARG002 (none is read)
        """Refuse."""
        self._refuse()

    def read(self, path: bytes, offset: int, size: int) -> bytes:  # noqa: ARG002 (none is read)
        """Refuse."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise SourceOnSite(
            f"The bytes of the source '{self._name}' lie only on {self._site}: promote them first.", site=self._site
        )
