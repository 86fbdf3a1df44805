"""How much of some commits has yet to be moved to the sites that a job reads, and how long that takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from core.units import format_bytes, format_duration


@dataclass(frozen=True)
class SiteCopy:
    """How far one copy of a commit is. `is_coming`: it is being filled, or queued for that.

    `rate_bytes_s` is its own present rate; None: not known.
    """

    bytes_done: int
    is_ready: bool = False
    is_coming: bool = False
    id: str = ""
    rate_bytes_s: float | None = None


@dataclass(frozen=True)
class CommitCopies:
    """A commit, by the name of its dataset, and its copies by site."""

    name: str
    size_bytes: int
    copies: Mapping[str, SiteCopy] = field(default_factory=dict)

    def missing_bytes(self, sites: Sequence[str]) -> int:
        """Return the bytes that the fullest copy on one of these sites lacks."""
        copies = [self.copies[site] for site in sites if site in self.copies]
        if any(copy.is_ready for copy in copies):
            return 0
        return max(0, self.size_bytes - max((copy.bytes_done for copy in copies), default=0))

    def target(self, sites: Sequence[str]) -> str:
        """Return the site that gets or has the copy: the first with a ready one, else with one on its way, else any."""
        copies = {site: self.copies[site] for site in sites if site in self.copies}
        ready = [site for site, copy in copies.items() if copy.is_ready]
        coming = [site for site, copy in copies.items() if copy.is_coming]
        return next(iter([*ready, *coming, *sites]))


@dataclass(frozen=True)
class SiteTraffic:
    """What a site is filling. `queue` holds the bytes that its unfinished copies lack, in their order, by id.

    `is_serial`: it fills one copy after the other. Those `ahead`, for what may be read next, make way for all others
    and come last. `rate_bytes_s` is declared or measured, or `is_assumed`; None: the site is gone. `is_away`: its
    folder is not there now.
    """

    rate_bytes_s: float | None = None
    is_serial: bool = False
    queue: Mapping[str, int] = field(default_factory=dict)
    is_assumed: bool = False
    ahead: frozenset[str] = frozenset()
    is_away: bool = False

    def bytes_before(self, copy_id: str) -> int:
        """Return the bytes that the site moves before it begins this copy; without an id: before a new one."""
        if not self.is_serial:
            return 0
        ids = list(self.queue)
        first = ids[: ids.index(copy_id)] if copy_id in self.queue else [id_ for id_ in ids if id_ not in self.ahead]
        return sum(self.queue[id_] for id_ in first)


@dataclass(frozen=True)
class DataArrival:
    """How much of a job's datasets has yet to be moved, to which site, and in how many seconds all are ready.

    `is_requested`: whatever is missing is on its way already. `ready_in_s` None: no rate is known. `is_assumed`: the
    rate of any of them was neither declared nor measured, so the time is an estimate. `is_away`: the sites are away,
    and nobody knows when they are back.
    """

    total_bytes: int
    missing_bytes: int
    is_ready: bool
    is_requested: bool
    ready_in_s: float | None
    site: str
    rate_bytes_s: float | None = None
    names: tuple[str, ...] = ()
    is_assumed: bool = False
    is_away: bool = False

    def ready_at(self, now: datetime) -> datetime | None:
        """Return when all are ready; None where no rate is known."""
        return None if self.ready_in_s is None else now + timedelta(seconds=self.ready_in_s)

    def describe(self, now: datetime) -> str:
        """Say what still moves, and until when."""
        if self.is_away:
            return f"{format_bytes(self.total_bytes)} wait for {self.site}, which is away."
        if self.is_ready:
            return f"{format_bytes(self.total_bytes)} are ready on {self.site}."
        text = f"{format_bytes(self.missing_bytes)} of {format_bytes(self.total_bytes)} still move to {self.site}"
        if self.rate_bytes_s is not None:
            text += f" at {'an assumed ' * self.is_assumed}{format_bytes(round(self.rate_bytes_s))}/s"
        ready_at = self.ready_at(now)
        if ready_at is None or self.ready_in_s is None:
            return f"{text}. No rate is known yet."
        return f"{text}, ready in about {format_duration(self.ready_in_s)} ({ready_at:%H:%M} UTC)."


def measure_arrival(
    commits: Sequence[CommitCopies], sites: Sequence[str], traffic: Mapping[str, SiteTraffic]
) -> DataArrival:
    """Return how far these commits are on the sites of a resource, of which there is at least one, the nearest first.

    What nobody has requested counts as requested now, in this order. Sites that are away count where all are.
    """
    present = [site for site in sites if not traffic.get(site, SiteTraffic()).is_away]
    is_away, sites = bool(commits) and not present, present or sites
    seconds: list[float | None] = []
    targets: list[tuple[str, float | None]] = []
    requested_bytes: dict[str, int] = {}
    is_requested, is_assumed = True, False
    for commit in commits:
        target = commit.target(sites)
        copy = commit.copies.get(target, SiteCopy(0))
        if copy.is_ready and not is_away:
            continue
        site, missing_bytes = traffic.get(target, SiteTraffic()), max(0, commit.size_bytes - copy.bytes_done)
        before_bytes = site.bytes_before(copy.id)
        if not copy.is_coming:
            is_requested = False
            before_bytes += requested_bytes.get(target, 0) if site.is_serial else 0
            requested_bytes[target] = requested_bytes.get(target, 0) + missing_bytes
        rate_bytes_s = None if is_away else copy.rate_bytes_s or site.rate_bytes_s
        is_assumed = is_assumed or (site.is_assumed and not copy.rate_bytes_s)
        seconds.append(None if rate_bytes_s is None else (before_bytes + missing_bytes) / rate_bytes_s)
        targets.append((target, rate_bytes_s))
    known = [item for item in seconds if item is not None]
    site_name, rate = targets[-1] if targets else (commits[0].target(sites) if commits else sites[0], None)
    return DataArrival(
        total_bytes=sum(commit.size_bytes for commit in commits),
        missing_bytes=sum(commit.missing_bytes(sites) for commit in commits),
        is_ready=not seconds,
        is_requested=is_requested,
        ready_in_s=max(known, default=0.0) if len(known) == len(seconds) else None,
        site=site_name,
        rate_bytes_s=rate,
        names=tuple(commit.name for commit in commits),
        is_assumed=is_assumed,
        is_away=is_away,
    )
