"""Which packs of a dataset are damaged in the store, and which files of a commit lie in them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from accounts.permissions import Actor, require
from datasets import permissions
from datasets.adapters.scoped import ScopedStore
from datasets.engine.layout import pack_key
from datasets.errors import BlobMissing, ContentCorrupt
from datasets.models import Commit, Dataset, ManifestRange, Pack, PackState
from datasets.selectors.trees import TreeReader
from nearline.content.errors import BadPack
from nearline.content.hashing import file_id, sha256_hex
from nearline.content.manifest import BlobRef
from nearline.content.packs import read_footer
from nearline.content.paths import show_path

_SHOWN = 5


@dataclass(frozen=True)
class Damage:
    """Damaged packs of a dataset, and the paths of the files of one commit that need them, sorted."""

    packs: Sequence[Pack]
    files: Sequence[bytes] = ()

    @property
    def is_in_source(self) -> bool:
        """Whether all of them were imported in place, and their files have changed where they lie."""
        return all(pack.origin_id is not None for pack in self.packs)

    @property
    def shown(self) -> Sequence[str]:
        """The first few files, for people."""
        return [show_path(path) for path in self.files[:_SHOWN]]

    @property
    def unshown(self) -> int:
        """How many files there are besides."""
        return max(0, len(self.files) - _SHOWN)


def get_damage(actor: Actor, dataset: Dataset, commit: Commit | None) -> Damage:
    """Return what is damaged; the files are those of `commit`, none without one."""
    require(actor, permissions.VIEW, dataset.project_id)
    packs = list(Pack.objects.filter(dataset=dataset, state=PackState.DAMAGED).order_by("sha256"))
    if not packs or commit is None:
        return Damage(packs)
    ids = ManifestRange.objects.filter(dataset=dataset, packs__in=packs).values_list("range_id", flat=True)
    suspects, damaged = set(ids), {bytes.fromhex(pack.sha256): pack.damaged_parts for pack in packs}
    reader = TreeReader(dataset)
    files = [
        entry.path
        for row in reader.read_root(commit.root)
        if row.range_id in suspects
        for entry in reader.load_range(row.range_id)
        if any(overlaps(blob, damaged.get(blob.pack, ())) for blob in entry.blobs)
    ]
    return Damage(packs, files)


def find_damaged_parts(store: ScopedStore, name: str, size_bytes: int) -> list[tuple[int, int]]:
    """Return the damaged parts of a pack; none when it is whole, all where its index cannot tell. For the platform."""
    everything = [(0, size_bytes)]
    mapped = store.find_mapped(pack_key(name))
    try:
        if mapped is not None and (changes := mapped.find_changes(pack_key(name))) is not None:
            return [(change.offset, change.size) for change in changes]
        data = store.get(pack_key(name))
    except (BlobMissing, ContentCorrupt):
        return everything
    if sha256_hex(data) == name:
        return []
    view = memoryview(data)
    try:
        blobs = read_footer(data)
    except BadPack:
        return everything
    parts = [
        (blob.offset, blob.size)
        for blob in blobs
        if file_id(view[blob.offset : blob.offset + blob.size]) != blob.content_id
    ]
    return parts or everything


def overlaps(blob: BlobRef, parts: Iterable[tuple[int, int]]) -> bool:
    """Say whether one of the damaged parts of its pack touches a blob."""
    return any(first < blob.offset + blob.size and blob.offset < first + length for first, length in parts)
