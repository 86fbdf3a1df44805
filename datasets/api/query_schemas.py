"""Bodies and answers of the routes of saved queries."""

from datetime import datetime
from typing import Annotated

from ninja import Schema
from pydantic import Field

from core import bounds
from core.bodies import BodySchema
from datasets.api.schemas import Label
from datasets.engine.queries import LONGEST_PATTERN, MOST_PATTERNS, Conditions
from datasets.models import Query

Pattern = Annotated[bounds.Line, Field(max_length=LONGEST_PATTERN)]
Patterns = Annotated[list[Pattern], Field(max_length=MOST_PATTERNS)]
AskedRef = Annotated[
    bounds.Name, Field(max_length=100, description="The branch, tag or commit to ask; empty: what the query says.")
]


class QueryIn(BodySchema):
    """A new query. A file is selected when it meets all that is asked: one of `globs`, one of `types`, all `file_tags`.

    `ref`: the branch, tag or commit that is asked where none is named; empty: the default branch. `types` are endings
    such as `png`. `tags_file`: the CSV, YAML or Parquet file of the commit with the tags; empty: `tags.csv`, `.yaml` or
    `.parquet`.
    """

    name: Label
    ref: AskedRef = ""
    globs: Patterns = []
    contains: Pattern = ""
    regex: Pattern = ""
    types: Patterns = []
    min_size_bytes: bounds.Bytes | None = None
    max_size_bytes: bounds.Bytes | None = None
    file_tags: Patterns = []
    tags_file: Pattern = ""

    def conditions(self) -> Conditions:
        """Return what is asked of each file."""
        return Conditions(
            globs=tuple(self.globs),
            contains=self.contains,
            regex=self.regex,
            types=tuple(self.types),
            min_size_bytes=self.min_size_bytes,
            max_size_bytes=self.max_size_bytes,
            file_tags=tuple(self.file_tags),
            tags_file=self.tags_file,
        )


class QueryOut(Schema):
    """A saved query. `description` says in a line what it asks for; `reference` names what it selects as input."""

    name: str
    ref: AskedRef
    reference: str
    description: str
    globs: list[str]
    contains: str
    regex: str
    types: list[str]
    min_size_bytes: int | None
    max_size_bytes: int | None
    file_tags: list[str]
    tags_file: str
    created_by: str | None
    created_at: datetime

    @classmethod
    def of(cls, query: Query) -> "QueryOut":
        """Describe a query, whose dataset and project are at hand."""
        asked = query.asked
        return cls(
            name=query.name,
            ref=query.ref,
            reference=f"{query.dataset.project.name}/{query.dataset.name}@{query.ref}:{query.name}",
            description=asked.describe(),
            globs=list(asked.globs),
            contains=asked.contains,
            regex=asked.regex,
            types=list(asked.types),
            min_size_bytes=asked.min_size_bytes,
            max_size_bytes=asked.max_size_bytes,
            file_tags=list(asked.file_tags),
            tags_file=asked.tags_file,
            created_by=query.created_by.username if query.created_by else None,
            created_at=query.created_at,
        )


class QueriesOut(Schema):
    """A page of queries, oldest first."""

    items: list[QueryOut]
    next_cursor: str | None


class SelectIn(BodySchema):
    """What to ask."""

    ref: AskedRef = ""
