"""Names are carried exactly or refused with their reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearline.content import paths
from nearline.content.errors import BadPath
from tests.engine.content.strategies import PATHS


@pytest.mark.parametrize(
    "path",
    [
        b"a",
        b"a/b",
        b" ",
        b"a b/+1.png",
        b"new\nline",
        b"\xff\xfe",
        b"..a",
        b"a..",
        b"...",
        b"x" * 255,
        b".nearlineignore",
        b"/".join([b"x"] * 256),
    ],
)
def test_a_legal_name_is_accepted_as_it_is(path):
    paths.check_path(path)
    paths.check_paths([path])


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (b"", "is an empty path"),
        (b"/etc/passwd", "is an absolute path"),
        (b"../up", "contains the component '..'"),
        (b"a/../b", "contains the component '..'"),
        (b"a/..", "contains the component '..'"),
        (b"./a", "contains the component '.'"),
        (b"a//b", "contains the component ''"),
        (b"a/", "contains the component ''"),
        (b"a\0b", "contains a NUL byte"),
        (b"x" * 256, "contains a component longer than 255 bytes"),
        (b"/".join([b"x"] * 257), "has more than 256 components"),
        (b"/".join([b"x" * 200] * 21), "is longer than 4096 bytes"),
        (b".nearline/config.json", "lies in a '.nearline' folder, which is reserved for the workspace itself"),
        (b"sub/.NEARLINE/x", "lies in a '.nearline' folder, which is reserved for the workspace itself"),
    ],
)
def test_an_illegal_name_is_refused_with_its_reason(path, why):
    with pytest.raises(BadPath) as refusal:
        paths.check_path(path)

    assert refusal.value.why == why
    with pytest.raises(BadPath):
        paths.check_paths([b"fine", path, b"also fine"])


@given(st.lists(st.binary(max_size=8), max_size=4).map(b"/".join))
def test_checking_many_paths_at_once_refuses_exactly_what_checking_each_refuses(path):
    def is_refused(check, argument):
        try:
            check(argument)
        except BadPath:
            return True
        return False

    assert is_refused(paths.check_paths, [b"before", path]) == is_refused(paths.check_path, path)


@given(st.binary())
def test_any_bytes_survive_the_way_through_text(path):
    assert paths.to_bytes(paths.to_text(path)) == path


def test_names_that_fold_together_are_found_as_groups_and_folders_once():
    cafes = ("cafe\u0301".encode(), "caf\u00e9".encode())
    names = sorted([b"A/x", b"A/y", b"a/x", b"a/y", b"Readme", b"README", b"readme", *cafes, b"other"])

    assert list(paths.find_collisions(names)) == [
        ((b"A", b"a"), "fold"),
        ((b"README", b"Readme", b"readme"), "fold"),
        (cafes, "fold"),
    ]


def test_names_that_collide_inside_a_folder_that_collides_are_found_too():
    assert list(paths.find_collisions([b"A/x", b"a/X", b"a/x"])) == [((b"A", b"a"), "fold"), ((b"a/X", b"a/x"), "fold")]


def test_a_file_that_is_also_a_folder_is_found_across_the_names_between():
    assert list(paths.find_clashes([b"a", b"a-b", b"a.txt", b"a/b/c", b"ab"])) == [((b"a", b"a/b/c"), "clash")]


@given(st.lists(PATHS, unique=True, max_size=12).map(sorted))
def test_clashes_are_exactly_the_pairs_of_a_file_and_a_path_below_it(names):
    expected = {(a, b) for a in names for b in names if b.startswith(a + b"/")}

    assert {c.names for c in paths.find_clashes(names)} == expected
    assert paths.has_clash(names) == bool(expected)
