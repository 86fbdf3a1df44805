"""The header of a NIfTI file (version 1 or 2): how large its volume is, and where a slice of it lies."""

import math
import struct
from dataclasses import dataclass
from typing import Final

HEADER_BYTES: Final = 544
_MOST_VOXELS_A_SIDE: Final = 1 << 20
# Codes of the format for numbers, as numpy calls them.
_TYPES: Final = {
    2: "u1", 4: "i2", 8: "i4", 16: "f4", 64: "f8", 256: "i1", 512: "u2", 768: "u4", 1024: "i8", 1280: "u8",
}  # fmt: skip
_UNITS: Final = {1: "m", 2: "mm", 3: "µm"}
_UNIT_BITS: Final = 7


class NotNifti(ValueError):
    """These bytes are no NIfTI header that we read."""


@dataclass(frozen=True)
class NiftiHeader:
    """A volume: its sides and voxel sizes in the file's order, the type of its numbers for numpy, where it begins."""

    sides: tuple[int, ...]
    spacings: tuple[float, ...]
    unit: str
    dtype: str
    offset: int

    @property
    def slice_bytes(self) -> int:
        """The bytes of one slice across the third side."""
        return self.sides[0] * self.sides[1] * int(self.dtype[-1])

    @property
    def middle(self) -> int:
        """Where the slice in the middle of the first volume begins."""
        depth = self.sides[2] if len(self.sides) > 2 else 1  # noqa: PLR2004 (a third side)
        return self.offset + depth // 2 * self.slice_bytes

    @property
    def end(self) -> int:
        """Where the last number ends."""
        return self.offset + math.prod(self.sides) * int(self.dtype[-1])

    def describe(self) -> str:
        """Return the sides, the type of numbers and the size of a voxel."""
        times = " \N{MULTIPLICATION SIGN} "
        sizes = times.join(f"{size:.3g}" for size in self.spacings[:3])
        return f"{times.join(map(str, self.sides))}, {self.dtype[1:]}, voxels of {sizes} {self.unit}".rstrip()


def read_header(data: bytes) -> NiftiHeader:
    """Return what the first bytes of a file say. Raises NotNifti."""
    try:
        return _read(data)
    except (struct.error, ValueError, OverflowError, IndexError) as error:
        raise NotNifti(str(error)) from error


def _read(data: bytes) -> NiftiHeader:
    for order in "<>":
        (size,) = struct.unpack_from(f"{order}i", data)
        if size == 348 and data[344:347] in {b"n+1", b"ni1"}:  # noqa: PLR2004 (the format's own number)
            dims = struct.unpack_from(f"{order}8h", data, 40)
            (code,) = struct.unpack_from(f"{order}h", data, 70)
            spacings = struct.unpack_from(f"{order}8f", data, 76)
            offset, units = int(struct.unpack_from(f"{order}f", data, 108)[0]), data[123]
            break
        if size == 540 and data[4:7] in {b"n+2", b"ni2"}:  # noqa: PLR2004
            dims = struct.unpack_from(f"{order}8q", data, 16)
            (code,) = struct.unpack_from(f"{order}h", data, 12)
            spacings = struct.unpack_from(f"{order}8d", data, 104)
            (offset,) = struct.unpack_from(f"{order}q", data, 168)
            (units,) = struct.unpack_from(f"{order}i", data, 500)
            break
    else:
        raise NotNifti("it begins as no NIfTI file does")
    sides = dims[1 : 1 + dims[0]]
    if not 2 <= dims[0] <= 7 or not all(0 < side <= _MOST_VOXELS_A_SIDE for side in sides):  # noqa: PLR2004
        raise NotNifti("its sides make no volume")
    if code not in _TYPES or offset < 0 or not all(map(math.isfinite, spacings[1:4])):
        raise NotNifti("its numbers are of a kind that is not shown")
    return NiftiHeader(sides, tuple(spacings[1:4]), _UNITS.get(units & _UNIT_BITS, ""), order + _TYPES[code], offset)
