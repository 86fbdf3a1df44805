"""Previews of whatever a file holds: they never fail, and what they show can be sent."""

import gzip
import io
import json
import struct
import tracemalloc
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.uid import ExplicitVRLittleEndian, ImplicitVRLittleEndian, JPEGBaseline8Bit

from datasets.adapters import pictures
from datasets.selectors import dicoms, volumes
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


def test_of_json_in_deep_folds_no_more_is_laid_out_than_is_shown():
    data = b"[" * 400 + b",".join([b"0"] * 100_000) + b"]" * 400
    tracemalloc.start()

    preview = preview_of(Content("a.json", data))

    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (preview.facts, preview.is_cut, len(preview.lines)) == ("formatted", True, 2000)
    assert preview.lines[-1] == " " * 800 + "0,"
    assert peak_bytes < 20_000_000  # all of it takes 80 MB


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
    ],
)
def test_a_table_in_an_odd_encoding_is_shown_with_its_name(encoding, name):
    preview = preview_of(Content("a.csv", "straße;größe\nA;1\n".encode(encoding)))

    assert (preview.kind, preview.rows, preview.facts) == ("table", [["straße", "größe"], ["A", "1"]], name)


@pytest.mark.parametrize(
    ("text", "codec", "chosen", "encoding"),
    [
        ("straße;größe", "cp1252", "", "Windows-1252"),
        ("データ、ラベル", "cp932", "", "Shift-JIS"),
        ("文件,标签", "gb18030", "GB18030", "GB18030"),
        ("файл,метка", "cp1251", "Windows-1251", "Windows-1251"),
        ("straße;größe", "cp1252", "no such encoding", "Windows-1252"),
        ("größe", "utf-8", "Shift-JIS", ""),
    ],
)
def test_a_text_that_does_not_tell_its_encoding_is_read_in_the_chosen_one(text, codec, chosen, encoding):
    preview = preview_of(Content("a.txt", text.encode(codec)), encoding=chosen)

    assert (preview.lines, preview.encoding) == ([text], encoding)


def test_what_the_chosen_encoding_does_not_know_is_marked():
    preview = preview_of(Content("a.txt", b"a \xff b"), encoding="EUC-JP")

    assert (preview.kind, preview.lines) == ("text", ["a \N{REPLACEMENT CHARACTER} b"])


def test_a_long_text_is_cut_between_characters():
    preview = preview_of(Content("a.txt", b"x" + "é".encode() * 40_000))

    assert (preview.kind, preview.lines, preview.is_cut) == ("text", ["x" + "é" * 32767], True)


@pytest.mark.parametrize("data", [b"\x89PNG\x00\x01", b"\xff\xfe\x00\xd8", b"\x00\x01\x02\x03" * 100, b"\x80\x01\xff"])
def test_what_is_no_text_is_not_shown_as_one(data):
    assert preview_of(Content("a.txt", data)).kind == "none"


@pytest.mark.parametrize(
    ("name", "data", "fault"),
    [
        ("a.csv", b"", "It is empty."),
        ("a.png", b"", "It is empty."),
        ("a.parquet", b"PAR1 cut short", "It is no Parquet file that can be read here"),
        ("a.dcm", bytes(200), "It holds no picture that can be drawn here"),
        ("a.nii.gz", b"no gzip", "It holds no picture that can be drawn here"),
    ],
)
def test_a_broken_file_of_a_kind_that_is_shown_says_so(name, data, fault):
    preview = preview_of(Content(name, data))

    assert (preview.kind, preview.fault.partition(":")[0].partition(",")[0]) == ("none", fault)


def test_a_line_break_in_quotes_is_part_of_its_cell():
    preview = preview_of(Content("a.csv", b'text,label\r\n"two\nlines",1\r\n'))

    assert preview.rows == [["text", "label"], ["two\nlines", "1"]]


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


@pytest.mark.parametrize(("name", "pack"), [("a.nii", bytes), ("a.nii.gz", gzip.compress)])
def test_a_volume_that_is_cut_short_is_told_in_words(name, pack):
    whole = nifti(3, 2, 3, values=b"\0" * 36)

    assert preview_of(Content(name, pack(whole))).kind == "drawn"
    cut = preview_of(Content(name, pack(whole[:360])))
    unpacked = " unpacked" if name.endswith("gz") else ""
    assert (cut.kind, cut.fault) == (
        "none",
        f"It is cut short: the header promises 388 bytes{unpacked}, and fewer are there.",
    )


