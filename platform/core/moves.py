"""When a job that waits is worth moving: one answer for jobs, for steps of flows, and for what both are told."""

import math

NOW_S = 1.0
"""What starts within this time starts now."""

_EARLIER_S, _EARLIER = 60.0, 0.5
_LEAST_GAIN_S, _LEAST_GAIN = 60.0, 0.1


def is_much_earlier(there_s: float, here_s: float) -> bool:
    """Return whether a job starts so much earlier elsewhere, in seconds, that its data is worth taking there."""
    return there_s < math.inf and there_s <= here_s * _EARLIER and there_s + _EARLIER_S <= here_s


def is_start_better(there_s: float, here_s: float, *, has_data: bool) -> bool:
    """Return whether a job starts elsewhere now and not here, or with its data much earlier."""
    return here_s > NOW_S and (there_s <= NOW_S or (has_data and is_much_earlier(there_s, here_s)))


def is_end_better(there_s: float, here_s: float) -> bool:
    """Return whether a job is done sooner elsewhere by a time that counts, and by a part of what is left that does.

    Infinite: nobody knows when it is done.
    """
    if here_s == math.inf:
        return there_s < math.inf
    return here_s - there_s >= max(_LEAST_GAIN_S, _LEAST_GAIN * here_s)
