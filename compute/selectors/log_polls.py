"""How often the platform itself reads on in logs that the API server of a cluster has to bring.

Nothing tells it when a pod prints, so it asks: the longer a job is silent, the less often. Where hundreds have printed
nothing yet, they share a number of polls. People who open a log read it at once, whatever is said here. Each process
remembers for itself.
"""

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from compute.adapters import drivers
from compute.models import Job

_PART_OF_SILENCE, _LONGEST_S = 0.25, 300.0
# So many jobs of a project that have printed nothing have a pace of their own. Each one more lengthens the pause of all
# of them, so that they are asked for 20 times a minute together, however many they are. No project slows another down.
_FREE, _PAUSE_OF_EACH_S = 100, 3.0
# Where so many of a project have printed nothing, a new job counts as one more, without a poll.
_MANY = 1000
_MOST = 100_000


@dataclass(frozen=True, slots=True)
class _Poll:
    """When a log was read last, and how long it was. `read` says both of each purpose."""

    project_id: str
    size_bytes: int
    asked_at: float
    printed_at: float
    read: dict[str, tuple[float, int]] = field(default_factory=dict)


_Key = tuple[str, bool]
_guard = threading.Lock()
_polls: dict[_Key, _Poll] = {}
_mute: dict[str, dict[_Key, float]] = {}
"""By project: when each running job was asked for that has printed nothing yet, that of the longest time ago first."""


def is_due(job: Job, purpose: str) -> bool:
    """Whether to read on in the log of a job: at once where that costs little, or where it has just printed.

    Else after a quarter of the time for which it has been silent, and after five minutes at the latest, unless many
    have printed nothing yet. That nothing was there for one purpose counts for all.
    """
    if len(_mute.get(job.project_id, ())) >= _MANY and not job.has_ended and _key(job) not in _polls:
        note(job, purpose, 0)
    return _is_due(_key(job), purpose)


def list_due(job_ids: Iterable[str], purpose: str) -> list[str]:
    """Return those of these running jobs that are due, without reading their rows: they may be thousands."""
    return [job_id for job_id in job_ids if _is_due((job_id, False), purpose)]


def _is_due(key: _Key, purpose: str) -> bool:
    poll = _polls.get(key)
    if poll is None:
        return True
    pause_s = min(_LONGEST_S, _PART_OF_SILENCE * (poll.asked_at - poll.printed_at))
    asked_at, size_bytes = poll.read.get(purpose, (poll.asked_at, 0))
    mute = _mute.get(poll.project_id, {})
    if key in mute:
        pause_s, asked_at = max(pause_s, _pause_of(mute)), poll.asked_at
    return size_bytes < poll.size_bytes or time.monotonic() - asked_at >= pause_s


def note(job: Job, purpose: str, size_bytes: int | None) -> None:
    """Remember how long a log was when it was read; None: it could not be read."""
    if not drivers.get_kind(job.resource.kind).is_remote:
        return
    now, key = time.monotonic(), _key(job)
    with _guard:
        before = _polls.pop(key, None)
        if before is not None and size_bytes in {None, before.size_bytes}:
            poll = replace(before, asked_at=now)
        else:
            poll = _Poll(job.project_id, size_bytes or 0, now, now, before.read if before is not None else {})
        poll.read[purpose] = now, poll.size_bytes
        _polls[key] = poll
        mute = _mute.setdefault(job.project_id, {})
        mute.pop((job.pk, False), None)
        if not (poll.size_bytes or job.has_ended):
            mute[key] = now
        while mute and now - next(iter(mute.values())) > 2 * max(_LONGEST_S, _pause_of(mute)):
            mute.pop(next(iter(mute)))  # nobody asks for it any more: it has ended
        if not mute:
            del _mute[job.project_id]
        if len(_polls) > _MOST:  # the one that was asked for the longest time ago: most likely it has ended
            _polls.pop(next(iter(_polls)))


def _key(job: Job) -> _Key:
    return job.pk, job.has_ended


def _pause_of(mute: Mapping[_Key, float]) -> float:
    return _PAUSE_OF_EACH_S * max(0, len(mute) - _FREE)
