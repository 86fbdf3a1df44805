"""The keys of a store: which texts are keys, and where the objects of a dataset lie.

Content is named by its hash, so nothing is overwritten. One rule for every adapter, so that no key can mean two things
or leave its root.
"""

import re

_PART = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_KEY = re.compile(rf"{_PART}(/{_PART})*")
_PREFIX = re.compile(rf"({_PART}/)*")


def check_key(key: str) -> None:
    """Raise ValueError unless `key` may name an object."""
    if not _KEY.fullmatch(key):
        raise ValueError(f"{key!r} is not a store key")


def check_prefix(prefix: str) -> None:
    """Raise ValueError unless `prefix` may be listed: empty, or whole parts and a slash at the end."""
    if not _PREFIX.fullmatch(prefix):
        raise ValueError(f"{prefix!r} is not a prefix of store keys")


def dataset_prefix(dataset_id: str) -> str:
    """Return the prefix under which everything of one dataset lies."""
    return f"datasets/{dataset_id}"


def dataset_of_key(key: str) -> tuple[str, str]:
    """Return the dataset that a key of the whole store belongs to, and the key within the dataset; empty for others."""
    folder, _, rest = key.partition("/")
    dataset_id, _, inner = rest.partition("/")
    return (dataset_id, inner) if folder == "datasets" else ("", "")


def pack_key(sha256: str) -> str:
    """Return the key of a pack, by the SHA-256 of its bytes."""
    return f"packs/{sha256[:2]}/{sha256}"


def map_key(sha256: str) -> str:
    """Return the key of the map that stands for a pack whose content lies in files of a source."""
    return f"maps/{sha256[:2]}/{sha256}"


def range_key(range_id: str) -> str:
    """Return the key of a manifest range."""
    return f"ranges/{range_id}"


def root_key(root_id: str) -> str:
    """Return the key of a root: the ordered list of a commit's ranges."""
    return f"roots/{root_id}"


def commit_key(commit_id: str) -> str:
    """Return the key of the copy of a commit's record, from which the database can be rebuilt."""
    return f"commits/{commit_id}"


def record_key(version: int) -> str:
    """Return the key of what the dataset was like at a version of its state; the digits let keys sort by version."""
    return f"records/{version:016d}"
