"""Patterns mean what people who write .gitignore files expect."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets.engine.globs import compile_glob


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        (b"*.png", b"a.png", True),
        (b"*.png", b"x/a.png", False),
        (b"**/*.png", b"a.png", True),
        (b"**/*.png", b"x/y/a.png", True),
        (b"x/**", b"x/y/z", True),
        (b"x/**", b"x", False),
        (b"x/**/z", b"x/z", True),
        (b"x/**/z", b"x/y/y/z", True),
        (b"**", b"a/b", True),
        (b"?.txt", b"a.txt", True),
        (b"?.txt", b"/.txt", False),
        (b"[ab].txt", b"b.txt", True),
        (b"[!ab].txt", b"b.txt", False),
        (b"[!ab].txt", b"c.txt", True),
        (b"[!a]b", b"/b", False),
        (b"[a-c]", b"b", True),
        (b"[]]", b"]", True),
        (b"[", b"[", True),
        (b"a.b", b"axb", False),
        (b"a+b (1)", b"a+b (1)", True),
        (b"*", b"na\nme", True),
        (b"*", b"\xff", True),
        (b"[z-a]", b"[z-a]", True),
    ],
)
def test_pattern(pattern, path, matches):
    assert compile_glob(pattern).matches(path) == matches


@given(st.binary(max_size=20))
def test_any_text_is_a_pattern(pattern):
    compile_glob(pattern)


@given(st.binary(min_size=1, max_size=20).filter(lambda text: not set(b"*?[") & set(text)))
def test_a_text_without_wildcards_matches_itself_alone(text):
    assert compile_glob(text).matches(text)
    assert not compile_glob(text).matches(text + b"x")


@given(
    st.lists(st.sampled_from([b"a", b"b/", b"*", b"**/", b"?", b"[ab]"]), max_size=5).map(b"".join),
    st.lists(st.sampled_from([b"a", b"b/", b"\xff"]), max_size=6).map(b"".join),
)
def test_what_matches_lies_within_the_bounds_of_the_pattern(pattern, path):
    glob = compile_glob(pattern)

    if glob.matches(path):
        assert path.startswith(glob.prefix)
        assert glob.prefix <= path < glob.end
        assert glob.part in path


@pytest.mark.parametrize(
    ("pattern", "prefix"), [(b"a/b/*.png", b"a/b/"), (b"**/x", b""), (b"a/b", b"a/b"), (b"a[bc]", b"a")]
)
def test_the_prefix_is_all_before_the_first_wildcard(pattern, prefix):
    assert compile_glob(pattern).prefix == prefix


@pytest.mark.parametrize(
    ("pattern", "part"),
    [
        (b"**/*_001.png", b"_001.png"),
        (b"a*bc?d", b"bc"),
        (b"[ab]", b""),
        (b"**/", b""),
        (b"\xffa*", b"\xffa"),
        (b"a[", b"a["),
    ],
)
def test_the_part_is_the_longest_text_without_a_wildcard(pattern, part):
    assert compile_glob(pattern).part == part
