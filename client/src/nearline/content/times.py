"""Times of files, as they are carried."""

LIMIT_NS = 1 << 63


def carried_ns(mtime_ns: int) -> int:
    """Return when a file was changed: beyond the years 1677 and 2262 the nearest time that 64 bits hold.

    Windows shares and broken clocks leave such times.
    """
    return max(-LIMIT_NS, min(mtime_ns, LIMIT_NS - 1))
