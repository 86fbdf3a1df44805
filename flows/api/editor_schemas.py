"""What the routes behind the flow editor take and answer."""

from datetime import datetime
from typing import Annotated

from ninja import Schema
from pydantic import Field

from core import bounds
from core.bodies import BodySchema
from flows.engine.layout import MAX_EDGES, MAX_NODES

Pixels = Annotated[float, Field(ge=-1_000_000, le=1_000_000)]

Place = tuple[Pixels, Pixels]


class WritingIn(BodySchema):
    """What somebody has written. `key` is the flow's name, or one that starts with '~' for a new flow.

    `layout` holds the left upper corners of the nodes in pixels; `base_version` is the number of the version that the
    writing began from, null for a new flow; `example` names the example whose code it needs.
    """

    project: bounds.Name
    key: str = Field(min_length=1, max_length=64)
    text: bounds.FileText
    layout: dict[bounds.Name, Place] = Field({}, max_length=MAX_NODES)
    base_version: bounds.Count | None = None
    example: str = Field(default="", max_length=63)


class DraftIn(WritingIn):
    """A draft to keep. `revision` is that of the draft it follows; 0: there is none."""

    revision: bounds.Count = 0


class DraftOut(Schema):
    """One's own unsaved text of a flow."""

    key: str
    text: str
    layout: dict[str, Place]
    base_version: int | None
    example: str
    revision: int
    updated_at: datetime


class KeptOut(Schema):
    """A draft is kept. `newest_version` is that of the flow now, null while it has none."""

    revision: int
    updated_at: datetime
    newest_version: int | None


class PublishedOut(Schema):
    """The version that has what was written; `newest_version` is another one where an older version says the same."""

    flow: str
    number: int
    hash: str
    newest_version: int


class GraphIn(BodySchema):
    """The parents of every node."""

    parents: dict[bounds.Name, Annotated[list[bounds.Name], Field(max_length=MAX_EDGES)]] = Field(max_length=MAX_NODES)


class PlacesOut(Schema):
    """The left upper corner of every node in pixels."""

    places: dict[str, tuple[int, int]]


class ShelfOut(Schema):
    """Steps to take over. `needs_code`: they run files that came with their flow or example."""

    flow: str
    title: str
    is_example: bool
    needs_code: bool
    steps: list[dict[str, object]]


class LibraryOut(Schema):
    """Steps that were written before: in flows of the project, and in the examples that ship with the product."""

    shelves: list[ShelfOut]
