"""Where the objects of a dataset lie in its store: every name is a hash of the content, so nothing is overwritten."""


def dataset_prefix(dataset_id: str) -> str:
    """Return the prefix under which everything of one dataset lies."""
    return f"datasets/{dataset_id}"


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
    """Return the key of the copy of a commit's record, from which the database could be rebuilt."""
    return f"commits/{commit_id}"
