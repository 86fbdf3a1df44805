from hypothesis import given
from hypothesis import strategies as st

from compute.engine import log_text
from compute.engine.log_text import Excerpt, build_index, decode, find_excerpt, may_hold
from compute.engine.ports import LogChunk


def read_all(data: bytes, size: int) -> str:
    text, offset = "", 0
    while True:
        piece = data[offset : offset + size]
        end = offset + len(piece)
        found = decode(LogChunk(piece, end, is_complete=end == len(data), size_bytes=len(data)))
        text, offset = text + found.text, found.next_offset
        if found.is_complete:
            return text


@given(st.text(), st.integers(4, 20))
def test_text_read_in_pieces_is_the_whole_text(text, size):
    assert read_all(text.encode("utf-8", "surrogatepass"), size) == text.encode("utf-8", "surrogatepass").decode(
        "utf-8", "replace"
    )


def test_a_character_that_is_not_all_there_is_left_for_the_next_time():
    found = decode(LogChunk("a€".encode()[:3], 3, is_complete=False, size_bytes=4))

    assert (found.text, found.next_offset) == ("a", 1)


def test_bytes_that_are_no_text_are_shown_as_such():
    assert decode(LogChunk(b"a\xff\xfeb", 4, is_complete=True, size_bytes=4)).text == "a��b"


OWN = b'::nearline {"kind":"metric","key":"a","value":1}\n'


def shown(data: bytes, line_so_far: bytes = b"", *, is_complete: bool = False) -> tuple[bytes, int]:
    """Return what is shown of a chunk, and how many of its bytes are done with."""
    chunk = log_text.hide_protocol(LogChunk(data, len(data), is_complete, len(data)), line_so_far)
    return chunk.data, chunk.next_offset


def test_the_platforms_own_lines_are_not_part_of_what_is_shown():
    text = b"a\n" + OWN + OWN + b"say ::nearline {}\nb"

    assert shown(text) == (b"a\nsay ::nearline {}\nb", len(text))


def test_the_rest_of_a_line_of_ours_is_not_shown_either():
    assert shown(b'"value":1}\nb\n', b'::nearline {"key":1,') == (b"b\n", 13)
    assert shown(b"rest\nb\n", b"a line of somebody, ") == (b"rest\nb\n", 7)


def test_what_may_become_a_line_of_ours_waits_until_that_is_known():
    assert shown(b"a\n::nea") == (b"a\n", 2)
    assert shown(b"a\n::nea", is_complete=True) == (b"a\n::nea", 7)
    assert shown(b"a\n" + OWN[:-1]) == (b"a\n", 1 + len(OWN))


@given(
    st.lists(st.sampled_from([b"a\n", b"::nearline {x\n", b"::near", b"\n", b"::nearline {", b"z" * 9, b"\xc3\xa4\n"])),
    st.lists(st.integers(1, 9)),
)
def test_however_a_log_is_cut_the_same_lines_are_shown(parts, sizes):
    log = b"".join(parts)
    whole = [line for line in log.split(b"\n") if not line.startswith(log_text.PROTOCOL)]
    offset, texts = 0, b""
    for size in [*sizes, *([12] * len(log))]:
        data = log[offset : offset + max(size, 12)]
        line = log[:offset][log[:offset].rfind(b"\n") + 1 :]
        is_complete = offset + len(data) == len(log)
        chunk = log_text.hide_protocol(LogChunk(data, offset + len(data), is_complete, len(log)), line)
        texts, offset = texts + chunk.data, chunk.next_offset

    assert offset == len(log)
    assert texts.rstrip(b"\n") == b"\n".join(whole).rstrip(b"\n")


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


TRACEBACK = """\
epoch 1
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    fit(x)
ValueError: could not convert string to float: 'x'
"""


def test_an_empty_log_says_nothing():
    assert find_excerpt("") == Excerpt("", ())
    assert find_excerpt("\n \n") == Excerpt("", ())


def test_without_a_traceback_the_last_line_says_most():
    assert find_excerpt("one\n\nsh: 1: trian: not found\n") == Excerpt(
        "sh: 1: trian: not found", ("one", "sh: 1: trian: not found")
    )


def test_of_a_traceback_its_exception_says_most_whatever_follows():
    excerpt = find_excerpt(f"{TRACEBACK}cleaning up\n")

    assert excerpt.headline == "ValueError: could not convert string to float: 'x'"
    assert excerpt.lines == tuple(TRACEBACK.splitlines())


def test_of_several_tracebacks_the_last_one_counts_also_behind_a_prefix_of_a_launcher():
    text = TRACEBACK + "\n".join(
        f"[rank0]: {line}" for line in TRACEBACK.replace("ValueError", "KeyError").splitlines()
    )

    assert find_excerpt(text).headline == "[rank0]: KeyError: could not convert string to float: 'x'"


def test_lines_for_the_platform_colours_and_earlier_states_of_a_progress_bar_are_left_out():
    text = '\x1b[31mbad\x1b[0m\n10 %\r90 %\n::nearline {"kind":"metric"}\ncnvrg_tag_kind: svm\n'

    assert find_excerpt(text).lines == ("bad", "90 %")


def test_only_the_last_lines_are_kept_and_long_ones_are_cut():
    excerpt = find_excerpt("".join(f"{number}\n" for number in range(99)) + "x" * 999)

    assert excerpt.lines == (*map(str, range(88, 99)), "x" * 299 + "…")
