"""Which encoding a text that is no UTF-8 was written in, as far as its beginning tells."""

import codecs
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

UNMARKED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Windows-1252": "cp1252",
        "Latin-1": "latin-1",
        "Windows-1250": "cp1250",
        "Windows-1251": "cp1251",
        "KOI8-R": "koi8-r",
        "Shift-JIS": "cp932",
        "EUC-JP": "euc-jp",
        "GB18030": "gb18030",
        "Big5": "big5hkscs",
        "EUC-KR": "cp949",
    }
)
"""Encodings that bytes do not tell apart, by name, with their codecs: a person may say which one a text is in."""

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig", "UTF-8"),
    (codecs.BOM_UTF32_LE, "utf-32", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16", "UTF-16"),
)
# What no text has: control characters, other than tabs, line ends and form feeds.
_CONTROLS: Final = frozenset(map(chr, {*range(32), 127} - {9, 10, 12, 13}))
_MOSTLY: Final = 0.4
_LONGEST_CUT: Final = 4


def decode_text(head: bytes, *, is_whole: bool, unmarked: str = "") -> tuple[str, str] | None:
    """Return the beginning of a file as text, and the name of its encoding; None when it is no text.

    A character that the end cuts through is left out. What is neither marked nor UTF-8 is read as `unmarked`, if that
    names an encoding; else as Windows-1252, the most common of those with one byte a character.
    """
    for mark, codec, name in _MARKS:
        if head.startswith(mark):
            return _decode(head, codec, name, is_whole=is_whole)
    if b"\0" in head:
        # Of text in western letters every other byte is zero.
        low, high = head[::2].count(0), head[1::2].count(0)
        half = len(head) // 2
        if high > _MOSTLY * half and not low:
            return _decode(head, "utf-16-le", "UTF-16", is_whole=is_whole)
        if low > _MOSTLY * half and not high:
            return _decode(head, "utf-16-be", "UTF-16", is_whole=is_whole)
        return None
    return _decode(head, "utf-8", "", is_whole=is_whole) or _decode_unmarked(head, unmarked, is_whole=is_whole)


def _decode_unmarked(head: bytes, chosen: str, *, is_whole: bool) -> tuple[str, str] | None:
    if chosen in UNMARKED:
        return head.decode(UNMARKED[chosen], "replace"), chosen
    # Some bytes mean nothing in Windows-1252, and most texts in Shift-JIS have one of them. Latin-1, which Windows-1252
    # extends, has controls in their place.
    return (
        _decode(head, "cp1252", "Windows-1252", is_whole=True)
        or _decode(head, "cp932", "Shift-JIS", is_whole=is_whole)
        or _decode(head, "latin-1", "Latin-1", is_whole=True)
    )


def _decode(head: bytes, codec: str, name: str, *, is_whole: bool) -> tuple[str, str] | None:
    try:
        text = head.decode(codec)
    except UnicodeDecodeError as error:
        # The cut may have gone through the middle of a character.
        if is_whole or error.start <= len(head) - _LONGEST_CUT:
            return None
        text = head[: error.start].decode(codec)
    # Nearly all bytes make some text in these encodings.
    is_guessed = codec != "utf-8"
    return None if is_guessed and not _CONTROLS.isdisjoint(text) else (text, name)
