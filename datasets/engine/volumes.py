"""Cached commits on claims of a cluster: what a claim is called, and how large it must be."""

GIB = 2**30
FILES = "files"
"""The folder of a volume that holds the files of the commit; beside it lie the marks of the pods that fill it."""
_SPARE = 1.06
# ONTAP gives one inode for each 32 KiB of a volume: a commit of many small files needs more than its bytes.
_BYTES_PER_FILE = 34 * 1024


def claim_name(copy_id: str) -> str:
    """Return the name of a copy's claim, Job and Secret: the same each time, and that of no other copy."""
    return f"nl-{copy_id.replace('_', '-')}"


def source_of(copy_id: str) -> dict[str, str]:
    """Return what jobs mount to read a copy, as JSON."""
    return {"kind": "volume", "claim": claim_name(copy_id), "sub_path": FILES}


def claim_bytes(*, files: int, size_bytes: int) -> int:
    """Return the size of a claim for a commit, in whole GiB: for its bytes, its inodes, and something to spare."""
    least = max(int(size_bytes * _SPARE), files * _BYTES_PER_FILE, GIB)
    return -(-least // GIB) * GIB
