"""How often the platform itself reads on in logs that the API server of a cluster has to bring.

Nothing tells it when a pod prints, so it asks: the longer a job is silent, the less often. People who look at a log
read it at once, whatever is said here. Each process remembers for itself.
"""

import threading
import time
from dataclasses import dataclass

from compute.adapters import drivers
from compute.models import Job

_PART_OF_SILENCE, _LONGEST_S = 0.25, 300.0
_MOST = 100_000


@dataclass(frozen=True, slots=True)
class _Poll:
    size_bytes: int
    asked_at: float
    printed_at: float


_guard = threading.Lock()
_polls: dict[tuple[str, str], _Poll] = {}


def is_due(job: Job, purpose: str) -> bool:
    """Whether to read on in the log of a running job: at once where that costs little, or where it has just printed.

    Else after a quarter of the time for which it has been silent, and after five minutes at the latest.
    """
    poll = _polls.get((job.pk, purpose))
    if poll is None:
        return True
    pause_s = min(_LONGEST_S, _PART_OF_SILENCE * (poll.asked_at - poll.printed_at))
    return time.monotonic() - poll.asked_at >= pause_s


def note(job: Job, purpose: str, size_bytes: int | None) -> None:
    """Remember how long a log was when it was read; None: it could not be read."""
    if not drivers.get_kind(job.resource.kind).is_remote:
        return
    now, key = time.monotonic(), (job.pk, purpose)
    with _guard:
        before = _polls.pop(key, None)
        if before is not None and size_bytes in {None, before.size_bytes}:
            _polls[key] = _Poll(before.size_bytes, now, before.printed_at)
        else:
            _polls[key] = _Poll(size_bytes or 0, now, now)
        if len(_polls) > _MOST:  # the one that was asked for the longest time ago: most likely it has ended
            _polls.pop(next(iter(_polls)))
