"""Cells of a Parquet file, read from what a real writer (pyarrow 26) wrote."""

import base64
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.engine.parquet_columns import ParquetTable
from datasets.engine.parquet_pages import UnreadableTable

# Four rows of note (double), path (text), label (list of texts), view (text), grade (int8), seen (boolean), day (date)
# and box (a group of x and y, whole numbers). First plain, in pages of version 2, with gzip where that makes a page shorter.
PLAIN = base64.b64decode(
    "UEFSMRUGFUQVRFwVCBUAFQgVABUEFQASHAAAAAgBAAAAAAAA+D8AAAAAAAAEQAAAAAAAAAxAAAAAAAAAEkAVBhU+FT5cFQgVAhUIFQAV"
    "BBUAEhwAAAADCwcAAAB4L2EucG5nBQAAAGIucG5nBQAAAGMucG5nFQYVPBU8XBUKFQQVCBUAFQYVBBIcAAAAAwID3wAEAAAATWFzcwUA"
    "AABFZGVtYQQAAABNYXNzFQYVLhUuXBUIFQIVCBUAFQQVABIcAAAAAw0CAAAAUEECAAAAUEEFAAAAQVB8UEEVBhUcFRxcFQgVAhUIFQAV"
    "BBUAEhwAAAADBwEAAAD+////AwAAABUGFRAVEFwVCBUAFQgVBhUEFQASHAAAAAgBAgAAAAMNFQYVJBUkXBUIFQAVCBUAFQQVABIcAAAA"
    "CAEAAAAAAQAAAAIAAAADAAAAFQYVRBU4XBUIFQAVCBUAFQQVABEcAAAACAIfiwgAAAAAAAIDY2SAAEYcNAAvpDcLIAAAABUGFUQVOFwV"
    "CBUAFQgVABUEFQARHAAAAAgCH4sIAAAAAAACA2NigAAmHDQAqbZxPSAAAAAVBBncNQAYBnNjaGVtYRUQABUKJQIYBG5vdGUAFQwlAhgE"
    "cGF0aCUATBwAAAA1AhgFbGFiZWwVAhUGTDwAAAA1BBgEbGlzdBUCABUMJQIYB2VsZW1lbnQlAEwcAAAAFQwlAhgEdmlldyUATBwAAAAV"
    "AiUCGAVncmFkZSUeTKwTCBEAAAAVACUCGARzZWVuABUCJQIYA2RheSUMTGwAAAA1AhgDYm94FQQAFQQlAhgBeAAVBCUCGAF5ABYIGRwZ"
    "nCYAHBUKGSUGABkYBG5vdGUVBBYIFnQWdCYISRwVABUAFQIAPCkGGSYACAAAACYAHBUMGSUGABkYBHBhdGgVBBYIFm4WbiZ8SRwVABUA"
    "FQIAPBYiGQYZJgIGAAAAJgAcFQwZJQYAGTgFbGFiZWwEbGlzdAdlbGVtZW50FQQWChZsFmwm6gFJHBUAFQAVAgA8FhoZJggCGUYCAgAG"
    "AAAAJgAcFQwZJQYAGRgEdmlldxUEFggWXhZeJtYCSRwVABUAFQIAPBYSGQYZJgIGAAAAJgAcFQIZJQYAGRgFZ3JhZGUVBBYIFkwWTCa0"
    "A0kcFQAVABUCADwpBhkmAgYAAAAmABwVABkVBhkYBHNlZW4VBBYIFkAWQCaABEkcFQAVBhUCADwpBhkmAAgAAAAmABwVAhklBgAZGANk"
    "YXkVBBYIFlQWVCbABEkcFQAVABUCADwpBhkmAAgAAAAmABwVBBklBgAZKANib3gBeBUEFggWdBZoJpQFSRwVABUAFQIAPCkGGTYAAAgA"
    "AAAmABwVBBklBgAZKANib3gBeRUEFggWdBZoJvwFSRwVABUAFQIAPCkGGTYAAAgAAAAW9AYWCCYIFtwGACggcGFycXVldC1jcHAtYXJy"
    "b3cgdmVyc2lvbiAyNi4wLjEZnBwAABwAABwAABwAABwAABwAABwAABwAABwAAADBAgAAUEFSMQ=="
)
# In two groups of rows by dictionaries, mostly with Snappy; the column note with a compression that is not read.
BY_DICTIONARY = base64.b64decode(
    "UEFSMRUEFTAVQkwVBhUAEgAAKLUv/SAYwQAAAAAAAAAA+D8AAAAAAAAEQAAAAAAAAAxAFQAVFBUmLBUGFRAVBhUGHAAAACi1L/0gClEA"
    "AAIAAAAGAQIDJAAVBBUoFSxMFQQVABIAABRMBwAAAHgvYS5wbmcFAAAAYi5wbmcVABUSFRYsFQYVEBUGFQYcAAAACSACAAAAAwMBAwIV"
    "BBUiFSZMFQQVABIAABFABAAAAE1hc3MFAAAARWRlbWEVABUgFSQsFQgVEBUGFQYcAAAAEDwCAAAAAwIDAAAAA98AAQMCFQQVDBUQTBUC"
    "FQASAAAGFAIAAABQQRUAFRIVFiwVBhUQFQYVBhwAAAAJIAIAAAADBQEEABUEFRgVGEwVBhUAEgAAAQAAAP7///8DAAAAFQAVFBUULBUG"
    "FRAVBhUGHAAAAAIAAAAGAQIDJAAVABUOFRIsFQYVABUGFQYcAAAABxgCAAAABgEFFQQVGBUYTBUGFQASAAAAAAAAAQAAAAIAAAAVABUU"
    "FRQsFQYVEBUGFQYcAAAAAgAAAAYBAgMkABUEFRAVFEwVAhUAEgAACBwBAAAAAAAAABUAFRIVFiwVBhUQFQYVBhwAAAAJIAIAAAAGAgEG"
    "ABUEFRAVEEwVAhUAEgAAAgAAAAAAAAAVABUSFRIsFQYVEBUGFQYcAAAAAgAAAAYCAQYAFQQVEBUiTBUCFQASAAAotS/9IAhBAAAAAAAA"
    "AAASQBUAFRIVJCwVAhUQFQYVBhwAAAAotS/9IAlJAAACAAAAAgEBAgAVBBUSFRZMFQIVABIAAAkgBQAAAGMucG5nFQAVEhUWLBUCFRAV"
    "BhUGHAAAAAkgAgAAAAIBAQIAFQQVABUCTBUAFQASAAAAFQAVGhUeLBUCFRAVBhUGHAAAAA0wAgAAAAIAAgAAAAIAABUEFRIVFkwVAhUA"
    "EgAACSAFAAAAQVB8UEEVABUSFRYsFQIVEBUGFQYcAAAACSACAAAAAgEBAgAVBBUAFQBMFQAVABIAABUAFQ4VDiwVAhUQFQYVBhwAAAAC"
    "AAAAAgAAFQAVDhUSLBUCFQAVBhUGHAAAAAcYAgAAAAIBARUEFQgVCEwVAhUAEgAAAwAAABUAFRIVEiwVAhUQFQYVBhwAAAACAAAAAgEB"
    "AgAVBBUQFRRMFQIVABIAAAgcAQAAAAAAAAAVABUSFRYsFQIVEBUGFQYcAAAACSACAAAAAgIBAgAVBBUQFRBMFQIVABIAAAIAAAAAAAAA"
    "FQAVEhUSLBUCFRAVBhUGHAAAAAIAAAACAgECABUEGdw1ABgGc2NoZW1hFRAAFQolAhgEbm90ZQAVDCUCGARwYXRoJQBMHAAAADUCGAVs"
    "YWJlbBUCFQZMPAAAADUEGARsaXN0FQIAFQwlAhgHZWxlbWVudCUATBwAAAAVDCUCGAR2aWV3JQBMHAAAABUCJQIYBWdyYWRlJR5MrBMI"
    "EQAAABUAJQIYBHNlZW4AFQIlAhgDZGF5JQxMbAAAADUCGANib3gVBAAVBCUCGAF4ABUEJQIYAXkAFggZLBmcJgAcFQoZNQAGEBkYBG5v"
    "dGUVDBYGFoYBFqoBJmYmCCksFQQVABUCABUAFRAVAgA8KQYZJgAGAAAAJgAcFQwZNQAGEBkYBHBhdGgVAhYGFnwWhAEm+gEmsgEpLBUE"
    "FQAVAgAVABUQFQIAPBYYGQYZJgIEAAAAJgAcFQwZNQAGEBk4BWxhYmVsBGxpc3QHZWxlbWVudBUCFggWhAEWjAEm+AImtgIpLBUEFQAV"
    "AgAVABUQFQIAPBYaGSYGAhlGAAIABgAAACYAHBUMGTUABhAZGAR2aWV3FQIWBhZgFmgm7gMmwgMpLBUEFQAVAgAVABUQFQIAPBYIGQYZ"
    "JgIEAAAAJgAcFQIZNQAGEBkYBWdyYWRlFQAWBhZuFm4m3gQmqgQpLBUEFQAVAgAVABUQFQIAPCkGGSYABgAAACYAHBUAGSUGABkYBHNl"
    "ZW4VAhYGFjQWOCaYBUkcFQAVABUCADwpBhkmAAYAAAAmABwVAhk1AAYQGRgDZGF5FQAWBhZuFm4mhAYm0AUpLBUEFQAVAgAVABUQFQIA"
    "PCkGGSYABgAAACYAHBUEGTUABhAZKANib3gBeBUCFgYWZBZsJu4GJr4GKSwVBBUAFQIAFQAVEBUCADwpBhk2AAAGAAAAJgAcFQQZNQAG"
    "EBkoA2JveAF5FQAWBhZkFmQm1gcmqgcpLBUEFQAVAgAVABUQFQIAPCkGGTYAAAYAAAAWvgcWBiYIFoYIABmcJgAcFQoZNQAGEBkYBG5v"
    "dGUVDBYCFmQWiAEmzAgmjggpLBUEFQAVAgAVABUQFQIAPCkGGSYAAgAAACYAHBUMGTUABhAZGARwYXRoFQIWAhZmFm4myAkmlgkpLBUE"
    "FQAVAgAVABUQFQIAPBYKGQYZJgACAAAAJgAcFQwZNQAGEBk4BWxhYmVsBGxpc3QHZWxlbWVudBUCFgIWXBZiJqIKJoQKKSwVBBUAFQIA"
    "FQAVEBUCADwWABkmAgAZRgIAAAAAAAAmABwVDBk1AAYQGRgEdmlldxUCFgIWZhZuJpgLJuYKKSwVBBUAFQIAFQAVEBUCADwWChkGGSYA"
    "AgAAACYAHBUCGTUABhAZGAVncmFkZRUAFgIWUBZQJvALJtQLKSwVBBUAFQIAFQAVEBUCADwpBhkmAgAAAAAmABwVABklBgAZGARzZWVu"
    "FQIWAhY0FjgmpAxJHBUAFQAVAgA8KQYZJgACAAAAJgAcFQIZNQAGEBkYA2RheRUAFgIWXBZcJoANJtwMKSwVBBUAFQIAFQAVEBUCADwp"
    "BhkmAAIAAAAmABwVBBk1AAYQGSgDYm94AXgVAhYCFmQWbCboDSa4DSksFQQVABUCABUAFRAVAgA8KQYZNgAAAgAAACYAHBUEGTUABhAZ"
    "KANib3gBeRUAFgIWZBZkJtAOJqQOKSwVBBUAFQIAFQAVEBUCADwpBhk2AAACAAAAFrQGFgImjggW+gYAKCBwYXJxdWV0LWNwcC1hcnJv"
    "dyB2ZXJzaW9uIDI2LjAuMRmcHAAAHAAAHAAAHAAAHAAAHAAAHAAAHAAAHAAAAEAFAABQQVIx"
)
ROWS = [
    (["x/a.png"], ["Mass", "Edema"], ["PA"], ["1"], ["true"], ["1"]),
    (["b.png"], [], [], ["-2"], ["false"], ["1"]),
    ([], ["Mass"], ["PA"], ["3"], ["true"], ["1"]),
    (["c.png"], [], ["AP|PA"], [], ["true"], ["1"]),
]
COLUMNS = ["path", "label", "view", "grade", "seen", "box.x"]


