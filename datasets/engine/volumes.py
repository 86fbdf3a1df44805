"""Cached commits on claims of a cluster: what a claim is called, and how large it must be."""

import posixpath
from collections.abc import Mapping

GIB = 2**30
POOL = "pool"
"""The setting `sharing` of a site whose copies are folders of one volume; without it each has a volume."""
SHARED = "shared_with"
"""The setting of a site on volumes whose copies jobs in other namespaces read: those, by the ids of their resources."""
FILES = "files"
"""The folder of a volume that holds the files of the commit; beside it lie the marks of the pods that fill it."""
FILL_PODS, BYTES_PER_POD = "fill_pods", "bytes_per_pod"
"""The settings of a site in a cluster that say how many pods fill a copy at most, and how much each is worth."""
MOST_PODS = 64
MAX_VOLUMES = "max_volumes"
"""The setting of a site with a volume for each commit that says how many it has at most; without it any number."""
MOST_VOLUMES = 100_000
_SPARE = 1.06
_FILLING = {FILL_PODS: 4, BYTES_PER_POD: 8 * GIB}
# ONTAP gives one inode for each 32 KiB of a volume: a commit of many small files needs more than its bytes.
_BYTES_PER_FILE = 34 * 1024


def claim_name(copy_id: str) -> str:
    """Return the name of a copy's claim, Job and Secret: the same each time, and that of no other copy."""
    return f"nl-{copy_id.replace('_', '-')}"


def pool_claim_name(site_id: str) -> str:
    """Return the name of the claim that all copies of a site share."""
    return f"nl-pool-{site_id.replace('_', '-')}"


def count_pods(size_bytes: int, config: Mapping[str, object]) -> int:
    """Return how many pods fill a copy of which so many bytes have to be brought, by the settings of its site."""
    most, each = (int(str(config.get(key, usual))) for key, usual in _FILLING.items())
    return max(1, min(most, -(-size_bytes // each)))


def is_pool(config: Mapping[str, object]) -> bool:
    """Say whether the copies of a site on volumes are folders of one volume."""
    return config.get("sharing") == POOL


def source_of(copy_id: str, site_id: str, config: Mapping[str, object]) -> dict[str, str]:
    """Return what jobs mount to read a copy on a claim of its own, or in a folder of that of its site, as JSON."""
    claim, folder = claim_name(copy_id), FILES
    if is_pool(config):
        claim, folder = pool_claim_name(site_id), f"{copy_id}/{FILES}"
    shared = {key: str(config[key]) for key in ("namespace", "storage_class") if config.get(SHARED)}
    return {"kind": "volume", "claim": claim, "sub_path": folder, **shared}


def export_source_of(copy_id: str, config: Mapping[str, object]) -> dict[str, str]:
    """Return what jobs mount to read a copy that is a folder of an NFS export, as JSON."""
    server, path = str(config["server"]), str(config["path"])
    return {"kind": "nfs_export", "server": server, "path": path, "sub_path": f"{copy_id}/{FILES}"}


def existing_source_of(config: Mapping[str, object]) -> dict[str, str]:
    """Return what jobs mount to read files that are not ours, as JSON."""
    where = {"sub_path": str(config.get("folder", ""))}
    if config.get("claim"):
        return {"kind": "volume", "claim": str(config["claim"]), **where}
    return {"kind": "nfs_export", "server": str(config["server"]), "path": str(config["path"]), **where}


def folder_fault(folder: str) -> str:
    """Say why a text is no folder of a volume; empty: it is one, or the top."""
    if not folder or (posixpath.normpath(folder) == folder and not folder.startswith(("/", "."))):
        return ""
    return f"A folder is given without '/' or '.' before it, unlike '{folder}'."


def claim_bytes(*, files: int, size_bytes: int) -> int:
    """Return the size of a claim for a commit, in whole GiB: for its bytes, its inodes, and something to spare."""
    least = max(int(size_bytes * _SPARE), files * _BYTES_PER_FILE, GIB)
    return -(-least // GIB) * GIB
