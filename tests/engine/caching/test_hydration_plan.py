"""Where each file comes from: what a base has is shared, under any name; the rest is read."""

from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.engine import hydration_plan
from datasets.engine.hydration_plan import plan_from_base, plan_full, rank_bases
from nearline.content.hashing import file_id
from nearline.content.manifest import BlobRef, Entry, build_tree, new_symlink, read_range


def file(path, content, mode=0o644):
    data = content.encode()
    blobs = (BlobRef(file_id(data), bytes(32), 0, len(data)),) if data else ()
    return Entry(path.encode(), mode, len(data), 0, file_id(data), blobs=blobs)


def tree_of(entries):
    return build_tree(sorted(entries))


def plan(base, wanted):
    trees = {"base": tree_of(base), "wanted": tree_of(wanted)}
    objects = {**trees["base"].objects, **trees["wanted"].objects}
    return plan_from_base(
        trees["wanted"].ranges,
        base_id="base",
        base_ranges=trees["base"].ranges,
        load_range=lambda id_: read_range(objects[id_]).entries,
    )


def test_without_a_base_everything_is_read():
    full = plan_full(tree_of([file("a", "12"), file("b", "345")]).ranges)

    assert (full.base_id, full.files, full.write_bytes, full.shared_bytes) == (None, 2, 5, 0)
    assert full.find_in_base(file("a", "12")) is None


def test_an_edit_an_addition_and_a_removal_cost_what_they_weigh():
    made = plan(
        [file("a", "12"), file("b", "345"), file("gone", "9")], [file("a", "12"), file("b", "6789"), file("new", "1")]
    )

    assert (made.write_bytes, made.shared_bytes, made.files) == (5, 2, 3)
    assert made.find_in_base(file("a", "12")) == b"a"
    assert made.find_in_base(file("b", "6789")) is None


def test_a_renamed_file_is_found_under_its_old_name():
    made = plan([file("old", "same")], [file("new", "same")])

    assert (made.write_bytes, made.find_in_base(file("new", "same"))) == (0, b"old")


def test_a_file_that_became_executable_is_another_file():
    assert plan([file("run", "echo")], [file("run", "echo", 0o755)]).write_bytes == 4


def test_links_and_empty_files_are_made_anew():
    entries = [file("empty", ""), new_symlink(b"link", b"empty", 0)]
    made = plan(entries, entries)

    assert [made.find_in_base(entry) for entry in entries] == [None, None]


def test_bases_are_ranked_by_whole_ranges_in_common_and_the_newest_among_equals():
    one = tree_of([file("a", "1")]).ranges
    other = tree_of([file("a", "2")]).ranges

    assert rank_bases(one, {"c1": other, "c2": one, "c3": other}) == ["c2", "c3", "c1"]


trees = st.dictionaries(
    st.sampled_from([f"{folder}/{name}" for folder in "abc" for name in range(6)]),
    st.tuples(st.text("xyz", max_size=3), st.sampled_from([0o644, 0o755])),
    min_size=1,
).map(lambda found: [file(path, content, mode) for path, (content, mode) in found.items()])


@settings(max_examples=200)
@given(trees, trees)
def test_what_a_plan_shares_is_in_the_base_exactly_and_the_sums_are_right(base, wanted):
    made = plan(base, wanted)

    in_base = {entry.path: entry for entry in base}
    shared = 0
    for entry in wanted:
        source = made.find_in_base(entry)
        if source is not None:
            assert in_base[source].identity == entry.identity
            shared += entry.size
        elif hydration_plan.is_shareable(entry):
            assert entry.identity not in {other.identity for other in base if other.path == entry.path}
    assert (made.shared_bytes, made.shared_bytes + made.write_bytes) == (shared, sum(e.size for e in wanted))