@pytest.mark.parametrize("data", [PLAIN, BY_DICTIONARY])
def test_cells_are_texts_whatever_way_they_are_stored(data):
    table = ParquetTable(data)

    assert table.names == ["note", "path", "label", "view", "grade", "seen", "day", "box.x", "box.y"]
    assert list(table.read_rows(COLUMNS)) == ROWS


@pytest.mark.parametrize("column", ["note", "day"])
def test_a_column_of_anything_else_is_refused_by_its_name(column):
    with pytest.raises(UnreadableTable, match=f"Its column '{column}' holds neither texts"):
        list(ParquetTable(PLAIN).read_rows([column]))


def test_a_file_that_is_cut_is_refused():
    for data in (b"", b"PAR1", PLAIN[:-1], PLAIN[1:], b"PAR1" + PLAIN[-100:]):
        with pytest.raises(UnreadableTable):
            list(ParquetTable(data).read_rows(["path"]))


def test_a_column_of_more_values_than_are_read_is_refused_before_they_are():
    nulls = base64.b64decode(
        "UEFSMRUAFRIVFiwVgpL0ARUAFQYVBhwAAAAJIAUAAACCkvQBABUEGSw1ABgGc2NoZW1hFQIAFQwlAhgEcGF0aCUATBwAAAAWgpL0ARkcGRwm"
        "ABwVDBklBgAZGARwYXRoFQIWgpL0ARY+FkImCEkcFQAVABUCADwWABkGGSaCkvQBAAAAABY+FoKS9AEmCBZCACggcGFycXVldC1jcHAtYXJy"
        "b3cgdmVyc2lvbiAyNi4wLjEZHBwAAACUAAAAUEFSMQ=="
    )

    with pytest.raises(UnreadableTable, match="more than 2,000,000 values"):
        list(ParquetTable(nulls).read_rows(["path"]))


