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
    assert (compile_glob(pattern).fullmatch(path) is not None) == matches


@given(st.binary(max_size=20))
def test_any_text_is_a_pattern(pattern):
    compile_glob(pattern)


@given(st.binary(min_size=1, max_size=20).filter(lambda text: not set(b"*?[") & set(text)))
def test_a_text_without_wildcards_matches_itself_alone(text):
    assert compile_glob(text).fullmatch(text)
    assert not compile_glob(text).fullmatch(text + b"x")
