from hypothesis import given
from hypothesis import strategies as st

from compute.engine.log_text import decode
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
