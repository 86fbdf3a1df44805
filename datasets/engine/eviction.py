"""Which copies leave a cache site, and when: by idleness, and when space is needed.

Copies of one dataset share files, so what a departure frees is not what the copy weighs. `EvictionPlan.freed_bytes` is
a lower bound, found without reading the files: each copy knows from which other one it was made and how much they
share. The more leave the more is free, by this bound too, so victims are chosen one by one.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice


@dataclass(frozen=True)
class Copy:
    """One cached commit as eviction sees it.

    `size_bytes` is what all its files weigh; `charged_bytes` is its part of what the site has promised, shared files
    being charged to one copy only. `base_id` names the copy it was made from, with which it shares `shared_bytes`.
    `clone_of` is the copy whose volume its own is cloned from, which the storage keeps as long as the clone is there.
    `idle_days` of 0 means that idleness never evicts it. `users` says in words who holds it. One that `makes_way` is
    held only for what may be read next, and leaves, after all others, when space is needed now.
    """

    id: str
    label: str
    size_bytes: int
    charged_bytes: int
    last_used_at: datetime
    idle_days: float
    base_id: str | None = None
    shared_bytes: int = 0
    clone_of: str | None = None
    is_pinned: bool = False
    is_unfinished: bool = False
    is_failed: bool = False
    is_leaving: bool = False
    users: tuple[str, ...] = ()
    makes_way: bool = False


@dataclass(frozen=True)
class Obstacle:
    """A copy that may not leave, how much it is charged, and why it stays."""

    id: str
    label: str
    charged_bytes: int
    reason: str


@dataclass(frozen=True)
class EvictionPlan:
    """What would be evicted, in order, and what that frees at least.

    `missing_bytes` or `missing_volumes` above 0 means that no permitted departures suffice: then nothing leaves and
    `obstacles` says why.
    """

    need_bytes: int
    free_bytes: int
    victims: tuple[str, ...] = ()
    freed_bytes: int = 0
    missing_bytes: int = 0
    missing_volumes: int = 0
    obstacles: tuple[Obstacle, ...] = ()

    @property
    def is_sufficient(self) -> bool:
        """Whether what is needed is there once the victims have left."""
        return self.missing_bytes == self.missing_volumes == 0


def find_obstacle(copy: Copy) -> str | None:
    """Return why a copy may not leave, in words; None when it may."""
    if copy.is_pinned:
        return "pinned"
    if copy.users:
        return "in use: " + ", ".join(copy.users)
    if copy.is_unfinished:
        return "being cached now"
    return None


def evicts_at(copy: Copy) -> datetime | None:
    """Return when idleness evicts a copy; None while something keeps it or idleness never does."""
    if copy.idle_days == 0 or copy.is_leaving or find_obstacle(copy) is not None:
        return None
    return copy.last_used_at + timedelta(days=copy.idle_days)


def plan_idle_eviction(copies: Iterable[Copy], *, now: datetime) -> list[str]:
    """Return the copies that have been idle for too long, least recently used first."""
    due = [copy for copy in copies if (moment := evicts_at(copy)) is not None and moment <= now]
    return [copy.id for copy in sorted(due, key=_turn)]


def plan_space(
    copies: Sequence[Copy],
    *,
    capacity_bytes: int,
    need_bytes: int,
    max_volumes: int | None = None,
    need_volumes: int = 0,
    keep: Collection[str] = (),
    is_ahead: bool = False,
) -> EvictionPlan:
    """Decide which copies leave so that `need_bytes` fit: failed ones, then the least recently used.

    None leaves whose departure would not help. With `max_volumes` each copy is a volume, and `need_volumes` more must
    be possible as well. Copies in `keep` stay as if they were in use. What is needed now goes before what may be read
    next; for what `is_ahead` itself none of those leaves. Same input, same plan.
    """
    leaving = {copy.id for copy in copies if copy.is_leaving}
    remainder = _Remainder(copies, leaving)

    most_volumes = max_volumes - need_volumes if max_volumes is not None and need_volumes else len(copies)

    def missing() -> tuple[int, int]:
        """Return how many bytes and volumes are missing once those have left that have been told to."""
        missing_bytes = max(0, need_bytes - capacity_bytes + remainder.charged_bytes - remainder.freed_bytes)
        return missing_bytes, max(0, len(remainder.volumes) - most_volumes)

    freed_before = remainder.freed_bytes
    free = capacity_bytes - remainder.charged_bytes + freed_before
    if not any(missing()):
        return EvictionPlan(need_bytes, free)
    chosen: list[str] = []
    for id_ in _list_candidates(copies, keep, is_ahead=is_ahead):
        chosen.append(id_)
        remainder.take_out(id_)
        if not any(missing()):
            break
    else:
        missing_bytes, missing_volumes = missing()
        gone = leaving.union(chosen)
        held = remainder.volumes & gone if missing_volumes else set()
        in_the_way = [copy for copy in copies if copy.id not in gone or copy.id in held]
        return EvictionPlan(
            need_bytes,
            free,
            missing_bytes=missing_bytes,
            missing_volumes=missing_volumes,
            obstacles=_list_obstacles(in_the_way, keep, held),
        )
    # What more departures leave behind is never more, so whoever was needed once remains needed.
    victims = chosen[-1:]
    for id_ in reversed(chosen[:-1]):
        if remainder.can_put_back(id_, most_volumes):
            remainder.put_back(id_)
            if not any(missing()):
                continue
            remainder.take_out(id_)
        victims.append(id_)
    return EvictionPlan(need_bytes, free, tuple(reversed(victims)), remainder.freed_bytes - freed_before)


def _list_candidates(copies: Sequence[Copy], keep: Collection[str], *, is_ahead: bool) -> Sequence[str]:
    """Return the ids of the copies that may leave, in the order in which they would."""
    candidates = (
        copy
        for copy in copies
        if not copy.is_leaving
        and copy.id not in keep
        and (find_obstacle(copy) is None or (copy.makes_way and not is_ahead))
    )
    return [copy.id for copy in sorted(candidates, key=_turn)]


class _Remainder:
    """What is left on a site as copies leave, brought up to date with each that goes or comes back.

    The bytes are bounded from above. Of a copy that has left, no more is there than those made from it have in common
    with it, and that of its own files first: only what is more than these is taken from what it shares with its base.
    So each departure frees what it frees, or nothing, but never needs more.
    """

    def __init__(self, copies: Collection[Copy], gone: Collection[str]) -> None:
        self._copies = {copy.id: copy for copy in copies}
        self._gone: set[str] = set()
        self.charged_bytes = sum(copy.charged_bytes for copy in copies)
        self._own = {copy.id: copy.size_bytes - self._shared(copy) for copy in copies}
        self._from_base = {copy.id: self._shared(copy) for copy in copies}
        self._bytes = sum(self._own.values())
        self._used_by_heirs: dict[str, int] = defaultdict(int)
        self._clones: dict[str, int] = defaultdict(int)
        for copy in copies:
            if copy.base_id is not None:
                self._used_by_heirs[copy.base_id] += self._from_base[copy.id]
            if copy.clone_of is not None:
                self._clones[copy.clone_of] += 1
        self.volumes = set(self._copies)
        """The copies whose volumes are there: a volume goes after its clones."""
        for id_ in gone:
            self.take_out(id_)

    @property
    def freed_bytes(self) -> int:
        """How many of the charged bytes are free at least."""
        return max(0, self.charged_bytes - self._bytes) if self._gone else 0

    def take_out(self, id_: str) -> None:
        """Let a copy leave."""
        self._gone.add(id_)
        self._count_bytes(id_)
        step: str | None = id_
        while step in self._gone and not self._clones[step]:
            self.volumes.discard(step)
            step = self._copies[step].clone_of
            if step is not None:
                self._clones[step] -= 1

    def put_back(self, id_: str) -> None:
        """Let a copy stay after all."""
        self._gone.discard(id_)
        self._count_bytes(id_)
        for volume in self._list_returning(id_):
            self.volumes.add(volume)
            origin = self._copies[volume].clone_of
            if origin is not None:
                self._clones[origin] += 1

    def can_put_back(self, id_: str, most_volumes: int) -> bool:
        """Whether there are no more volumes than these with that of a copy. Follows no long line of clones."""
        spare = most_volumes - len(self.volumes)
        return sum(1 for _ in islice(self._list_returning(id_), spare + 1)) <= spare

    def _list_returning(self, id_: str) -> Iterator[str]:
        """Return the copies whose volumes are there again with that of a copy: its own, and those behind it."""
        step: str | None = id_
        while step in self._copies and step not in self.volumes:
            yield step
            step = self._copies[step].clone_of

    def _count_bytes(self, id_: str) -> None:
        """Count anew what is there of a copy, and of those that it was made from as far as that changes them."""
        step: str | None = id_
        while step is not None:
            copy = self._copies[step]
            shared = self._shared(copy)
            there = min(copy.size_bytes, self._used_by_heirs[step]) if step in self._gone else copy.size_bytes
            own = min(there, copy.size_bytes - shared)
            change = there - own - self._from_base[step]
            self._bytes += own - self._own[step]
            self._own[step], self._from_base[step] = own, there - own
            if not change:
                return
            assert copy.base_id is not None  # noqa: S101 (it shares something)
            self._used_by_heirs[copy.base_id] += change
            step = copy.base_id if copy.base_id in self._gone else None

    def _shared(self, copy: Copy) -> int:
        return min(copy.shared_bytes, copy.size_bytes) if copy.base_id in self._copies else 0


def _list_obstacles(copies: Sequence[Copy], keep: Collection[str], held: Collection[str]) -> tuple[Obstacle, ...]:
    obstacles = []
    for copy in sorted(copies, key=_turn):
        reason = find_obstacle(copy) or ("needed for the new copy" if copy.id in keep else None)
        if copy.id in held:
            reason = "its volume stays as long as clones of it do"
        if reason is not None:
            obstacles.append(Obstacle(copy.id, copy.label, copy.charged_bytes, reason))
    return tuple(obstacles)


def _turn(copy: Copy) -> tuple[bool, bool, datetime, str]:
    return (copy.makes_way, not copy.is_failed, copy.last_used_at, copy.id)
