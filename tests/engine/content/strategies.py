"""Trees, entries and paths as hypothesis draws them."""

from hypothesis import strategies as st

from nearline.content.entries import BlobRef, Entry, EntryKind, check_target, new_symlink
from nearline.content.errors import BadPath
from nearline.content.hashing import EMPTY_ID
from nearline.content.packs import MAX_BLOB_BYTES
from nearline.content.paths import check_path, find_clashes


def is_carried(path):
    try:
        check_path(path)
    except BadPath:
        return False
    return True


IDS = st.binary(min_size=32, max_size=32)
COMPONENTS = st.one_of(
    st.sampled_from([b"a", b"b", b"a b", b"a-b", b"A", b"img+1.png", b"line\nbreak", b"\xff\xfe", "\u00e9".encode()]),
    st.binary(min_size=1, max_size=6),
)
PATHS = st.lists(COMPONENTS, min_size=1, max_size=3).map(b"/".join).filter(is_carried)
TIMES = st.integers(-(1 << 63), (1 << 63) - 1)
MODES = st.integers(0, 0o777)


def is_inside(path, target):
    try:
        check_target(path, target)
    except BadPath:
        return False
    return True


@st.composite
def blobs(draw):
    size = draw(st.integers(1, MAX_BLOB_BYTES))
    return BlobRef(
        draw(IDS), draw(st.sampled_from([b"p" * 32, b"q" * 32, b"r" * 32])), draw(st.integers(0, 1 << 24)), size
    )


@st.composite
def entries_at(draw, path):
    mode, mtime_ns = draw(MODES), draw(TIMES)
    shape = draw(st.sampled_from(["empty", "one", "chunks", "link"]))
    if shape == "empty":
        return Entry(path, mode, 0, mtime_ns, EMPTY_ID)
    if shape == "one":
        blob = draw(blobs())
        return Entry(path, mode, blob.size, mtime_ns, blob.content_id, EntryKind.FILE, (blob,))
    if shape == "chunks":
        several = tuple(draw(st.lists(blobs(), min_size=2, max_size=4)))
        return Entry(path, mode, sum(blob.size for blob in several), mtime_ns, draw(IDS), EntryKind.FILE, several)
    target = draw(st.sampled_from([b"x", b"./y", b"../z", b"x/y"]).filter(lambda target: is_inside(path, target)))
    return new_symlink(path, target, mtime_ns)


@st.composite
def trees(draw, max_size=12):
    """Draw the sorted entries of a legal tree."""
    names = sorted(draw(st.sets(PATHS, max_size=max_size)))
    clashing = {clash.names[1] for clash in find_clashes(names)}
    return [draw(entries_at(name)) for name in names if name not in clashing]


def file_entry(path, content_id=b"c" * 32, *, size=10, mode=0o644, mtime_ns=0, pack=b"p" * 32, offset=0):
    blob = BlobRef(content_id, pack, offset, size)
    return Entry(path, mode, size, mtime_ns, content_id, EntryKind.FILE, (blob,))
