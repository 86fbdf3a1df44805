"""DICOM files: what the header says of the picture, and the frame in the middle. Nothing of the patient is read."""

import io
import struct
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from datasets.adapters import pictures
from datasets.selectors.files import FileContent

ENDINGS: Final = (".dcm", ".dicom")
_HEAD_BYTES: Final = 1 << 20
"""What is read in search of the pixels; what lies before them is seldom a hundredth of it."""
_MOST_PIXELS: Final = 16_000_000
_DEFLATED: Final = b"1.2.840.10008.1.2.1.99"
"""Files that are packed as a whole are not read: a small one can hold any number of zeros."""
_PIXELS: Final = {"<": b"\xe0\x7f\x10\x00", ">": b"\x7f\xe0\x00\x10"}
_UNKNOWN_LENGTH: Final = 0xFFFF_FFFF
_TAGS: Final = [
    "Modality", "Rows", "Columns", "NumberOfFrames", "BitsAllocated", "PixelRepresentation", "SamplesPerPixel",
    "PhotometricInterpretation",
]  # fmt: skip
# A reader of a format with so many dialects raises whatever the bytes lead it to.
_NO_DICOM: Final = (
    ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, NotImplementedError, OSError, RecursionError,
    TypeError, ValueError, struct.error,
)  # fmt: skip


@dataclass(frozen=True)
class DicomHeader:
    """A picture of one or more frames: the middle one is drawn, which begins at `first`.

    `fault` says in words why none is drawn.
    """

    facts: str
    rows: int = 0
    columns: int = 0
    dtype: str = ""
    is_inverted: bool = False
    first: int = 0
    fault: str = ""

    @property
    def frame_bytes(self) -> int:
        """The bytes of one frame."""
        return self.rows * self.columns * np.dtype(self.dtype).itemsize


def is_dicom(path: bytes) -> bool:
    """Say whether a name is that of a DICOM file."""
    return path.lower().endswith(tuple(ending.encode() for ending in ENDINGS))


def read_header(content: FileContent) -> DicomHeader | None:
    """Return what a file says of its picture; None when it is no DICOM file with one."""
    head = b"".join(content.read(0, _HEAD_BYTES))
    if head[128:132] != b"DICM" or _DEFLATED in head:
        return None
    from pydicom.errors import BytesLengthException, InvalidDicomError  # noqa: PLC0415 (slow to load, see below)

    try:
        return _read(head, content.size_bytes)
    except (*_NO_DICOM, BytesLengthException, InvalidDicomError):
        return None


def draw_frame(content: FileContent, edge: int) -> bytes | None:
    """Return the frame in the middle as a WebP; None when there is none that is drawn."""
    header = read_header(content)
    if header is None or header.fault:
        return None
    with pictures.DRAWING:
        data = b"".join(content.read(header.first, header.frame_bytes))
        if len(data) < header.frame_bytes:
            return None
        pixels = np.frombuffer(data, header.dtype).reshape(header.rows, header.columns)
        return pictures.draw_grey(pixels, edge, is_inverted=header.is_inverted)


def _read(head: bytes, size_bytes: int) -> DicomHeader:
    from pydicom import config, dcmread  # noqa: PLC0415 (slow to load, and few processes show such files)

    config.settings.reading_validation_mode = config.IGNORE
    file = io.BytesIO(head)
    dataset = dcmread(file, stop_before_pixels=True, specific_tags=list(_TAGS))
    order, at = "<" if dataset.original_encoding[1] else ">", file.tell()
    rows, columns = int(dataset.Rows), int(dataset.Columns)
    frames, bits = int(dataset.get("NumberOfFrames") or 1), int(dataset.BitsAllocated)
    times = " \N{MULTIPLICATION SIGN} "
    sizes = [f"{columns}{times}{rows}", *([f"{frames} frames"] if frames > 1 else []), f"{bits} bit"]
    facts = ", ".join([str(dataset.get("Modality") or "")[:16], *sizes]).removeprefix(", ")
    if min(rows, columns, frames) < 1:
        raise ValueError("its sides make no picture")
    kind = str(dataset.get("PhotometricInterpretation"))
    if int(dataset.get("SamplesPerPixel") or 1) != 1 or not kind.startswith("MONOCHROME"):
        return DicomHeader(facts, fault=f"Pictures of this kind ({kind[:16]}) are not drawn.")
    if bits not in {8, 16, 32} or rows * columns > _MOST_PIXELS:
        return DicomHeader(facts, fault="A frame is too large to be drawn, or its numbers are of another kind.")
    if head[at : at + 4] != _PIXELS[order]:
        return DicomHeader(facts, fault="It has no pixels where they are looked for, in its first MiB.")
    at += 8 if dataset.original_encoding[0] else 12
    (length,) = struct.unpack_from(f"{order}I", head, at - 4)
    if length == _UNKNOWN_LENGTH:
        name = dataset.file_meta.TransferSyntaxUID.name
        return DicomHeader(facts, fault=f"Its pixels are compressed ({name[:80]}), which are not drawn.")
    sign = "i" if dataset.get("PixelRepresentation") else "u"
    header = DicomHeader(facts, rows, columns, f"{order}{sign}{bits // 8}", is_inverted=kind == "MONOCHROME1")
    if at + frames * header.frame_bytes > size_bytes:
        missing = at + frames * header.frame_bytes - size_bytes
        return DicomHeader(facts, fault=f"It is cut short: {missing:,} bytes of its pixels are missing.")
    return replace(header, first=at + frames // 2 * header.frame_bytes)