@settings(deadline=None)
@given(
    st.sampled_from([PLAIN, BY_DICTIONARY]),
    st.lists(st.tuples(st.integers(0, len(PLAIN) - 1), st.integers(0, 255)), min_size=1, max_size=5),
)
def test_damaged_bytes_are_refused_or_read_and_nothing_else(data, changes):
    damaged = bytearray(data)
    for place, value in changes:
        damaged[place] = value

    try:
        rows = list(ParquetTable(bytes(damaged)).read_rows(COLUMNS))
    except UnreadableTable:
        return
    assert all(isinstance(text, str) for row in rows for cell in row for text in cell)


@pytest.mark.parametrize(("columns", "name"), [(10_001, b"n"), (1, b"n" * 2000)])
def test_more_columns_or_longer_names_than_any_table_has_are_refused(columns, name):
    def length(number: int) -> bytes:
        return bytes([number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80, number >> 14])

    def element(name: bytes, children: int) -> bytes:
        return b"\x48" + length(len(name)) + name + b"\x15" + length(2 * children) + b"\0"

    leaf = b"\x15\x02\x38\x01x\0"
    elements = element(b"schema", 1) + element(name, columns) + leaf * columns
    footer = b"\x29\xfc" + length(columns + 2) + elements + b"\x29\x0c\0"

    with pytest.raises(UnreadableTable, match="It has more than 10,000 columns, or one of a name of more than 1,000"):
        ParquetTable(b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1")
