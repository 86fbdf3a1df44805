"""What can be wrong with content: each error is one clear sentence that names the thing it is about."""

from typing import ClassVar


class ContentError(Exception):
    """Content that cannot be trusted or cannot be stored; `code` is stable and meant for programs."""

    code: ClassVar[str] = "content.error"
    hint: ClassVar[str] = ""


class BadPath(ContentError):
    """A name that cannot be carried to every machine, or that would lead out of the tree."""

    code = "content.bad_path"

    def __init__(self, path: bytes, why: str) -> None:
        super().__init__(f"'{path.decode('utf-8', 'backslashreplace')}' {why}.")
        self.path = path
        self.why = why


class BadManifest(ContentError):
    """Bytes that are no manifest range or root of this format, or one that contradicts itself."""

    code = "content.bad_manifest"


class BadPack(ContentError):
    """Bytes that are no pack of this format, or one that contradicts itself."""

    code = "content.bad_pack"


class HashMismatch(ContentError):
    """Bytes whose hash is not the one that they were asked for by."""

    code = "content.hash_mismatch"
    hint = "The stored copy or its transport is damaged. Try again, then run a verification of the dataset."

    def __init__(self, what: str, *, expected: bytes, actual: bytes) -> None:
        super().__init__(f"{what} is damaged: expected {expected.hex()[:16]}, found {actual.hex()[:16]}.")
        self.expected = expected
        self.actual = actual
