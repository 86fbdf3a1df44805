"""Commits as an fsspec file system: `nearline://project/dataset@ref/path`, for pandas, PyArrow, Dask, Zarr and others.

Needs the package `fsspec` (`pip install nearline[fsspec]`), which finds this class by its name.
"""

import contextlib
import errno
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from io import BufferedReader
from typing import Any, NoReturn
from urllib.parse import unquote

from fsspec.spec import AbstractFileSystem

from nearline import errors
from nearline.client import Client
from nearline.content.entries import Entry, EntryKind
from nearline.content.paths import to_text
from nearline.reading.commit_files import CommitFiles
from nearline.resources.references import Reference, TreeReference, is_output, parse_output
from nearline.transfer.remote.retry import LONGEST_WAIT_S

Info = dict[str, Any]
_JOB = "job:"


class NearlineFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Datasets as folders: `project/dataset@ref/path`; without `@ref` the newest commit of the default branch.

    Outputs are `run:RUN/STEP/path` and `job:NAME/path`. What a branch or tag means is decided when it is first used,
    and stays until `invalidate_cache`. Slashes in its name are written `%2F`. Nothing can be written: a commit never
    changes. Content is verified before it is given. What does not exist raises FileNotFoundError, and what the reader
    may not see PermissionError.
    """

    protocol = "nearline"

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        max_wait_s: float = LONGEST_WAIT_S,
        **options: Any,
    ) -> None:
        """Use a server; without arguments that of the settings that the command line uses.

        A read waits for at most `max_wait_s` while the store is away.
        """
        super().__init__(**options)
        self._max_wait_s = max_wait_s
        self._client = Client(url, token)
        self._commits: dict[str, CommitFiles] = {}

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:  # noqa: FBT001, FBT002 (as fsspec calls it)
        """List projects, the datasets of a project, or a folder of a commit; of a file itself."""
        path = self._strip_protocol(path)
        with _as_os_errors(path):
            children = list(self._list(path))
        return children if detail else [item["name"] for item in children]

    def info(self, path: str, **_: Any) -> Info:
        """Return name, size in bytes and type; of a file also its time, mode and content id."""
        path = self._strip_protocol(path)
        with _as_os_errors(path):
            commit, inner = self._split(path)
            entry = commit.find(inner) if commit is not None else None
            if entry is not None:
                return _file_info(path, entry)
            next(iter(self._list(path)), None)  # raises where there is nothing
        return _folder_info(path)

    def modified(self, path: str) -> datetime:
        """Return the time that a file had where it came from."""
        return datetime.fromtimestamp(self.info(path)["mtime"], UTC)

    def ukey(self, path: str) -> str:
        """Return the id of a file's content: other content has another one."""
        return str(self.info(path)["content_id"])

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        """Return the content of a file, or a part of it."""
        path = self._strip_protocol(path)
        with _as_os_errors(path):
            commit, inner = self._commit_of(path)
            if start is None and end is None:
                return commit.read(inner)
            with commit.open(inner) as file:
                first, last, _step = slice(start, end).indices(file.seek(0, os.SEEK_END))
                file.seek(first)
                return file.read(max(0, last - first))

    def invalidate_cache(self, path: str | None = None) -> None:
        """Forget what branches and tags mean, and what was read."""
        for commit in self._commits.values():
            commit.close()
        self._commits.clear()
        super().invalidate_cache(path)

    def _open(self, path: str, mode: str = "rb", **_: Any) -> BufferedReader:
        if mode != "rb":
            _refuse(path)
        with _as_os_errors(path):
            commit, inner = self._commit_of(path)
            return commit.open(inner)

    def _rm(self, path: str) -> NoReturn:
        _refuse(path)

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> NoReturn:  # noqa: ARG002, FBT001, FBT002
        """Refuse: a commit never changes."""
        _refuse(path)

    def cp_file(self, path1: str, path2: str, **_: Any) -> NoReturn:  # noqa: ARG002
        """Refuse: a commit never changes."""
        _refuse(path2)

    def _list(self, path: str) -> Iterator[Info]:
        commit, inner = self._split(path)
        if commit is None:
            yield from self._list_datasets(path)
            return
        entry = commit.find(inner) if inner else None
        if entry is not None:
            yield _file_info(path, entry)
            return
        is_empty = True
        for child in commit.list_folder(inner):
            is_empty = False
            name = f"{path}/{to_text(child.name)}"
            yield _folder_info(name) if child.entry is None else _file_info(name, child.entry)
        if is_empty and inner:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def _list_datasets(self, project: str) -> Iterator[Info]:
        if not project:
            return (_folder_info(item.name) for item in self._client.projects.list())
        if all(item.name != project for item in self._client.projects.list()):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), project)
        return (_folder_info(f"{project}/{item.name}") for item in self._client.datasets.list(project=project))

    def _commit_of(self, path: str) -> tuple[CommitFiles, str]:
        commit, inner = self._split(path)
        if commit is None or not inner:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return commit, inner

    def _split(self, path: str) -> tuple[CommitFiles | None, str]:
        """Return the commit that a path lies in, and the rest of the path; None above all commits."""
        project, _, rest = path.partition("/")
        dataset, _, inner = rest.partition("/")
        if path.startswith(_JOB):
            dataset, inner = "", rest
        elif not dataset:
            return None, ""
        key = f"{project}/{dataset}"
        if key not in self._commits:
            self._commits[key] = self._client.datasets.open_commit(
                _reference_of(project, dataset), max_wait_s=self._max_wait_s
            )
        return self._commits[key], inner


def _reference_of(project: str, dataset: str) -> TreeReference:
    if is_output(project):
        return parse_output(unquote(f"{project}/{dataset}" if dataset else project))
    name, _, ref = dataset.partition("@")
    return Reference(project, name, unquote(ref) or None)


def _file_info(name: str, entry: Entry) -> Info:
    facts = {"mtime": entry.mtime_ns / 1e9, "mode": entry.mode, "content_id": entry.content_id.hex()}
    if entry.kind is EntryKind.SYMLINK:
        return {"name": name, "size": entry.size, "type": "link", "destination": to_text(entry.target), **facts}
    return {"name": name, "size": entry.size, "type": "file", **facts}


def _folder_info(name: str) -> Info:
    return {"name": name, "size": 0, "type": "directory"}


def _refuse(path: str) -> NoReturn:
    raise OSError(errno.EROFS, "A commit never changes; write with `nearline data put`", path)


@contextlib.contextmanager
def _as_os_errors(path: str) -> Iterator[None]:
    try:
        yield
    except errors.NotFound as error:
        raise FileNotFoundError(errno.ENOENT, error.message, path) from error
    except errors.Denied as error:
        raise PermissionError(errno.EACCES, error.message, path) from error
