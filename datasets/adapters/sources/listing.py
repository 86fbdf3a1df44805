"""What an import in place takes of a source: a folder as it is, or what DVC keeps in a cache.

A listing of DVC (`files/md5/ab/cd….dir`) stands for the files that it lists, and the folder `.dvc` of a repository for
all that its `.dvc` and `dvc.lock` files track. Nothing of a repository is run, and content is looked for by its hash,
but for metrics and plots that no cache keeps: these lie in the working tree.
"""

import hashlib
import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any

from core.errors import InvalidInput
from datasets.engine.ports import SourceFiles
from datasets.errors import SourceFileMissing
from nearline.content.dvc_stages import StageOutput, list_outputs
from nearline.content.errors import BadPath
from nearline.content.mapping import FoundFile
from nearline.content.paths import check_path, show_path
from nearline.content.plain_yaml import UnreadableYaml, read_yaml

_REPOSITORY = re.compile(rb"(?:(?P<root>.+)/)?\.dvc")
_LISTING = re.compile(rb"(?:(?P<cache>.+)/)?(?P<first>[0-9a-f]{2})/(?P<rest>[0-9a-f]{30})\.dir")
_MD5 = re.compile(r"[0-9a-f]{32}")
_HASH = re.compile(r"[0-9a-f]{32}(\.dir)?")
# DVC 3, then DVC 2.
_CACHES = (b".dvc/cache/files/md5", b".dvc/cache")
_MOST_LISTING_BYTES = 512 << 20
# Reading YAML takes about half a second a MiB.
_MOST_YAML_BYTES = 4 << 20


def list_import(files: SourceFiles, prefix: bytes) -> Iterator[tuple[bytes, FoundFile]]:
    """Yield what lies at a prefix, each with its path below the folder that it becomes.

    Raises what the source raises, InvalidInput for what DVC does not write, and SourceFileMissing where a file is not
    in its cache.
    """
    if match := _LISTING.fullmatch(prefix):
        cache = match["cache"] or b""
        cache_listing = _Cache(files, {file.path: file for file in files.list_files(cache)}, [cache])
        yield from cache_listing.list_folder(b"", (match["first"] + match["rest"]).decode() + ".dir")
    elif match := _REPOSITORY.fullmatch(prefix):
        yield from _list_repository(files, match["root"] or b"")
    else:
        for file in files.list_files(prefix):
            yield file.path[len(prefix) :].lstrip(b"/"), file


def require_place(files: SourceFiles, prefix: bytes) -> None:
    """Require that there is what an import of this prefix begins with; of a folder at most one file is listed.

    Raises what the source raises, SourceFileMissing among it, and InvalidInput of an empty folder.
    """
    if _LISTING.fullmatch(prefix):
        files.read(prefix, 0, 1)
    elif next(iter(files.list_files(prefix)), None) is None and not _REPOSITORY.fullmatch(prefix):
        raise InvalidInput(f"'{show_path(prefix) or '/'}' holds no file.")


def list_places(files: SourceFiles, prefix: bytes) -> Iterator[FoundFile]:
    """Yield what lies now where an import has read its files, among others. Raises what the source raises."""
    if match := _LISTING.fullmatch(prefix):
        prefix = match["cache"] or b""
    elif match := _REPOSITORY.fullmatch(prefix):
        prefix = match["root"] or b""
    return files.list_files(prefix)


