from hypothesis import given
from hypothesis import strategies as st

from compute.engine.log_index import build_index, may_hold

LINES = "".join(f"step {number}: loss {1 / (number + 1):.6f}\n" for number in range(2000)).encode()


@given(st.integers(0, len(LINES) - 1), st.integers(1, 200))
def test_what_is_in_a_text_is_never_ruled_out(start, length):
    assert may_hold(build_index(LINES), LINES[start : start + length])


def test_what_is_not_in_a_text_is_ruled_out():
    index = build_index(LINES)

    assert not may_hold(index, b"traceback")
    assert not may_hold(index, b"step x")


def test_a_text_of_any_length_has_an_index_of_bounded_size():
    assert len(build_index(LINES)) < 8192 + 64
    assert len(build_index(bytes(range(256)) * 20_000)) < 8192 + 64


def test_less_than_three_bytes_may_be_everywhere_and_a_short_text_has_no_index():
    assert may_hold(build_index(LINES), b"zz")
    assert build_index(b"short") == b""
    assert may_hold(b"", b"anything")
