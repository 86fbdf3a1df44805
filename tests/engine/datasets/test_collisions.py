"""Names that collide are found wherever they lie, and nothing else is."""

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from datasets.engine.range_names import find_known, find_suspects, fingerprints, paths_behind
from nearline.content.hashing import EMPTY_ID
from nearline.content.manifest import Entry
from nearline.content.paths import find_collisions, has_clash

names = st.sampled_from(["a", "A", "b", "é", "e\u0301", "É", "ß", "ss", "x y"])
trees = st.lists(st.lists(names, min_size=1, max_size=3).map("/".join), max_size=12).map(
    lambda found: sorted({path.encode() for path in found})
)


def entries(paths):
    return [Entry(path, 0o644, 0, 0, EMPTY_ID) for path in paths]


def found_by_ranges(halves, before=()):
    hashes, is_complete = find_suspects([fingerprints(entries(half)) for half in halves], before)
    assert is_complete
    suspects = {path for index, some in hashes.items() for path in paths_behind(entries(halves[index]), some)}
    return list(find_collisions(sorted(suspects)))


@given(trees, st.integers(0, 12))
@settings(max_examples=300)
def test_ranges_lead_to_exactly_the_collisions_that_a_plain_search_finds(paths, cut):
    assert found_by_ranges([paths[:cut], paths[cut:]]) == list(find_collisions(paths))


@given(trees, trees)
@settings(max_examples=300)
def test_every_collision_with_a_new_name_is_found(before, added):
    assume(not has_clash(before))
    ranges = [fingerprints(entries(before))]
    paths = sorted({*before, *added})

    def new(collisions):
        return [c for c in collisions if c.kind == "clash" or not find_known(c.names, ranges).issuperset(c.names)]

    assert new(found_by_ranges([paths], ranges)) == new(find_collisions(paths))


def test_a_name_is_known_as_a_file_and_as_a_folder():
    before = [fingerprints(entries([b"a/b"]))]

    assert find_known({b"a", b"a/b", b"b"}, before) == {b"a", b"a/b"}


def test_no_ranges_have_no_suspects():
    assert find_suspects([]) == find_suspects([b""]) == ({}, True)
