"""Bringing datasets to the likely places of the next steps while their parents run, and letting go what is not needed.

What is brought so makes way for all that is needed now. A step's attempt asks for its datasets as if nothing had been
done, and finds them there. Level-triggered: the holds say what was asked for, the rows of the steps who needs it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db.models import OuterRef, QuerySet, Subquery

from accounts.permissions import Actor
from compute.selectors import resources, templates
from core import isolation
from core.errors import PlatformError
from datasets.selectors import caches as cache_selectors
from datasets.selectors import datasets as dataset_selectors
from datasets.selectors.caches import HeldCopy
from datasets.services import caches
from flows.engine import names, planner
from flows.engine.graph import Node
from flows.engine.planner import Snapshot
from flows.engine.states import STEP_ENDS, StepState
from flows.engine.transitions import BringNext, ReleaseData, Settle, Start, Transition
from flows.models import AttemptInput, InputState, Run, Step
from flows.selectors import failures
from flows.selectors.inputs import NEXT
from flows.workers import snapshots
from flows.workers.known_runs import StepCounts
from flows.workers.snapshots import Loaded

log = structlog.get_logger(__name__)

_SYSTEM = Actor.system("flow runs")
_TRY_AGAIN = timedelta(minutes=1)


def find_readers(loaded: Loaded, counts: StepCounts) -> list[Node]:
    """Return the steps whose datasets are worth bringing, with the instances of steps counted so."""
    graph = loaded.snapshot.graph
    if not graph.readers or loaded.snapshot.is_cancelled:
        return []
    return planner.next_readers(graph, counts.live, counts.pending, counts.running, counts.ended)


@dataclass(frozen=True)
class Ahead:
    """What was asked for ahead: `transitions` note it. `look_at`: something could not be, and is tried again then."""

    loaded: Loaded
    transitions: Sequence[Transition] = ()
    look_at: datetime | None = None


def bring(loaded: Loaded, now: datetime, keep_lease: Callable[[], object]) -> Ahead:
    """Ask for the datasets of the next steps where these will likely start, as far as they are not asked for yet.

    Before a step's are asked for, `keep_lease` is called. A failure is tried again, and holds nothing up.
    """
    run, nodes = loaded.run, find_readers(loaded, loaded.counts)
    if not nodes:
        return Ahead(loaded)
    steps = _first_of_each(run, nodes)
    held = cache_selectors.list_held([NEXT + step.pk for step in steps])
    missing = [step for step in steps if not _is_kept(loaded, step, held.get(NEXT + step.pk, ()))]
    if not missing:
        return Ahead(loaded)
    snapshot, loaded = snapshots.around_next(loaded, missing)

    def ask(step: Step) -> tuple[BringNext | None, bool]:
        keep_lease()
        return _ask(loaded, snapshot, step, now)

    asked = isolation.for_each(failures.BRING_NEXT, missing, ask)
    is_complete = len(asked) == len(missing) and all(is_asked for _, is_asked in asked)
    notes = tuple(note for note, _ in asked if note is not None)
    return Ahead(loaded, notes, None if is_complete else now + _TRY_AGAIN)


def _first_of_each(run: Run, nodes: Sequence[Node]) -> list[Step]:
    """Return of each of these steps the first instance that has not begun."""
    pending = Step.objects.filter(run=run, state=StepState.PENDING)
    first = pending.filter(key=OuterRef("key")).order_by("index").values("index")[:1]
    return list(pending.filter(key__in=[node.key for node in nodes], index=Subquery(first)).order_by("pk"))


def _is_kept(loaded: Loaded, step: Step, held: Sequence[HeldCopy]) -> bool:
    """Whether all datasets of a step are held where it can still go: it is not sent to and fro with each forecast."""
    there = {copy.commit_id for copy in held if not copy.has_failed}
    if not there.issuperset(_commit_ids(loaded, step)):
        return False
    sites = {copy.site for copy in held}
    return any(
        sites.issubset(loaded.templates[choice.template].resource.sites)
        for choice in loaded.snapshot.graph.by_key[step.key].choices
        if choice.template in loaded.templates and not loaded.snapshot.templates[choice.template].obstacle
    )


def _ask(loaded: Loaded, snapshot: Snapshot, step: Step, now: datetime) -> tuple[BringNext | None, bool]:
    """Ask for the datasets of a step; return what to note of it, and whether all could be asked for."""
    (step_now,) = (each for each in snapshot.steps if each.id == step.pk)
    start = planner.likely_start(snapshot, step_now, now)
    if start is None or not start.prepares or snapshot.templates[start.template].obstacle:
        return None, True
    template = loaded.templates[start.template]
    sites = resources.list_readable_sites(template.resource, templates.list_mountable(template))
    if not sites:
        return None, True  # its attempt gets a copy of its own
    holder, run = NEXT + step.pk, loaded.run
    copies = []
    try:
        for data in loaded.spec.step(step.key).data:
            if data.cached:
                commit_id = run.datasets[data.dataset]["commit"]
                reference = f"{data.dataset.partition('@')[0]}@{commit_id}"
                copies.append(
                    caches.request_nearest(
                        actor=_SYSTEM,
                        commit=dataset_selectors.resolve(_SYSTEM, reference).commit,
                        sites=sites,
                        holder=holder,
                        why=f"may be read next by {names.run_label(run.flow.name, run.number)}, {step.label}",
                        is_ahead=True,
                    )
                )
    except PlatformError as error:
        log.info("input.not_brought_next", step=step.pk, template=start.template, code=error.code)
        return None, False
    caches.release_holds(
        actor=_SYSTEM, holder=holder, keep=[copy.pk for copy in copies], why="another place is likely."
    )
    coming = [copy for copy in copies if copy.state != "ready"]
    if not coming:
        return None, True
    words = " and ".join(f"{copy.dataset.name} to {copy.site.name}" for copy in coming)
    return BringNext(step.pk, start.template, words), True


def find_unneeded(loaded: Loaded, transitions: Iterable[Transition]) -> list[ReleaseData]:
    """Return what a plan makes needless of what is still being brought ahead, with the reason."""
    graph = loaded.snapshot.graph
    ends: dict[str, Settle | Start] = {}
    for each in transitions if graph.readers else ():
        if isinstance(each, Start) or (isinstance(each, Settle) and each.state in STEP_ENDS):
            step = loaded.steps[each.step_id]
            if step.state == StepState.PENDING and graph.by_key[step.key] in graph.readers:
                ends[step.pk] = each
    held = cache_selectors.list_held([NEXT + step_id for step_id in ends]) if ends else {}
    return [
        ReleaseData(step_id, f"Its data is not brought to {site} any more: {why}")
        for step_id, end in ends.items()
        for site, why in _needless_at(loaded, end, held.get(NEXT + step_id, ())).items()
    ]


def _needless_at(loaded: Loaded, end: Settle | Start, held: Sequence[HeldCopy]) -> Mapping[str, str]:
    """Return why what is on its way to sites for a step is not needed there, by site."""
    coming = dict.fromkeys(copy.site for copy in held if not copy.is_ready)
    if isinstance(end, Settle):
        return dict.fromkeys(coming, end.reason)
    near = loaded.templates[end.template].resource.sites
    return {site: f"it starts on {end.template}." for site in coming if site not in near}


def release() -> None:
    """Release what is held ahead for steps that will not start, or whose attempts hold it themselves."""
    holders = {hold.removeprefix(NEXT) for hold in cache_selectors.list_holders(prefix=NEXT)}
    if not holders:
        return
    rows = Step.objects.filter(pk__in=holders).select_related("run__flow")
    steps = {step.pk: step for step in rows}
    waiting = set(find_unasked().filter(attempt__step__in=holders).values_list("attempt__step_id", flat=True))
    unneeded = [pk for pk in sorted(holders) if pk not in waiting and not _may_start(steps.get(pk))]
    isolation.for_each("flows.release_next", unneeded, lambda pk: _release(pk, steps.get(pk)))


def find_unasked() -> "QuerySet[AttemptInput]":
    """Return the inputs that have yet to be asked for: until then, what is held ahead of them must stay."""
    return AttemptInput.objects.filter(is_live=True, is_cached=True, state=InputState.PENDING, cached_commit_id="")


def _may_start(step: Step | None) -> bool:
    """Whether a step is still to start. Once a parent failed it is skipped, and says so."""
    return step is not None and step.state == StepState.PENDING and _goes_on(step.run)


def _goes_on(run: Run) -> bool:
    return not run.has_ended and run.cancel_requested_at is None


def _release(step_id: str, step: Step | None) -> None:
    why = _why_unneeded(step)
    count = caches.release_holds(actor=_SYSTEM, holder=NEXT + step_id, why=why)
    log.info("input.next_released", step=step_id, copies=count, why=why)


def _why_unneeded(step: Step | None) -> str:
    if step is None:
        return "its step was deleted."
    label = f"{step.label} of {names.run_label(step.run.flow.name, step.run.number)}"
    if not step.has_ended and _goes_on(step.run):
        return f"{label} went to {step.template}."
    return f"{label} will not read it: {step.reason or 'the run was cancelled.'}"


def _commit_ids(loaded: Loaded, step: Step) -> set[Any]:
    return {loaded.run.datasets[data.dataset]["commit"] for data in loaded.spec.step(step.key).data if data.cached}
