"""What the routes of parts take and answer."""

from collections.abc import Sequence

from ninja import Field, Schema

from core.bodies import BodySchema
from core.pagination import decode_cursor, encode_cursor
from datasets.api.schemas import Hash
from datasets.services.upload_parts import ArrivedPart, ReceivedPart
from nearline.content.manifest import Entry
from nearline.content.paths import to_text

PARTS_IN_A_PAGE = 20

_NS_PER_MS = 1_000_000


class PartOut(Schema):
    """What the server has of a part. `next_offset`: where its large file goes on; null when the part is complete."""

    files: int
    size_bytes: int
    next_offset: int | None

    @classmethod
    def of(cls, part: ReceivedPart) -> "PartOut":
        """Describe a part."""
        return cls(files=part.files, size_bytes=part.size_bytes, next_offset=part.next_offset)


class ArrivedFileOut(Schema):
    """A file that came whole."""

    path: str
    size_bytes: int
    mtime_ms: int

    @classmethod
    def of(cls, entry: Entry) -> "ArrivedFileOut":
        """Describe a file."""
        return cls(path=to_text(entry.path), size_bytes=entry.size, mtime_ms=entry.mtime_ns // _NS_PER_MS)


class UnfinishedFileOut(Schema):
    """A large file of which `size_bytes` came in the part `number`."""

    number: int
    path: str
    size_bytes: int
    mtime_ms: int


class ArrivedOut(Schema):
    """Files that came, of some parts; `next_number` of the last page is the first number that no part has."""

    items: list[ArrivedFileOut]
    unfinished: list[UnfinishedFileOut]
    next_number: int
    next_cursor: str | None

    @classmethod
    def of(cls, parts: Sequence[ArrivedPart]) -> "ArrivedOut":
        """Describe a page of parts, and say where the next begins if there is one part too many."""
        shown = parts[:PARTS_IN_A_PAGE]
        last = shown[-1].number if shown else -1
        answer = cls(
            items=[],
            unfinished=[],
            next_number=last + 1,
            next_cursor=encode_cursor(last) if len(parts) > len(shown) else None,
        )
        for part in shown:
            files = [ArrivedFileOut.of(entry) for entry in part.entries]
            if part.is_complete:
                answer.items += files
            else:
                answer.unfinished += [UnfinishedFileOut(number=part.number, **file.model_dump()) for file in files]
        return answer


def read_cursor(cursor: str | None) -> int:
    """Return the number of the part that a page begins after. Raises InvalidInput."""
    return decode_cursor(cursor, int) if cursor else -1


class PartsCommitIn(BodySchema):
    """The end of an upload by parts: the commit that the branch is expected to be at; null: none."""

    expected_head: Hash | None
    message: str = Field(default="", max_length=10_000)
