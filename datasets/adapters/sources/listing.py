"""What an import in place takes of a source: a folder as it is, or the files of a DVC cache that a listing names."""

import hashlib
import json
import re
from collections.abc import Iterator

from core.errors import InvalidInput
from datasets.engine.ports import SourceFiles
from datasets.errors import SourceFileMissing
from nearline.content.errors import BadPath
from nearline.content.mapping import FoundFile
from nearline.content.paths import check_path

_DVC_LISTING = re.compile(rb"(?:(?P<cache>.+)/)?(?P<first>[0-9a-f]{2})/(?P<rest>[0-9a-f]{30})\.dir")
_MD5 = re.compile(r"[0-9a-f]{32}")
_MOST_LISTING_BYTES = 512 << 20


def list_import(files: SourceFiles, prefix: bytes) -> Iterator[tuple[bytes, FoundFile]]:
    """Yield what lies at a prefix, each with its path below the folder that it becomes.

    A prefix that names a listing of DVC (`files/md5/ab/cd….dir`) stands for the files that it lists. Raises what the
    source raises, InvalidInput for what is no listing, and SourceFileMissing where the cache lacks a file of it.
    """
    if match := _DVC_LISTING.fullmatch(prefix):
        yield from _list_cached(files, prefix, match["cache"] or b"", (match["first"] + match["rest"]).decode())
        return
    for file in files.list_files(prefix):
        yield file.path[len(prefix) :].lstrip(b"/"), file


def _list_cached(files: SourceFiles, prefix: bytes, cache: bytes, md5: str) -> Iterator[tuple[bytes, FoundFile]]:
    data = files.read(prefix, 0, _MOST_LISTING_BYTES)
    if hashlib.md5(data, usedforsecurity=False).hexdigest() != md5:
        raise InvalidInput(f"'{prefix.decode()}' is damaged: it is not what its name says.")
    try:
        listed = _read_listing(data)
    except (BadPath, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidInput(f"'{prefix.decode()}' is no list of files as DVC writes it: {error}") from error
    found = {file.path: file for file in files.list_files(cache)}
    for path, content in listed:
        place = b"/".join(part for part in (cache, content[:2].encode(), content[2:].encode()) if part)
        file = found.get(place)
        if file is None or file.why or file.target:
            raise SourceFileMissing(
                f"'{path.decode()}' is not in the cache of DVC: run `dvc fetch`, then import again.", path=path.decode()
            )
        yield path, file


def _read_listing(data: bytes) -> list[tuple[bytes, str]]:
    listed = [(item["relpath"].encode(), item["md5"]) for item in json.loads(data)]
    for path, md5 in listed:
        check_path(path)
        if not _MD5.fullmatch(md5):
            raise ValueError(f"'{md5}' is no MD5.")
    return listed
