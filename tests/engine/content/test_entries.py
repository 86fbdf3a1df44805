"""A link is carried when it provably stays inside the tree; a time that 64 bits do not hold, as the nearest one."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearline.content.entries import carried_ns, check_target
from nearline.content.errors import BadPath

IN_1601 = -11_644_473_600 * 10**9
IN_2446 = 15_032_385_535 * 10**9


@pytest.mark.parametrize(
    ("path", "target"), [(b"a", b"b"), (b"a", b"."), (b"d/a", b"../b"), (b"d/e/a", b"../../b/c"), (b"d/a", b"..")]
)
def test_a_relative_target_inside_the_tree_is_carried(path, target):
    check_target(path, target)


@pytest.mark.parametrize(
    ("path", "target"),
    [
        (b"a", b""),
        (b"a", b"/etc/passwd"),
        (b"a", b".."),
        (b"d/a", b"../../b"),
        (b"d/a", b"x/../y"),
        (b"d/a", b"../x/.."),
        (b"a", b"b\0c"),
        (b"a", b"x" * 4097),
    ],
)
def test_any_other_target_is_refused_with_the_name_of_the_link(path, target):
    with pytest.raises(BadPath) as refusal:
        check_target(path, target)

    assert refusal.value.path == path


_COMPONENT = st.sampled_from([b"a", b"b", b"..", b"."])
_LINKS = st.dictionaries(
    st.lists(st.sampled_from([b"a", b"b"]), min_size=1, max_size=3).map(b"/".join),
    st.lists(_COMPONENT, min_size=1, max_size=5).map(b"/".join),
    max_size=5,
)


@settings(max_examples=60)
@given(_LINKS)
def test_no_set_of_accepted_links_leads_out_of_the_tree(tmp_path_factory, links):
    tree = os.fsencode(os.path.realpath(tmp_path_factory.mktemp("tree")))

    for path, target in links.items():
        try:
            check_target(path, target)
        except BadPath:
            continue
        place = os.path.join(tree, path)
        if os.path.realpath(os.path.dirname(place)) != os.path.dirname(place):
            continue  # below another link, where no manifest can put it
        try:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.symlink(target, place)
        except OSError:
            continue  # a name is needed as a folder and as a link: no manifest lists both

    for folder, _, files in os.walk(tree):
        for name in [*files, *os.listdir(folder)]:
            resolved = os.path.realpath(os.path.join(folder, name))
            assert resolved == tree or resolved.startswith(tree + b"/")


@pytest.mark.parametrize(("mtime_ns", "carried"), [(5, 5), (-5, -5), (IN_1601, -(1 << 63)), (IN_2446, (1 << 63) - 1)])
def test_a_time_beyond_64_bits_is_the_nearest_one(mtime_ns, carried):
    assert carried_ns(mtime_ns) == carried
