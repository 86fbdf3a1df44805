"""Names that collide are found wherever they lie, and nothing else is."""

from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.engine.collisions import find_suspects, fingerprints, names_behind
from nearline.content.hashing import EMPTY_ID
from nearline.content.manifest import Entry
from nearline.content.paths import find_collisions

names = st.sampled_from(["a", "A", "b", "é", "e\u0301", "É", "ß", "ss", "x y"])
trees = st.lists(st.lists(names, min_size=1, max_size=3).map("/".join), max_size=12).map(
    lambda found: sorted({path.encode() for path in found})
)


def entries(paths):
    return [Entry(path, 0o644, 0, 0, EMPTY_ID) for path in paths]


@given(trees, st.integers(0, 12))
@settings(max_examples=300)
def test_suspects_are_found_exactly_when_a_plain_search_finds_a_collision(paths, cut):
    ranges = [fingerprints(entries(paths[:cut])), fingerprints(entries(paths[cut:]))]

    suspects = find_suspects(ranges)

    assert bool(suspects) == any(True for _ in find_collisions(paths))


def test_a_suspect_leads_to_both_names():
    halves = [entries([b"Folder/x"]), entries([b"folder"])]

    suspects = find_suspects([fingerprints(half) for half in halves])

    names = sorted(name for index, folded in suspects for name in names_behind(halves[index], folded))
    assert names == [b"Folder/", b"folder"]


def test_no_ranges_have_no_suspects():
    assert find_suspects([]) == find_suspects([b""]) == []
