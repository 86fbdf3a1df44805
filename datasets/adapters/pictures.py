"""Pictures made small by Pillow, and what a picture's first bytes say about it."""

import io
import threading
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

FORMATS: Final = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
MAX_PIXELS: Final = 80_000_000
"""Larger pictures are not decoded: a small file can claim any size."""

_SHARP_EDGE: Final = 64
_MODES: Final = {
    "1": "black and white", "L": "8 bit grey", "P": "palette", "RGB": "RGB", "RGBA": "RGB with alpha", "CMYK": "CMYK",
    "I;16": "16 bit grey", "I;16B": "16 bit grey", "I": "32 bit grey", "F": "float grey", "LA": "grey with alpha",
}  # fmt: skip
# Decoders raise whatever the bytes lead them to.
_NO_PICTURE: Final = (
    UnidentifiedImageError,
    Image.DecompressionBombError,
    OSError,
    ValueError,
    SyntaxError,
    EOFError,
    TypeError,
    MemoryError,
)
DRAWING: Final = threading.BoundedSemaphore(2)
"""Held by who draws, from before the pixels are read: a whole picture is in memory, and two at once bound what a web
process takes."""


def shrink(data: bytes, edge: int) -> bytes | None:
    """Return the picture as WebP with no side longer than `edge` pixels; None when it is no picture that we read.

    Only pixels go through: whatever else the file holds stays behind. `DRAWING` is held.
    """
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
            if picture.width * picture.height > MAX_PIXELS:
                return None
            picture.draft("RGB", (edge, edge))
            small = _visible(picture)
            small.thumbnail((edge, edge))
            small = ImageOps.exif_transpose(small)
            out = io.BytesIO()
            small.save(out, "WEBP", quality=82, lossless=max(small.size) <= _SHARP_EDGE)
            return out.getvalue()
    except _NO_PICTURE:
        return None


def describe(head: bytes) -> str:
    """Return width, height and kind of pixels by the beginning of the file; empty when it does not say."""
    try:
        with Image.open(io.BytesIO(head), formats=FORMATS) as picture:
            pixels = _MODES.get(picture.mode, picture.mode)
            return f"{picture.width} \N{MULTIPLICATION SIGN} {picture.height}, {pixels}"
    except _NO_PICTURE:
        return ""


def draw_grey(rows: "NDArray[Any]", edge: int, *, is_inverted: bool = False) -> bytes:
    """Return a table of numbers as a grey WebP, spread from black to white; what is no number is black.

    `DRAWING` is held.
    """
    # One copy, which all that follows changes in place.
    grey = np.nan_to_num(rows.astype(np.float64), copy=False, nan=0, posinf=0, neginf=0)
    low, high = float(grey.min()), float(grey.max())
    grey -= high if is_inverted else low
    grey *= (-255 if is_inverted else 255) / (high - low) if high > low else 0
    picture = Image.fromarray(grey.astype(np.uint8))
    picture.thumbnail((edge, edge))
    out = io.BytesIO()
    picture.save(out, "WEBP", quality=82)
    return out.getvalue()


def _visible(picture: Image.Image) -> Image.Image:
    """Return the picture in a mode that a browser shows; deep greys are spread from black to white."""
    if picture.mode.startswith(("I", "F")):
        grey = picture.convert("F")
        low, high = grey.getextrema()
        scale = 255 / (high - low) if high > low else 0  # type: ignore[operator]  # one band: a pair of numbers
        return grey.point(lambda value: value * scale - low * scale).convert("L")  # type: ignore[operator]
    return picture.convert("RGBA" if "A" in picture.mode or "transparency" in picture.info else "RGB")
