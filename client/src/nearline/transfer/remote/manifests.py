"""Roots and ranges by id: from the workspace where they were kept, else from the store; always verified."""

import contextlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from nearline.content.errors import BadManifest, ContentError
from nearline.content.manifest import RangeEntries, RootRange, decode_root, peek_ids, read_range, root_id
from nearline.content.retry import RetryPolicy
from nearline.transfer.remote.objects import ObjectReader
from nearline.transfer.remote.retry import transfer_policy
from nearline.transfer.remote.server import ObjectKind, Storage

_DECODED = 4
_FETCHES = 4


class Manifests:
    """The manifests of one dataset. `folder` keeps them between commands; without one they are kept in memory."""

    def __init__(self, server: Storage, folder: Path | None = None, *, policy: RetryPolicy | None = None) -> None:
        self._server = server
        self._folder = folder
        self._policy = policy or transfer_policy()
        self._memory: dict[str, bytes] = {}
        self._decoded: OrderedDict[str, RangeEntries] = OrderedDict()

    def load_root(self, root: str | None) -> list[RootRange]:
        """Return the ranges of a tree; None is the empty tree."""
        if root is None:
            return []
        kept = self._find(root)
        if kept is not None:
            try:
                return check_root(root, kept)
            except ContentError:
                self._drop(root)
        data = self._fetch(ObjectKind.ROOT, [root])[root]
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
        kept = self._find(range_id)
        if kept is not None:
            with contextlib.suppress(ContentError):
                return peek_ids(kept)
            self._drop(range_id)
        return peek_ids(self._fetch(ObjectKind.RANGE, [range_id])[range_id])

    def fetch_ahead(self, ranges: Iterable[RootRange]) -> None:
        """Fetch those ranges that are not here, several at once."""
        missing = [row.range_id for row in ranges if not self._has(row.range_id)]
        if missing:
            self._fetch(ObjectKind.RANGE, missing)

    def keep(self, objects: Mapping[str, bytes]) -> None:
        """Keep manifests that were just made."""
        for name, data in objects.items():
            self._keep(name, data)

    def keep_only(self, roots: Iterable[str]) -> None:
        """Drop from the folder all that is not part of these trees."""
        if self._folder is None:
            return
        wanted = set(roots)
        for root in list(wanted):
            wanted.update(row.range_id for row in self.load_root(root))
        for path in self._folder.iterdir():
            if path.name not in wanted:
                path.unlink(missing_ok=True)

    def _load(self, range_id: str) -> RangeEntries:
        kept = self._find(range_id)
        if kept is not None:
            try:
                # It was checked when it came here, or made here: its id says that it still is what it was then.
                return _check_range(range_id, kept, is_verified=True)
            except ContentError:
                self._drop(range_id)
        return _check_range(range_id, self._fetch(ObjectKind.RANGE, [range_id])[range_id])

    def _fetch(self, kind: ObjectKind, names: Sequence[str]) -> dict[str, bytes]:
        reader = ObjectReader(self._server, self._policy)
        reader.announce([(kind, name) for name in names])

        def fetch(name: str) -> bytes:
            def check(view: memoryview) -> bytes:
                data = bytes(view)
                if kind is ObjectKind.ROOT:
                    check_root(name, data)
                else:
                    _check_range(name, data)
                return data

            data = reader.read((kind, name), check)
            self._keep(name, data)
            return data

        if len(names) == 1:
            return {names[0]: fetch(names[0])}
        with ThreadPoolExecutor(_FETCHES, thread_name_prefix="manifests") as pool:
            return dict(zip(names, pool.map(fetch, names), strict=True))

    def _find(self, name: str) -> bytes | None:
        if self._folder is None:
            return self._memory.get(name)
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def _has(self, name: str) -> bool:
        return name in self._memory if self._folder is None else (self._folder / name).exists()

    def _keep(self, name: str, data: bytes) -> None:
        if self._folder is None:
            self._memory[name] = data
            return
        # Not flushed to the disk: what is damaged after a power cut is noticed by its hash and fetched again.
        temporary = self._folder / f"{name}.new"
        temporary.write_bytes(data)
        temporary.replace(self._folder / name)

    def _drop(self, name: str) -> None:
        if self._folder is None:
            self._memory.pop(name, None)
        else:
            (self._folder / name).unlink(missing_ok=True)


def check_root(root: str, data: bytes) -> list[RootRange]:
    """Return the ranges that a root lists after checking its id. Raises ContentError."""
    if root_id(data) != root:
        raise BadManifest(f"These bytes are not the root {root[:12]}.")
    return decode_root(data)


def _check_range(range_id: str, data: bytes, *, is_verified: bool = False) -> RangeEntries:
    found = read_range(data, is_verified=is_verified)
    if found.range_id != range_id:
        raise BadManifest(f"These bytes are not the range {range_id[:12]}.")
    return found.entries
