"""Names of branches, tags and queries, and the grammar of dataset references.

`project/dataset[@branch|tag|commit|latest]`, and behind a colon a query of the dataset: `project/dataset@main:lungs`,
or `project/dataset@:lungs` where the query says what it is asked of.
"""

import re
from dataclasses import dataclass

from datasets.errors import InvalidLabel, InvalidReference

LATEST = "latest"
SHORTEST_COMMIT_PREFIX = 6
COMMIT_ID_LENGTH = 64

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_COMMIT_PREFIX = re.compile(rf"[0-9a-f]{{{SHORTEST_COMMIT_PREFIX},{COMMIT_ID_LENGTH}}}")
_REFERENCE = re.compile(r"(?P<project>[a-z][a-z0-9-]{0,62})/(?P<dataset>[a-z][a-z0-9-]{0,62})(@(?P<ref>.+))?")


@dataclass(frozen=True)
class DatasetReference:
    """A parsed reference. `ref` is `latest` when the text names none, `query` empty.

    With a query, `ref` is empty where the text names none: the query says what it is asked of.
    """

    project: str
    dataset: str
    ref: str
    query: str = ""


def parse_reference(text: str) -> DatasetReference:
    """Take a reference apart. Raises InvalidReference."""
    match = _REFERENCE.fullmatch(text.strip())
    if match is None:
        raise InvalidReference(f"'{text}' does not name a dataset.")
    ref, colon, query = (match["ref"] or "").partition(":")
    if colon and not query:
        raise InvalidReference(f"'{text}' names no query behind its colon.")
    return DatasetReference(match["project"], match["dataset"], ref or ("" if query else LATEST), query)


def check_label(name: str) -> None:
    """Raise InvalidLabel unless `name` may name a branch, a tag or a query."""
    if name == LATEST or (len(name) == COMMIT_ID_LENGTH and _COMMIT_PREFIX.fullmatch(name)):
        raise InvalidLabel(f"'{name}' has a meaning of its own and cannot name a branch, a tag or a query.")
    if not _LABEL.fullmatch(name):
        raise InvalidLabel(
            f"'{name}' cannot name a branch, a tag or a query: use letters, digits, dots, dashes and underscores, "
            "up to 100, starting with a letter or a digit."
        )


def may_be_commit(ref: str) -> bool:
    """Say whether `ref` can be a commit id or the beginning of one."""
    return _COMMIT_PREFIX.fullmatch(ref) is not None