def test_a_packed_volume_whose_end_is_missing_is_told_in_words():
    values = np.random.default_rng(1).bytes(200 * 200 * 3 * 2)
    packed = gzip.compress(nifti(200, 200, 3, values=values))

    assert preview_of(Content("a.nii.gz", packed[:-1_000])).kind == "drawn"  # its middle is there
    assert preview_of(Content("a.nii.gz", packed[: len(packed) // 3])).fault.startswith("It is cut short")


def dicom(pixels: np.ndarray, *, syntax: str = ExplicitVRLittleEndian, cut: int = 0, **tags: object) -> bytes:
    facts = FileDataset(None, {}, preamble=bytes(128), file_meta=FileMetaDataset())
    facts.file_meta.TransferSyntaxUID = syntax
    facts.Modality, facts.PatientName, facts.SamplesPerPixel = "CT", "Doe^Jane", 1
    facts.PhotometricInterpretation, facts.PixelRepresentation, facts.BitsAllocated = "MONOCHROME2", 0, 16
    *frames, facts.Rows, facts.Columns = pixels.shape
    if frames:
        facts.NumberOfFrames = frames[0]
    facts.PixelData = pixels.astype("<u2").tobytes()
    for name, value in tags.items():
        setattr(facts, name, value)
    facts["PixelData"].VR = "OW"
    if syntax == JPEGBaseline8Bit:
        facts.PixelData = encapsulate([b"\xff\xd8\xff\xd9"])
    out = io.BytesIO()
    facts.save_as(out, enforce_file_format=False, implicit_vr=syntax == ImplicitVRLittleEndian, little_endian=True)
    return out.getvalue()[: -cut or None]


FRAMES = np.stack([np.zeros((2, 3)), [[0, 1, 2], [3, 4, 100]], np.zeros((2, 3))])


@pytest.mark.parametrize("syntax", [ExplicitVRLittleEndian, ImplicitVRLittleEndian])
def test_a_dicom_file_is_drawn_by_the_frame_in_its_middle_and_names_no_patient(syntax):
    content = Content("a.DCM", dicom(FRAMES, syntax=syntax))
    negative = Content("a.dcm", dicom(FRAMES, syntax=syntax, PhotometricInterpretation="MONOCHROME1"))

    preview = preview_of(content)

    assert (preview.kind, preview.facts) == ("drawn", "CT, 3 \N{MULTIPLICATION SIGN} 2, 3 frames, 16 bit")
    drawn, inverted = (
        Image.open(io.BytesIO(dicoms.draw_frame(each, 100))).convert("L").getpixel((2, 1))
        for each in (content, negative)
    )
    assert (drawn > 200, inverted < 60) == (True, True)


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (dicom(FRAMES, cut=10), "It is cut short: 10 bytes of its pixels are missing."),
        (
            dicom(FRAMES, syntax=JPEGBaseline8Bit),
            "Its pixels are compressed (JPEG Baseline (Process 1)), which are not drawn.",
        ),
        (
            dicom(FRAMES, PhotometricInterpretation="RGB", SamplesPerPixel=3),
            "Pictures of this kind (RGB) are not drawn.",
        ),
        (
            dicom(FRAMES, Rows=60_000, Columns=60_000),
            "A frame is too large to be drawn, or its numbers are of another kind.",
        ),
    ],
)
def test_a_dicom_file_that_is_not_drawn_says_why(data, fault):
    content = Content("a.dcm", data)
    preview = preview_of(content)

    assert (preview.kind, preview.fault) == ("none", fault)
    assert dicoms.draw_frame(content, 100) is None


@given(st.binary(max_size=300).map(lambda data: bytes(128) + b"DICM" + data) | st.integers(0, 500))
def test_a_hostile_dicom_file_is_not_drawn(data):
    whole = dicom(FRAMES)
    content = Content("a.dcm", data if isinstance(data, bytes) else whole[:data])

    assert dicoms.draw_frame(content, 100) is None or content.data == whole


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


@dataclass
class WatchedContent(Content):
    """Notes of each reading how many more could draw meanwhile."""

    free: list[int] = field(default_factory=list)

    def read(self, first=0, size=None):
        taken = sum(pictures.DRAWING.acquire(blocking=False) for _ in range(2))
        if taken:
            pictures.DRAWING.release(taken)
        self.free.append(taken)
        return super().read(first, size)


@pytest.mark.parametrize(
    ("name", "data", "draw"),
    [
        ("a.dcm", dicom(FRAMES), dicoms.draw_frame),
        ("a.nii", nifti(3, 2, 3, values=b"\0\1" * 18), volumes.draw_slice),
        ("a.nii.gz", gzip.compress(nifti(3, 2, 3, values=b"\0\1" * 18), mtime=0), volumes.draw_slice),
    ],
)
def test_pixels_are_read_by_as_many_as_draw_at_once(name, data, draw):
    content = WatchedContent(name, data)

    assert draw(content, 100) is not None
    assert content.free == [2, 1]  # the header, then the pixels


def test_a_frame_is_in_memory_as_numbers_once():
    pixels = np.arange(1_000_000).reshape(1000, 1000) % 60_000
    content = Content("a.dcm", dicom(pixels, PhotometricInterpretation="MONOCHROME1"))

    tracemalloc.start()

    drawn = dicoms.draw_frame(content, 100)

    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert drawn is not None
    assert peak_bytes < 2 * 8 * pixels.size
