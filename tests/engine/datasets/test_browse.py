"""Listings by pages say the same as a plain walk over all paths, and read few ranges."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.engine.browse import FolderItem, Listing, NamesFound, TreeView
from datasets.engine.globs import compile_glob
from datasets.engine.range_names import join_names
from nearline.content.manifest import RootRange, encode_range, read_range
from tests.engine.content.strategies import file_entry

name = st.sampled_from([b"a", b"b", b"a.txt", b"a b", b"a0", b"z\xff", b"c-d"])
paths = st.lists(st.lists(name, min_size=1, max_size=4).map(b"/".join), max_size=60).map(set)


def make_view(files, *, per_range=3):
    entries = [file_entry(path, size=len(path)) for path in sorted(files)]
    pieces = [
        read_range(encode_range(entries[start : start + per_range])).entries
        for start in range(0, len(entries), per_range)
    ]
    root = [
        RootRange(piece[0].path, piece[-1].path, len(piece), sum(e.size for e in piece), str(index))
        for index, piece in enumerate(pieces)
    ]
    reads = Counter()

    def load(range_id):
        reads[range_id] += 1
        return pieces[int(range_id)]

    return TreeView(root, load, lambda range_id: join_names(load(range_id).paths)), reads


def without_clashes(found):
    return {path for path in found if not any(other.startswith(path + b"/") for other in found)}


def pages(call):
    items, resume_at = [], None
    while True:
        page = call(resume_at)
        items += page.items
        resume_at = page.resume_at
        if resume_at is None:
            return items


@given(paths, st.sampled_from([b"", b"a", b"a/b", b"none"]), st.integers(1, 5))
@settings(max_examples=200)
def test_the_pages_of_a_folder_are_its_children_with_the_right_totals(found, folder, limit):
    files = without_clashes(found)
    view, _ = make_view(files)
    prefix = folder + b"/" if folder else b""
    expected = {}
    for path in files:
        if path.startswith(prefix):
            child, slash, _ = path[len(prefix) :].partition(b"/")
            count, size = expected.get((child, slash), (0, 0))
            expected[child, slash] = (count + 1, size + len(path))

    items = pages(lambda resume_at: view.list_folder(folder, resume_at=resume_at, limit=limit))

    listed = {
        (item.path[len(prefix) :], b"/" if isinstance(item, FolderItem) else b""): (
            (item.files, item.size_bytes) if isinstance(item, FolderItem) else (1, item.size)
        )
        for item in items
    }
    assert listed == expected
    assert len(items) == len(expected)


@given(paths, st.sampled_from([b"**a*", b"a/**", b"a*/b", b"**/a.txt", b"b"]), st.integers(1, 5))
def test_the_pages_of_a_pattern_are_all_files_that_match(found, glob, limit):
    files = without_clashes(found)
    view, _ = make_view(files)

    items = pages(lambda resume_at: view.list_matching(compile_glob(glob), resume_at=resume_at, limit=limit))

    matches = compile_glob(glob).matches
    assert [item.path for item in items] == [path for path in sorted(files) if matches(path)]


def test_a_pattern_with_a_folder_reads_only_that_folder():
    view, reads = make_view(
        {b"%d/%04d" % (folder, number) for folder in range(9) for number in range(90)}, per_range=30
    )

    found = pages(lambda resume_at: view.list_matching(compile_glob(b"4/*5"), resume_at=resume_at, limit=100))

    assert len(found) == 9
    assert set(reads) == {"12", "13", "14"}


def test_a_page_of_matches_looks_at_a_million_files_or_matches_a_fifth_of_them():
    root = [RootRange(b"%d" % number, b"%d/z" % number, 100_000, 0, str(number)) for number in range(10, 30)]
    rare = TreeView(root, None, lambda range_id: join_names([b"nothing"]))
    frequent = TreeView(
        root, None, lambda range_id: join_names([b"%s/a-%d" % (range_id.encode(), n) for n in range(20_000)])
    )

    assert rare.list_matching(compile_glob(b"**/a?"), resume_at=None, limit=9) == Listing([], b"20")
    assert frequent.list_matching(compile_glob(b"**a-*?b"), resume_at=None, limit=9) == Listing([], b"15")


@given(paths)
def test_every_file_is_found_and_nothing_else(found):
    files = without_clashes(found)
    view, _ = make_view(files)

    assert {path for path in found | {b"none", b"a/none"} if view.find(path)} == files


def test_a_large_folder_is_summed_up_without_reading_it():
    files = {b"big/%04d" % number for number in range(900)} | {b"a", b"z"}
    view, reads = make_view(files)

    items = view.list_folder(b"", resume_at=None, limit=10).items

    assert [(item.path, getattr(item, "files", 1)) for item in items] == [(b"a", 1), (b"big", 900), (b"z", 1)]
    assert len(reads) == 2


def test_a_folder_is_there_when_something_lies_in_it():
    view, _ = make_view({b"a/b/c", b"d"})

    assert [view.has_folder(path) for path in (b"", b"a", b"a/b", b"a/b/c", b"d", b"x")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]


def test_the_empty_tree_has_its_top_folder_and_nothing_in_it():
    view, _ = make_view(set())

    assert view.has_folder(b"")
    assert view.list_folder(b"", resume_at=None, limit=5).items == []


def test_names_are_found_in_any_case_and_what_was_not_looked_at_is_told():
    view, reads = make_view([b"0/a", b"0/b", b"1/A", b"1/b", b"2/a", b"2/b"], per_range=2)

    assert view.find_names(b"A", limit=9, most_files=99) == NamesFound([b"0/a", b"1/A", b"2/a"], 6, is_complete=True)
    assert view.find_names(b"a", limit=9, most_files=3) == NamesFound([b"0/a", b"1/A"], 4, is_complete=False)
    assert view.find_names(b"/", limit=3, most_files=99) == NamesFound([b"0/a", b"0/b", b"1/A"], 4, is_complete=False)
    assert reads == {"0": 3, "1": 3, "2": 1}
