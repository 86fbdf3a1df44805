"""The outlook of a waiting job in one sentence: why it waits, until when, where its data is, where else it could go.

Its facts are made in the background and read for each person, who may not see the names of strangers' work.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from core.units import ONE_GPU, format_bytes, format_cpu, format_duration, format_gpus

STRANGER = "another project"
_NOW_S, _SOON_S, _SAME_S = 5.0, 60.0, 60.0
_GPU, _CPU = "gpu", "cpu"
_NAMED = 2


@dataclass(frozen=True)
class HeldShare:
    """What a project holds of what decides about a job, and may hold: thousandths of GPUs, or of CPU cores.

    `quota` None: without bound.
    """

    project: str
    held: int
    quota: int | None
    fair: int
    resource: str


@dataclass(frozen=True)
class HolderEnd:
    """A job that holds what another one waits for, and when it gives it back. `is_ahead`: it waits, and goes first.

    `has_priority`: it is of the same project and has a higher priority. `is_borrowing`: its project holds more than its
    quota and its fair share; `is_over_quota`: more than its quota.
    `job` and `project` are those of a stranger where the reader may not see them.
    """

    job: str
    project: str
    gpu_milli: int
    ends_at: datetime | None
    is_borrowing: bool
    is_ahead: bool
    has_priority: bool = False
    is_over_quota: bool = False


@dataclass(frozen=True)
class StoppedJob:
    """A job that is stopped for another one, at `at`; `code` says by which rule. It is queued again.

    `goes_on`: it only gives back some of its replicas.
    """

    job: str
    project: str
    code: str
    at: datetime | None
    goes_on: bool = False


@dataclass(frozen=True)
class DataState:
    """The datasets of a job at one place. `ready_at` None: no rate is known, and nothing of it where all is ready.

    `is_assumed`: the rate was neither declared nor measured, so all times at this place are estimates. `is_away`: the
    site is away.
    """

    total_bytes: int
    missing_bytes: int
    site: str
    ready_at: datetime | None
    is_assumed: bool = False
    is_away: bool = False


@dataclass(frozen=True)
class Place:
    """Where a job could run: when it would start and be done there, in one half of all cases; None: not known.

    `is_chosen`: it waits there. `is_fallback`: its step names it. `cost` None: nothing is known, or it has no price.
    `pool` is named where labels divide the resource among several.
    """

    template: str
    resource: str
    starts_at: datetime | None
    late_at: datetime | None
    run_s: float | None
    finishes_at: datetime | None
    is_chosen: bool
    is_fallback: bool
    data: DataState | None
    cost: float | None = None
    pool: str = ""

    @property
    def words(self) -> str:
        """What it is called: its template, and its pool where that is named."""
        return f"{self.template} in the pool {self.pool}" if self.pool else self.template


@dataclass(frozen=True)
class Outlook:
    """Why a job waits (`wait_class`, a name for programs), and when it starts. `text` says all of it in one sentence.

    `likely_at` and `late_at` are when it has started in one half and in nine tenths of all cases; None: not known.
    `line` is its place in line, from 1. `stops` are the jobs that are stopped for it. `compared` is by how many past
    forecasts, compared with what happened, these times are corrected; 0: there are too few. `ending_s` is how long
    those may take to end that are stopped for it: the times are as if they ended at once.
    """

    wait_class: str
    made_at: datetime
    likely_at: datetime | None
    late_at: datetime | None
    line: int | None
    nodes: Sequence[str]
    asked: HeldShare | None
    asked_milli: int
    holders: Sequence[HolderEnd]
    stops: Sequence[StoppedJob]
    places: Sequence[Place]
    compared: int
    ending_s: float = 0.0
    text: str = ""

    @property
    def chosen(self) -> Place | None:
        """The place where it waits."""
        return next((place for place in self.places if place.is_chosen), None)

    @property
    def has_costs(self) -> bool:
        """Whether any place has a price."""
        return any(place.cost is not None for place in self.places)

    @property
    def runner_up(self) -> Place | None:
        """The best of the other places: where it would be done first."""
        known = [place for place in self.places if not place.is_chosen and place.finishes_at is not None]
        return min(known, key=lambda place: (place.finishes_at, place.words), default=None)


def in_words(outlook: Outlook, *, now: datetime) -> Outlook:
    """Return an outlook with its sentence."""
    parts = [_why(outlook, now), _when(outlook, now), *_data(outlook, now), *_elsewhere(outlook, now)]
    text = "; ".join(part for part in parts if part)
    return replace(outlook, text=f"{text[0].upper()}{text[1:]}.")


def in_words_of_trial(outlook: Outlook, *, now: datetime) -> Outlook:
    """Return the outlook of a job that is only tried, with its sentence."""
    if outlook.likely_at is None or outlook.likely_at > now:
        text = in_words(outlook, now=now).text
        return replace(outlook, text=f"It would not start now: {text[0].lower()}{text[1:]}")
    places = f" on {', '.join(outlook.nodes)}"
    if not outlook.stops:
        return replace(outlook, text=f"It would start now{places}.")
    stopped, smaller = (
        [f"{stop.job} ({stop.project})" for stop in outlook.stops if stop.goes_on is goes_on]
        for goes_on in (False, True)
    )
    needed = [f"{', '.join(stopped)} {'is' if len(stopped) == 1 else 'are'} stopped for it"] if stopped else []
    needed += [f"{', '.join(smaller)} {'has' if len(smaller) == 1 else 'have'} given back replicas"] if smaller else []
    time = f", which may take up to {format_duration(outlook.ending_s)}" if outlook.ending_s >= _SOON_S else ""
    return replace(outlook, text=f"It would start{places} as soon as {' and '.join(needed)}{time}.")


_WHY = {
    "data": "this job waits for its data",
    "over_share": "this job is beyond the share of its project{own} and waits for {asked}{held}",
    "quota": "this job is not preemptible, so it has to stay within its quota{quota}, and waits for {asked}{held}",
    "limit": "this job waits for {asked} within the limit of its project{held}",
    "affinity": "this job waits for {asked} on nodes where it may run{held}",
    "guard": "this job waits for {asked} that are reserved for a bigger job",
    "stopping": "this job waits for {asked} of jobs that are being stopped",
    "nodes": "this job waits for {asked} on nodes that are drained or do not answer",
    "never": "the nodes can never give this job {asked}, even when they are empty",
    "next_cycle": "this job waits for the next cycle, as {asked} have just become free",
    "fragmented": "this job waits for {asked} on one node, and as many are free but not together{held}",
    "starved": "this job waits for {asked}{held}, though {project} is below its quota",
    "by_right": "this job waits for {asked}{held}",
    "borrowed": "this job waits for {asked}{held}",
}


def _why(outlook: Outlook, now: datetime) -> str:
    own = outlook.asked
    words = {
        "asked": _amount(outlook.asked_milli, own.resource if own is not None else _GPU),
        "own": _own(own, outlook.asked_milli) if own is not None else "",
        "quota": _quota(own, outlook.asked_milli) if own is not None else "",
        "project": own.project if own is not None else "its project",
        "held": _held_by(outlook, now),
    }
    return _WHY[outlook.wait_class].format(**words)


def _quota(own: HeldShare, asked: int) -> str:
    if own.quota is None or own.held + asked <= own.quota:
        return ""  # that of its department is passed
    return f" ({own.project} has {_amount(own.quota, own.resource)})"


def _own(own: HeldShare, asked: int) -> str:
    share = own.fair if own.quota is None else max(own.quota, own.fair)
    # One that holds no more than its share goes beyond it by this job alone.
    then = f" and would hold {_number(own.held + asked, own.resource)} with this job" if own.held <= share else ""
    fair = f"its fair share is {_number(own.fair, own.resource)}" if share == own.fair != own.quota else ""
    quota = f"its quota {'' if fair else 'is '}{_number(own.quota, own.resource)}" if own.quota is not None else ""
    bounds = " and ".join(filter(None, (fair, quota)))
    return f" ({own.project} holds {_amount(own.held, own.resource)}{then}, but {bounds})"


def _held_by(outlook: Outlook, now: datetime) -> str:
    """Name who holds what is waited for, by which right, and until when; how much of it, where that is a part."""
    if not outlook.holders:
        return ""
    last = outlook.holders[0]
    same = [holder for holder in outlook.holders if (holder.project, holder.is_ahead) == (last.project, last.is_ahead)]
    others = len({(holder.project, holder.is_ahead) for holder in outlook.holders}) - 1
    more = f" and {len(same) - _NAMED} more" if len(same) > _NAMED else ""
    jobs = "" if last.project == STRANGER else f" ({', '.join(holder.job for holder in same[:_NAMED])}{more})"
    who = last.project + jobs + (f" and {others} more" if others else "")
    end = "" if others else "s"
    held = sum(holder.gpu_milli for holder in outlook.holders)
    is_part = 0 < held < outlook.asked_milli and (outlook.asked is None or outlook.asked.resource == _GPU)
    that, part = (f", of which {who}", f" {_number(held, _GPU)}") if is_part else (f" that {who}", "")
    until = f" until {about(last.ends_at, now)}" if last.ends_at is not None else ""
    if last.is_ahead:
        why = " by priority" if last.has_priority and not others else ""
        return f"{that} get{end}{part} first{why} and keep{end}{until}"
    if outlook.stops:
        return f"{that} borrow{end}{part} and give{end} back {_until_stop(outlook.stops, now)}"
    if last.is_borrowing:
        back = about(last.ends_at, now) if last.ends_at is not None else "at its end"
        return f"{that} borrow{end}{part} and give{end} back {back}"
    return f"{that} hold{end}{part}{_right(last, outlook.asked, is_one=not others)}{until}"


def _right(holder: HolderEnd, own: HeldShare | None, *, is_one: bool) -> str:
    if own is not None and holder.project == own.project:
        return ""
    if holder.is_over_quota:
        return f" within {'its' if is_one else 'their'} fair share"
    return " by right"


def _until_stop(stops: Sequence[StoppedJob], now: datetime) -> str:
    """Say when the first job is stopped: later than now where a claim delay or a minimum run time has to pass."""
    left_s = min(((stop.at - now).total_seconds() for stop in stops if stop.at is not None), default=0.0)
    return "now" if left_s < _NOW_S else f"in {format_duration(left_s)}"


def _when(outlook: Outlook, now: datetime) -> str:
    if outlook.wait_class == "never":
        return ""
    if outlook.likely_at is None:
        return _why_unknown(outlook)
    text = f"it starts {about(outlook.likely_at, now)}{_late_ends(outlook)}"
    if outlook.late_at is None:
        return f"{text}, and at the latest nobody knows"
    if (outlook.late_at - outlook.likely_at).total_seconds() < _SAME_S:
        return text
    return f"{text}, in nine of ten cases by {_clock(outlook.late_at, now)}"


def _late_ends(outlook: Outlook) -> str:
    if outlook.ending_s < _SOON_S:
        return ""
    return f", or up to {format_duration(outlook.ending_s)} later if the stopped jobs take as long as they may to end"


def _why_unknown(outlook: Outlook) -> str:
    own = outlook.asked
    if outlook.wait_class == "nodes":
        return "it starts once they take work again"
    if outlook.wait_class == "quota" and own is not None and own.quota is not None and outlook.asked_milli > own.quota:
        return "it cannot start before that quota is raised"
    data = None if outlook.chosen is None else outlook.chosen.data
    if data is not None and data.is_away:
        missing = f"its data waits for {data.site}, which is away"
    elif outlook.wait_class == "data":
        missing = "no rate of its data is known"
    else:
        missing = "there is no history of how long those before it run"
    return f"when it starts is not known, as {missing}"


def _data(outlook: Outlook, now: datetime) -> list[str]:
    place = outlook.chosen
    if place is None or place.data is None or not place.data.total_bytes or place.data.is_away:
        return []
    data = place.data
    if not data.missing_bytes:
        return [f"its {format_bytes(data.total_bytes)} are already on {data.site}"]
    there = format_bytes(data.total_bytes - data.missing_bytes)
    arrival = "at no known rate"
    if data.ready_at is not None:
        arrival = f"and will be there {_soon(data.ready_at, now)}{', by an assumed rate' * data.is_assumed}"
    return [f"{there} of its data are on {data.site}, {format_bytes(data.missing_bytes)} still move {arrival}"]


def _elsewhere(outlook: Outlook, now: datetime) -> list[str]:
    other, here = outlook.runner_up, outlook.chosen
    if other is None or other.starts_at is None or other.finishes_at is None:
        return []
    text = f"on {other.words} it would start {about(other.starts_at, now)}"
    if here is None or here.finishes_at is None:
        return [f"{text} and be done {about(other.finishes_at, now)}"]
    later_s = (other.finishes_at - here.finishes_at).total_seconds()
    joint = "but" if (other.starts_at < (here.starts_at or now)) == (later_s > 0) else "and"
    if abs(later_s) < _NOW_S:
        return [f"{text} and be done at the same time"]
    return [f"{text} {joint} be done {format_duration(abs(later_s))} {'later' if later_s > 0 else 'sooner'}"]


def about(moment: datetime | None, now: datetime) -> str:
    """Say when something happens, for people."""
    if moment is None:
        return "at an unknown time"
    left_s = (moment - now).total_seconds()
    if 0 < left_s < _SOON_S:  # a minute would be too coarse
        return f"about {moment:%H:%M:%S} UTC"
    return "now" if left_s <= 0 else f"about {_clock(moment, now)}"


def _soon(moment: datetime, now: datetime) -> str:
    """Say when something comes that is not there yet."""
    return "in a moment" if (moment - now).total_seconds() < _NOW_S else about(moment, now)


def _clock(moment: datetime, now: datetime) -> str:
    return f"{moment:%H:%M} UTC" if moment.date() == now.date() else f"{moment:%Y-%m-%d %H:%M} UTC"


def _number(milli: int, resource: str) -> str:
    return format_gpus(milli) if resource == _GPU else format_cpu(milli)


def _amount(milli: int, resource: str) -> str:
    unit = ("GPU" if milli == ONE_GPU else "GPUs") if resource == _GPU else "CPU"
    return f"{_number(milli, resource)} {unit}"