class _Cache:
    """Where DVC keeps content: a file named by its MD5 in one of some folders, of which `found` is what lies there."""

    def __init__(self, files: SourceFiles, by_path: Mapping[bytes, FoundFile], folders: list[bytes]) -> None:
        self._files = files
        self._by_path = by_path
        self._folders = folders

    def get(self, md5: str) -> FoundFile | None:
        """Return the file with this content, if it is there."""
        places = (_join(folder, md5[:2].encode(), md5[2:].encode()) for folder in self._folders)
        files = (self._by_path.get(place) for place in places)
        return next((file for file in files if file is not None and not file.why and not file.target), None)

    def find(self, path: bytes, md5: str) -> FoundFile:
        """Return the file with this content, which is that of `path`. Raises SourceFileMissing."""
        if (file := self.get(md5)) is not None:
            return file
        shown = show_path(path) or md5
        raise SourceFileMissing(
            f"'{shown}' is not in the cache of DVC: run `dvc fetch`, then import again.", path=shown
        )

    def list_folder(self, folder: bytes, md5: str) -> Iterator[tuple[bytes, FoundFile]]:
        """Yield the files of a folder whose listing has this MD5. Raises InvalidInput, SourceFileMissing."""
        place = self.find(folder, md5).path
        data = self._files.read(place, 0, _MOST_LISTING_BYTES)
        if hashlib.md5(data, usedforsecurity=False).hexdigest() != md5.removesuffix(".dir"):
            raise InvalidInput(f"'{show_path(place)}' is damaged: it is not what its name says.")
        try:
            listed = _read_listing(data)
        except (BadPath, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidInput(f"'{show_path(place)}' is no list of files as DVC writes it: {error}") from error
        for path, content in listed:
            yield _join(folder, path), self.find(path, content)


def _list_repository(files: SourceFiles, root: bytes) -> Iterator[tuple[bytes, FoundFile]]:
    """Yield all that a repository tracks, under its path there."""
    by_path = {file.path: file for file in files.list_files(root)}
    cache = _Cache(files, by_path, [_join(root, place) for place in _CACHES])
    for file in by_path.values():
        inner = file.path[len(root) :].lstrip(b"/")
        folder, _, name = inner.rpartition(b"/")
        if b".dvc" in folder.split(b"/") or not (name == b"dvc.lock" or name.endswith(b".dvc")):
            continue
        pipeline = by_path.get(_join(root, folder, b"dvc.yaml")) if name == b"dvc.lock" else None
        for path, md5, is_cached in _read_outputs(files, file, folder.decode(), pipeline):
            place = _join(root, path)
            is_in_tree = not is_cached and cache.get(md5) is None
            if is_in_tree and md5.endswith(".dir"):
                yield from ((inner.path[len(root) :].lstrip(b"/"), inner) for inner in files.list_files(place))
            elif md5.endswith(".dir"):
                yield from cache.list_folder(path, md5)
            else:
                yield path, (by_path.get(place) if is_in_tree else None) or cache.find(path, md5)


def _read_outputs(
    files: SourceFiles, file: FoundFile, folder: str, pipeline: FoundFile | None
) -> Iterator[tuple[bytes, str, bool]]:
    """Yield of each output that a file of DVC tracks its path in the repository, its MD5, and whether it is cached.

    `pipeline` is the dvc.yaml beside a dvc.lock.
    """
    for base, out, is_cached in _describe_outputs(files, file, pipeline):
        if not isinstance(out, dict) or not isinstance(out.get("path"), str):
            raise InvalidInput(f"'{show_path(file.path)}' tracks an output without a path that is text.")
        path, md5 = posixpath.normpath(posixpath.join(folder, base, out["path"])), out.get("md5")
        try:
            check_path(path.encode())
        except (BadPath, UnicodeEncodeError) as error:
            raise InvalidInput(f"'{show_path(file.path)}' tracks '{out['path']}', which is no path in it.") from error
        if not isinstance(md5, str) or not _HASH.fullmatch(md5):
            raise InvalidInput(
                f"'{show_path(file.path)}' says no MD5 of '{path}': run `dvc commit`, then import again."
            )
        yield path.encode(), md5, is_cached and out.get("cache") is not False


def _describe_outputs(files: SourceFiles, file: FoundFile, pipeline: FoundFile | None) -> list[StageOutput]:
    document = _read_yaml(files, file)
    if not file.path.endswith(b"dvc.lock"):
        outs, folder = document.get("outs"), str(document.get("wdir", ""))
        return [StageOutput(folder, out, is_cached=True) for out in (outs if isinstance(outs, list) else ())]
    try:
        return list(list_outputs(document, _read_yaml(files, pipeline) if pipeline else {}))
    except BadPath as error:
        raise InvalidInput(f"'{show_path(file.path)}' cannot be followed: {error}") from error


def _read_yaml(files: SourceFiles, file: FoundFile) -> dict[str, Any]:
    if file.why or file.target or file.size_bytes > _MOST_YAML_BYTES:
        raise InvalidInput(f"'{show_path(file.path)}' is no file, or one of more than {_MOST_YAML_BYTES:,} bytes.")
    try:
        document = read_yaml(files.read(file.path, 0, file.size_bytes))
    except UnreadableYaml as error:
        raise InvalidInput(f"'{show_path(file.path)}' is no file of DVC. {error}") from error
    return document if isinstance(document, dict) else {}


def _read_listing(data: bytes) -> list[tuple[bytes, str]]:
    listed = [(item["relpath"].encode(), item["md5"]) for item in json.loads(data)]
    for path, md5 in listed:
        check_path(path)
        if not _MD5.fullmatch(md5):
            raise ValueError(f"'{md5}' is no MD5.")
    return listed


def _join(*parts: bytes) -> bytes:
    return b"/".join(filter(None, parts))


class LookedAtEnough(Exception):
    """A source holds more than is looked at within a request."""


class FirstFiles:
    """The first files of a source, for a look within a request: neither time nor memory grow with what it holds.

    Lists at most `most_files` files in all, and reads at most `most_bytes` at once. Raises LookedAtEnough.
    """

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
