"""Previews of whatever a file holds: they never fail, and what they show can be sent."""

import gzip
import io
import json
import struct
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from datasets.selectors import volumes
from datasets.web.previews import preview_of
from nearline.content.hashing import file_id
from nearline.content.manifest import Entry


@dataclass
class Content:
    """A file in memory that is read as one of a commit is."""

    path: str
    data: bytes

    @property
    def entry(self):
        return Entry(self.path.encode(), 0o644, len(self.data), 0, file_id(self.data))

    @property
    def size_bytes(self):
        return len(self.data)

    def read(self, first=0, size=None):
        return iter([self.data[first : None if size is None else first + size]])


json_texts = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=())), inner),
).map(lambda value: json.dumps(value).encode())
tables = st.lists(st.lists(st.text(), max_size=4), max_size=4).map(
    lambda rows: "\n".join(",".join(row) for row in rows).encode()
)
endings = st.sampled_from([".json", ".csv", ".tsv", ".txt", ".parquet", ""])


@given(endings, st.binary(max_size=200) | st.text().map(str.encode) | json_texts | tables)
def test_whatever_a_file_holds_its_preview_can_be_sent(ending, data):
    preview = preview_of(Content(f"file{ending}", data))

    for text in (preview.facts, *preview.lines, *(cell for row in preview.rows for cell in row)):
        text.encode()


@pytest.mark.parametrize("data", [rb'["\ud800"]', b'{"\\udfff": 1}'])
def test_json_with_half_of_a_character_is_shown_as_it_is_written(data):
    preview = preview_of(Content("labels.json", data))

    assert (preview.kind, preview.lines) == ("text", [data.decode()])


@pytest.mark.parametrize(
    ("encoding", "name"),
    [
        ("utf-8", ""),
        ("utf-8-sig", "UTF-8"),
        ("utf-16", "UTF-16"),
        ("utf-16-le", "UTF-16"),
        ("utf-16-be", "UTF-16"),
        ("cp1252", "Windows-1252"),
    ],
)
def test_a_table_in_an_odd_encoding_is_shown_with_its_name(encoding, name):
    preview = preview_of(Content("a.csv", "straße;größe\nA;1\n".encode(encoding)))

    assert (preview.kind, preview.rows, preview.facts) == ("table", [["straße", "größe"], ["A", "1"]], name)


def test_a_long_text_is_cut_between_characters():
    preview = preview_of(Content("a.txt", b"x" + "é".encode() * 40_000))

    assert (preview.kind, preview.lines, preview.is_cut) == ("text", ["x" + "é" * 32767], True)


@pytest.mark.parametrize("data", [b"\x89PNG\x00\x01", b"\xff\xfe\x00\xd8", b"\x00\x01\x02\x03" * 100, b"\x80\x01\xff"])
def test_what_is_no_text_is_not_shown_as_one(data):
    assert preview_of(Content("a.txt", data)).kind == "none"


def test_the_cells_of_a_notebook_are_shown_with_what_they_printed():
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "<script>"]},
        {"cell_type": "code", "source": "print(1)", "outputs": [{"text": ["1\n"]}, {"data": {"image/png": "x"}}]},
        "nonsense",
    ]
    preview = preview_of(Content("a.ipynb", json.dumps({"cells": cells}).encode()))

    assert [(cell.kind, cell.text) for cell in preview.cells] == [
        ("text", "# Title\n<script>"), ("code", "print(1)"), ("output", "1\n"), ("output", "\n[image/png]"),
    ]  # fmt: skip


def nifti(*sides: int, code: int = 4, offset: float = 352.0, values: bytes = b"") -> bytes:
    header = bytearray(352)
    struct.pack_into("<i", header, 0, 348)
    struct.pack_into("<8h", header, 40, len(sides), *sides, *[1] * (7 - len(sides)))
    struct.pack_into("<h", header, 70, code)
    struct.pack_into("<8f", header, 76, 1, 0.5, 0.5, 2, 1, 1, 1, 1)
    struct.pack_into("<f", header, 108, offset)
    header[123], header[344:348] = 2, b"n+1\0"
    return bytes(header) + values


@pytest.mark.parametrize(("name", "pack"), [("a.nii", bytes), ("a.NII.GZ", gzip.compress)])
def test_a_volume_is_drawn_by_the_slice_in_its_middle(name, pack):
    slices = [np.zeros((2, 3)), np.array([[0, 1, 2], [3, 4, 100]]), np.zeros((2, 3))]
    content = Content(name, pack(nifti(3, 2, 3, values=b"".join(each.astype("<i2").tobytes() for each in slices))))

    assert preview_of(content).facts == "3 x 2 x 3, i2, voxels of 0.5 x 0.5 x 2 mm".replace(
        " x ", " \N{MULTIPLICATION SIGN} "
    )
    drawn = Image.open(io.BytesIO(volumes.draw_slice(content, 100))).convert("L")
    assert drawn.size == (3, 2)
    assert (drawn.getpixel((2, 0)) > 200, drawn.getpixel((0, 1)) < 60) == (True, True)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x5c\x01\0\0", nifti(3, 2, 3), nifti(-1, 2, 3), nifti(32767, 32767, 32767), nifti(3, 2, 3, code=128),
        nifti(3, 2, 3, offset=float("nan")), nifti(3, 2, 3, offset=1e18), nifti(3, 2, 3, offset=-1.0),
        gzip.compress(nifti(30000, 30000, 3), mtime=0), gzip.compress(nifti(3, 2, 3), mtime=0)[:-300], b"\x1f\x8b" + b"\xff" * 50,
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
def test_a_hostile_volume_is_not_drawn(name, data):
    content = Content(name, data)

    assert preview_of(content).kind in {"none", "drawn"}
    assert volumes.draw_slice(content, 100) is None
