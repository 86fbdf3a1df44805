"""Where the objects of a dataset lie in its store: content is named by its hash, so nothing is overwritten."""


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
