"""The life of a cached commit as one table, and the groups of states that the rest of caching asks about."""

from enum import StrEnum

from core.states import transitions


class CacheState(StrEnum):
    """Where a cached commit stands. A commit may be cached again after it is gone: that is a new cached commit."""

    QUEUED = "queued"
    PROVISIONING = "provisioning"
    HYDRATING = "hydrating"
    READY = "ready"
    EVICTING = "evicting"
    GONE = "gone"
    FAILED = "failed"


# A worker that dies leaves its row where it stands; the next worker takes it over through `provisioning`. What makes
# way for copies that are needed now is queued again.
LIFE = transitions(
    {
        CacheState.QUEUED: [CacheState.PROVISIONING, CacheState.FAILED, CacheState.EVICTING],
        CacheState.PROVISIONING: [
            CacheState.HYDRATING,
            CacheState.READY,
            CacheState.QUEUED,
            CacheState.FAILED,
            CacheState.EVICTING,
        ],
        CacheState.HYDRATING: [
            CacheState.PROVISIONING,
            CacheState.READY,
            CacheState.QUEUED,
            CacheState.FAILED,
            CacheState.EVICTING,
        ],
        CacheState.READY: [CacheState.EVICTING],
        CacheState.EVICTING: [CacheState.GONE],
        CacheState.FAILED: [CacheState.QUEUED, CacheState.EVICTING],
        CacheState.GONE: [],
    }
)

WORKING = frozenset({CacheState.PROVISIONING, CacheState.HYDRATING})
"""A worker is, or was until it died, filling the copy."""

UNFINISHED = WORKING | {CacheState.QUEUED}
"""Will become ready if nothing goes wrong."""

CURRENT = UNFINISHED | {CacheState.READY, CacheState.FAILED}
"""The one cached commit of its commit on its site: at most one row of a commit and a site is in these states."""

LIVE = LIFE.live
"""Takes, or may take, space on its site."""


def has_begun(state: str, bytes_done: int) -> bool:
    """Say whether the first files of a copy are there, so that what reads it early can begin."""
    return state == CacheState.READY or (state == CacheState.HYDRATING and bytes_done > 0)
