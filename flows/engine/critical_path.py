"""Which chain of steps made a run take as long as it did, and how much of it was waiting."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Span:
    """One instance of a step: how long all its tries waited and ran, and when it ended (None: it has not)."""

    key: str
    index: int
    parents: Sequence[str]
    waited_s: float
    ran_s: float
    finished_at: datetime | None


@dataclass(frozen=True)
class CriticalPath:
    """The chain from its first step to its last, and what its steps spent waiting and running."""

    spans: Sequence[Span]
    waited_s: float
    ran_s: float

    @property
    def instances(self) -> frozenset[tuple[str, int]]:
        """The steps by key and index."""
        return frozenset((span.key, span.index) for span in self.spans)


def find_path(spans: Sequence[Span], now: datetime) -> CriticalPath:
    """Go back from the step that ends last, each time to the parent that ended last. `now` ends what has not ended."""

    def end_of(span: Span) -> datetime:
        return span.finished_at or now

    last_of: dict[str, Span] = {}
    for span in spans:
        if span.key not in last_of or end_of(span) > end_of(last_of[span.key]):
            last_of[span.key] = span
    path: list[Span] = []
    step = max(last_of.values(), key=end_of, default=None)
    while step is not None:
        path.insert(0, step)
        parents = [last_of[parent] for parent in step.parents if parent in last_of]
        step = max(parents, key=end_of, default=None)
    return CriticalPath(path, sum(span.waited_s for span in path), sum(span.ran_s for span in path))
