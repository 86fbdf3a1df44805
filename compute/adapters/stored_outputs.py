"""The outputs that jobs have sent to the platform: trees in the store of their project, read as any output is."""

import io
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from accounts.permissions import Actor
from compute.engine.job_spec import HostFolder
from compute.engine.ports import OutputFile, OutputReader
from compute.models import Job
from datasets.errors import FileNotInCommit, TreeNotFound
from datasets.selectors import files, trees

_SYSTEM = Actor.system("outputs of jobs")


class StoredOutputs(Protocol):
    """Where the outputs of jobs are, once their pods or hosts have sent them."""

    def open(self, job_id: str, root: str) -> OutputReader:
        """Return what reads the tree that a job sent. Raises OSError where it is not stored any more."""


@dataclass(frozen=True)
class SentOutput:
    """The output of one run: nothing while it runs, then what its pod or host has sent to the store.

    `find` returns what reads it, None where there is no file yet. It raises OSError for an output that is lost.
    """

    find: Callable[[], OutputReader | None]
    source: HostFolder | None = None

    def list_files(self) -> Iterator[OutputFile]:
        """Yield the stored files."""
        reader = self.find()
        return iter(()) if reader is None else reader.list_files()

    def open(self, path: str) -> BinaryIO:
        """Open a stored file."""
        reader = self.find()
        if reader is None:
            raise FileNotFoundError(path)
        return reader.open(path)


@dataclass(frozen=True)
class StoredTreeOutput:
    """Reads one stored tree."""

    tree: Any
    source: HostFolder | None = None

    def list_files(self) -> Iterator[OutputFile]:
        """Yield the files of the tree."""
        for entry in trees.list_entries(self.tree):
            yield OutputFile(os.fsdecode(entry.path), entry.size, entry.mode, entry.mtime_ns)

    def open(self, path: str) -> BinaryIO:
        """Open a file of the tree; its bytes are verified as they are read."""
        with suppress(FileNotInCommit):
            content = files.open_file(_SYSTEM, self.tree, path=os.fsencode(path))
            return io.BufferedReader(Chunks(content.read()))
        raise FileNotFoundError(path)


class StoredTreeOutputs:
    """Finds the trees of jobs in the database."""

    def open(self, job_id: str, root: str) -> StoredTreeOutput:
        """Return what reads the tree that a job sent. Raises FileNotFoundError where it is not stored any more."""
        project_id = Job.objects.filter(pk=job_id).values_list("project_id", flat=True).first()
        with suppress(TreeNotFound):
            return StoredTreeOutput(trees.get_tree_of(_SYSTEM, str(project_id), root))
        raise FileNotFoundError(f"The output {root[:12]} is not in the store any more.")


class Chunks(io.RawIOBase):
    """Reads chunks as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def readable(self) -> bool:
        """Return that it is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with what comes next; nothing at the end."""
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = chunk
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size
