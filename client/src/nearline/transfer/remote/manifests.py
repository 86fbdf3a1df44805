"""Roots and ranges by id: from the workspace where they were kept, else from the store; always verified."""

import contextlib
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType

from nearline.content.errors import BadManifest, ContentError
from nearline.content.manifest import RangeEntries, RootRange, build_range, decode_root, load_range, peek_ids, root_id
from nearline.content.retry import RetryPolicy
from nearline.transfer.remote.objects import ObjectReader
from nearline.transfer.remote.retry import transfer_policy
from nearline.transfer.remote.server import ObjectKind, Storage

_DECODED = 4
_FETCHES = 4
# Beside a range that lies in the store as a delta: the id of the range that it is based on.
_BASE = ".base"
_ID = re.compile("[0-9a-f]{64}")


class Manifests:
    """The manifests of one dataset. `folder` keeps them between commands; without one they are kept in memory.

    Ranges are kept whole, and with each that the store has as a delta its base, which the next delta is made of.
    """

    def __init__(self, server: Storage, folder: Path | None = None, *, policy: RetryPolicy | None = None) -> None:
        self._server = server
        self._folder = folder
        self._policy = policy or transfer_policy()
        self._memory: dict[str, bytes] = {}
        self._bases: dict[str, str] = {}
        self._decoded: OrderedDict[str, RangeEntries] = OrderedDict()

    def load_root(self, root: str | None) -> list[RootRange]:
        """Return the ranges of a tree; None is the empty tree. Raises BadManifest for what is no id.

        Ids become names of files here, and a root's comes as text, from the server or from a file of the workspace.
        """
        if root is None:
            return []
        if not _ID.fullmatch(root):
            raise BadManifest(f"'{root[:64]}' is not the id of a root.")
        copy = self._find(root)
        if copy is not None:
            try:
                return check_root(root, copy)
            except ContentError:
                self._drop(root)
        reader = ObjectReader(self._server, self._policy)
        data = reader.read((ObjectKind.ROOT, root), lambda view: _check_root_bytes(root, bytes(view)))
        self._keep(root, data)
        return check_root(root, data)

    def load_range(self, range_id: str) -> RangeEntries:
        """Return the entries of a range; the last few stay decoded."""
        if range_id in self._decoded:
            self._decoded.move_to_end(range_id)
            return self._decoded[range_id]
        entries = self._load(range_id)
        self._decoded[range_id] = entries
        if len(self._decoded) > _DECODED:
            self._decoded.popitem(last=False)
        return entries

    def peek_ids(self, range_id: str) -> bytes:
        """Return the ids of all contents that a range names, unchecked and quickly."""
        copy = self._find(range_id)
        if copy is not None:
            with contextlib.suppress(ContentError):
                return peek_ids(copy)
            self._drop(range_id)
        entries = self.load_range(range_id)
        return entries.content_ids + entries.columns.chunk_ids

    def fetch_ahead(self, ranges: Iterable[RootRange]) -> None:
        """Fetch those ranges that are not here, several at once."""
        missing = [row.range_id for row in ranges if not self._has(row.range_id)]
        if not missing:
            return
        reader = ObjectReader(self._server, self._policy)
        reader.announce([(ObjectKind.RANGE, range_id) for range_id in missing])

        def fetch(range_id: str) -> None:
            self._fetch(reader, range_id)

        with ThreadPoolExecutor(_FETCHES, thread_name_prefix="manifests") as pool:
            list(pool.map(fetch, missing))

    def keep(self, objects: Mapping[str, bytes], bases: Mapping[str, str] = MappingProxyType({})) -> None:
        """Keep manifests that were just made; `bases` are those of ranges that the store has as deltas."""
        for name, data in objects.items():
            self._keep(name, data, bases.get(name))

    def keep_only(self, roots: Iterable[str]) -> None:
        """Drop from the folder all that is not part of these trees."""
        if self._folder is None:
            return
        live_roots = set(roots)
        for root in list(live_roots):
            live_roots.update(row.range_id for row in self.load_root(root))
        live_roots.update(base for base in map(self._find_base, list(live_roots)) if base)
        for path in self._folder.iterdir():
            if path.name.removesuffix(_BASE) not in live_roots:
                path.unlink(missing_ok=True)

    def _load(self, range_id: str) -> RangeEntries:
        return self._load_kept(range_id) or self._fetch(ObjectReader(self._server, self._policy), range_id)

    def _load_kept(self, range_id: str) -> RangeEntries | None:
        copy = self._find(range_id)
        if copy is None:
            return None
        try:
            # It was checked when it came here, or made here: its id says that it still is what it was then.
            entries = load_range(range_id, lambda _: copy, is_verified=True, most_deltas=0)
        except ContentError:
            self._drop(range_id)
            return None
        entries.base_id = self._find_base(range_id)
        return entries

    def _fetch(self, reader: ObjectReader, range_id: str) -> RangeEntries:
        def keep(name: str, entries: RangeEntries, data: bytes) -> None:
            self._keep(name, data if entries.base_id is None else build_range(entries).data, entries.base_id)

        return reader.load_range(range_id, find=self._load_kept, keep=keep)

    def _find(self, name: str) -> bytes | None:
        if self._folder is None:
            return self._memory.get(name)
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def _has(self, name: str) -> bool:
        return name in self._memory if self._folder is None else (self._folder / name).exists()

    def _find_base(self, name: str) -> str | None:
        if self._folder is None:
            return self._bases.get(name)
        with contextlib.suppress(FileNotFoundError):
            base = (self._folder / f"{name}{_BASE}").read_text(errors="replace")
            return base if _ID.fullmatch(base) else None
        return None

    def _keep(self, name: str, data: bytes, base: str | None = None) -> None:
        if self._folder is None:
            self._memory[name] = data
            self._bases.update({name: base} if base else {})
            return
        # Not flushed to the disk: what is damaged after a power cut is noticed by its hash and fetched again.
        if base:
            (self._folder / f"{name}{_BASE}").write_text(base)
        temporary = self._folder / f"{name}.new"
        temporary.write_bytes(data)
        temporary.replace(self._folder / name)

    def _drop(self, name: str) -> None:
        if self._folder is None:
            self._memory.pop(name, None)
            self._bases.pop(name, None)
        else:
            (self._folder / name).unlink(missing_ok=True)
            (self._folder / f"{name}{_BASE}").unlink(missing_ok=True)


def check_root(root: str, data: bytes) -> list[RootRange]:
    """Return the ranges that a root lists after checking its id. Raises ContentError."""
    if root_id(data) != root:
        raise BadManifest(f"These bytes are not the root {root[:12]}.")
    return decode_root(data)


def _check_root_bytes(root: str, data: bytes) -> bytes:
    check_root(root, data)
    return data
