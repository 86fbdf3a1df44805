"""Previews of whatever a file holds: they never fail, and what they show can be sent."""

import json
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
