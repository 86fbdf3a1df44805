"""What of an artifact can be shown beside its name: a picture, the beginning of a text, the first rows of a table.

Pictures are shown by the browser only if they are plain pixels: a file that could hold a script is never one of them.
"""

import csv
import mimetypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from compute.selectors.outputs import mask_beginning
from core.streaming import picture_type
from experiments.models import Experiment
from experiments.selectors.artifacts import ArtifactFile

_TABLES = {"text/csv": ",", "text/tab-separated-values": "\t"}
MAX_BYTES = 64 * 1024
_MAX_ROWS, _MAX_COLUMNS = 50, 30


@dataclass(frozen=True)
class Preview:
    """`kind` is picture, table, text or none; `is_cut`: there is more of it than is shown."""

    kind: str
    text: str = ""
    rows: list[list[str]] = field(default_factory=list)
    is_cut: bool = False


def preview_of(experiment: Experiment, artifact: ArtifactFile, pieces: Iterator[bytes]) -> Preview:
    """Return what can be shown of a file, having read no more of it than that. Secrets of its job are masked."""
    path = artifact.path
    if picture_type(path):
        return Preview("picture")
    head = b""
    while len(head) < MAX_BYTES and (piece := next(pieces, None)) is not None:
        head += piece
    head = head[:MAX_BYTES]
    is_cut = len(head) < artifact.size_bytes
    head = mask_beginning(experiment.job, head, is_cut=is_cut)
    # The cut may have gone through the middle of a character.
    text = head.decode(errors="ignore" if is_cut else "replace")
    if "\0" in text or "\N{REPLACEMENT CHARACTER}" in text or (head and not text):
        return Preview("none")
    delimiter = _TABLES.get(mimetypes.guess_type(path)[0] or "")
    if delimiter:
        lines = text.splitlines()[: -1 if is_cut else None]
        rows = [row[:_MAX_COLUMNS] for row in islice(csv.reader(lines, delimiter=delimiter), _MAX_ROWS)]
        return Preview("table", rows=rows, is_cut=is_cut or len(lines) > _MAX_ROWS)
    return Preview("text", text=text, is_cut=is_cut)
