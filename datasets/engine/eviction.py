"""Which copies leave a cache site, and when: by idleness, and when space is needed.

Copies of one dataset share files, so what a departure frees is not what the copy weighs. `freed_by` promises a lower
bound without reading the files: each copy knows from which other one it was made and how much they share.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta


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
    """Decide which copies leave so that `need_bytes` fit: failed ones, then the least recently used, none in vain.

    With `max_volumes` each copy is a volume, and `need_volumes` more must be possible as well. Copies in `keep` stay as
    if they were in use. What is needed now goes before what may be read next; for what `is_ahead` itself none of those
    leaves. Same input, same plan.
    """

    def missing_without(gone: Collection[str]) -> tuple[int, int]:
        """Return how many bytes and volumes are missing once these copies have left."""
        missing_bytes = max(0, need_bytes - _free_without(copies, capacity_bytes, gone))
        if max_volumes is None or not need_volumes:
            return missing_bytes, 0
        return missing_bytes, max(0, need_volumes + len(_volumes_without(copies, gone)) - max_volumes)

    leaving = {copy.id for copy in copies if copy.is_leaving}
    free = _free_without(copies, capacity_bytes, leaving)
    if not any(missing_without(leaving)):
        return EvictionPlan(need_bytes, free)
    may_leave = [
        copy
        for copy in copies
        if not copy.is_leaving
        and copy.id not in keep
        and (find_obstacle(copy) is None or (copy.makes_way and not is_ahead))
    ]
    chosen: list[str] = []
    for copy in sorted(may_leave, key=_turn):
        chosen.append(copy.id)
        if not any(missing_without(leaving.union(chosen))):
            break
    else:
        gone = leaving.union(chosen)
        missing_bytes, missing_volumes = missing_without(gone)
        held = _volumes_without(copies, gone) & gone if missing_volumes else set()
        obstacles = _list_obstacles([copy for copy in copies if copy not in may_leave or copy.id in held], keep, held)
        return EvictionPlan(
            need_bytes, free, missing_bytes=missing_bytes, missing_volumes=missing_volumes, obstacles=obstacles
        )
    for spared in reversed(chosen[:-1]):
        if not any(missing_without(leaving.union(chosen) - {spared})):
            chosen.remove(spared)
    freed = _free_without(copies, capacity_bytes, leaving.union(chosen)) - free
    return EvictionPlan(need_bytes, free, tuple(chosen), freed)


def freed_by(copies: Sequence[Copy], gone: Collection[str]) -> int:
    """Return how many of the charged bytes are free at least once the copies in `gone` have left.

    What stays is bounded from above: each staying copy in full, less what it surely has in common with one staying copy
    counted before it. Two copies joined through others have at least the sum of the shared bytes on the way in common,
    less the sizes of the copies between them.
    """
    if not gone:
        return 0
    by_id = {copy.id: copy for copy in copies}
    heirs: dict[str, int] = {}
    stays = 0
    for copy in _bases_first(copies, by_id):
        if copy.id in gone:
            continue
        stays += copy.size_bytes - _surely_common(copy, by_id, gone, heirs)
    return max(0, sum(copy.charged_bytes for copy in copies) - stays)


def _surely_common(copy: Copy, by_id: dict[str, Copy], gone: Collection[str], heirs: dict[str, int]) -> int:
    """Return what `copy` surely shares with an earlier staying copy; note it as an heir of the leaving ones above."""
    best = 0
    bound, above = copy.shared_bytes, copy.base_id
    notes: list[tuple[str, int]] = []
    while above is not None and above in by_id and bound > 0:
        base = by_id[above]
        if base.id not in gone:
            best = max(best, bound)
            break
        best = max(best, bound + heirs.get(base.id, 0) - base.size_bytes)
        notes.append((base.id, bound))
        bound, above = bound + base.shared_bytes - base.size_bytes, base.base_id
    for id_, common in notes:
        heirs[id_] = max(heirs.get(id_, 0), common)
    return best


def _bases_first(copies: Sequence[Copy], by_id: dict[str, Copy]) -> list[Copy]:
    ordered: dict[str, Copy] = {}
    for copy in copies:
        chain: list[Copy] = []
        step: Copy | None = copy
        while step is not None and step.id not in ordered:
            chain.append(step)
            step = by_id.get(step.base_id) if step.base_id is not None else None
        ordered.update((link.id, link) for link in reversed(chain))
    return list(ordered.values())


def _free_without(copies: Sequence[Copy], capacity_bytes: int, gone: Collection[str]) -> int:
    return capacity_bytes - sum(copy.charged_bytes for copy in copies) + freed_by(copies, gone)


def _volumes_without(copies: Sequence[Copy], gone: Collection[str]) -> set[str]:
    """Return the copies whose volumes are there once those in `gone` have left: a volume goes after its clones."""
    origins = {copy.id: copy.clone_of for copy in copies}
    volumes: set[str] = set()
    for copy in copies:
        id_: str | None = copy.id if copy.id not in gone else None
        while id_ is not None and id_ in origins and id_ not in volumes:
            volumes.add(id_)
            id_ = origins[id_]
    return volumes


def _list_obstacles(copies: Sequence[Copy], keep: Collection[str], held: Collection[str]) -> tuple[Obstacle, ...]:
    obstacles = []
    for copy in sorted(copies, key=_turn):
        reason = find_obstacle(copy) or ("needed for the new copy" if copy.id in keep else None)
        if copy.id in held:
            reason = "its volume goes after its clones"
        if reason is not None and (copy.id in held or not copy.is_leaving):
            obstacles.append(Obstacle(copy.id, copy.label, copy.charged_bytes, reason))
    return tuple(obstacles)


def _turn(copy: Copy) -> tuple[bool, bool, datetime, str]:
    return (copy.makes_way, not copy.is_failed, copy.last_used_at, copy.id)
