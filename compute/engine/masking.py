"""Replacing secrets in a stream of bytes, whatever the borders of its chunks.

It imports next to nothing: the process beside a job masks its output, and holds as little as it can.
"""

from bisect import bisect_right

MASK = b"***"


class Mask:
    """Replaces every occurrence of some byte strings by `***`. Occurrences that overlap become one `***`."""

    def __init__(self, needles: list[bytes]) -> None:
        self._needles = sorted(needles)
        self._first_bytes = {needle[0] for needle in needles}
        self._longest_start = max(map(len, needles), default=1) - 1
        self._rest = b""
        self._is_inside = 0  # so many of the rest's first bytes belong to an occurrence that is replaced already

    def feed(self, data: bytes) -> bytes:
        """Return what can be passed on. An end that may be the beginning of a secret waits for the next chunk."""
        if not self._needles:
            return data
        data = self._rest + data
        safe = self._safe_end(data)
        return self._replace(data, safe)

    def finish(self) -> bytes:
        """Return what waits. No more follows."""
        return self._replace(self._rest, len(self._rest))

    def _safe_end(self, data: bytes) -> int:
        """Return where the longest end of `data` begins that is the beginning of a secret."""
        for start in range(max(0, len(data) - self._longest_start), len(data)):
            if data[start] in self._first_bytes:
                tail = data[start:]
                # Whatever begins with `tail` and is longer comes next to it in the order.
                place = bisect_right(self._needles, tail)
                if place < len(self._needles) and self._needles[place].startswith(tail):
                    return start
        return len(data)

    def _replace(self, data: bytes, safe: int) -> bytes:
        """Return `data` up to `safe`, masked; keep the rest."""
        spans = sorted(self._spans(data))
        parts, passed, inside = [], self._is_inside, self._is_inside
        for start, end in spans:
            if start >= safe:
                break
            if start >= inside:  # not a part of the occurrence before
                parts += [data[passed:start], MASK]
            passed = inside = max(inside, end)
        parts.append(data[passed:safe])
        self._rest, self._is_inside = data[safe:], max(0, inside - safe)
        return b"".join(parts)

    def _spans(self, data: bytes) -> list[tuple[int, int]]:
        spans = []
        for needle in self._needles:
            start = data.find(needle)
            while start >= 0:
                spans.append((start, start + len(needle)))
                start = data.find(needle, start + 1)
        return spans


def mask(data: bytes, needles: list[bytes]) -> bytes:
    """Return `data` with every secret in it replaced."""
    stream = Mask(needles)
    return stream.feed(data) + stream.finish()
