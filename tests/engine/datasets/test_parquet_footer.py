"""The footer of a Parquet file, read from what a real writer (pyarrow 26) wrote."""

import base64
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.engine.parquet_footer import Column, NotParquet, footer_size, read_footer

# Two rows of `file` (text), `label` (int32) and `box` (a group with a double `x`).
FILE = base64.b64decode(
    "UEFSMRUAFR4VHiwVBBUAFQYVBhwAAAACAAAAAwEFAAAAYS5wbmcVABUcFRwsFQQVABUGFQYcAAAAAgAAAAQBAQAAAAIAAAAVABUs"
    "FSwsFQQVABUGFQYcAAAAAgAAAAQCAAAAAAAA+D8AAAAAAAD4PxUEGVw1ABgGc2NoZW1hFQYAFQwlAhgEZmlsZSUATBwAAAAVAiUC"
    "GAVsYWJlbAA1AhgDYm94FQIAFQolAhgBeAAWBBkcGTwmABwVDBklBgAZGARmaWxlFQAWBBZEFkQmCEkcFQAVABUCADwWChkGGSYC"
    "AgAAACYAHBUCGSUGABkYBWxhYmVsFQAWBBZCFkImTEkcFQAVABUCADwpBhkmAAQAAAAmABwVChklBgAZKANib3gBeBUAFgQWUhZS"
    "Jo4BSRwVABUAFQIAPCkGGTYAAAQAAAAW2AEWBCYIFtgBACggcGFycXVldC1jcHAtYXJyb3cgdmVyc2lvbiAyNi4wLjEZPBwAABwA"
    "ABwAAAAMAQAAUEFSMQ=="
)
FOOTER = FILE[-8 - footer_size(FILE[-8:]) : -8]


def test_columns_are_named_by_their_way_through_groups():
    footer = read_footer(FOOTER)

    assert footer.rows == 2
    assert footer.columns == [
        Column("file", "text", "optional"),
        Column("label", "int32", "optional"),
        Column("box.x", "double", "optional"),
    ]


@pytest.mark.parametrize("tail", [b"", b"1234PAR2", b"PAR1", b"\0\0\0\0PARE"])
def test_another_tail_is_no_parquet(tail):
    with pytest.raises(NotParquet):
        footer_size(tail)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(FOOTER) - 1), st.integers(0, 255)), max_size=5), st.integers(0, len(FOOTER))
)
def test_damaged_bytes_are_refused_or_read_and_nothing_else(changes, end):
    damaged = bytearray(FOOTER)
    for place, value in changes:
        damaged[place] = value

    try:
        footer = read_footer(bytes(damaged[:end]))
    except NotParquet:
        return
    assert all(isinstance(column.name, str) for column in footer.columns)


def test_a_struct_in_itself_without_end_is_refused():
    with pytest.raises(NotParquet):
        read_footer(b"\x1c" * 10_000)


def test_groups_in_groups_with_long_names_take_little_memory():
    def name_of(text: bytes) -> bytes:
        return b"\x48" + bytes([len(text) & 0x7F | 0x80, len(text) >> 7]) + text

    def element(name: bytes, children: int) -> bytes:
        return name_of(name) + b"\x15" + bytes([2 * children]) + b"\0"

    groups = b"".join(element(b"n" * 2000, 1) for _ in range(499)) + element(b"leaf", 0)
    footer = b"\x29\xfc" + bytes([500 & 0x7F | 0x80, 500 >> 7]) + groups + b"\x16\x02\0"
    tracemalloc.start()

    columns = read_footer(footer).columns

    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [len(column.name) for column in columns] == [1000]
    assert peak_bytes < 20_000_000  # 250 MB where each group kept the names of all around it
