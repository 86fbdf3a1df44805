"""Bringing datasets to where attempts run: cached commits are asked for and held, uncached ones copied for the attempt.

Level-triggered like everything here: each run compares what an attempt needs with what is there. A hold keeps a
cached commit from being evicted; it carries the attempt's id and is released when the attempt has ended.
"""

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import structlog
from django.db import connection
from django.db.models import Q, QuerySet

from accounts.permissions import Actor
from compute.errors import TemplateNotFound
from compute.selectors import resources, templates
from compute.services.jobs import HostFolder, SourceKind, Tree, source_to_json
from core import clock, hosts, isolation, leases, tasks
from core.errors import PlatformError
from core.models import Failure
from core.removals import remove_folder
from datasets.errors import CacheSiteAway, StoreUnreachable
from datasets.selectors import caches as cache_selectors
from datasets.selectors import datasets as dataset_selectors
from datasets.services import caches
from datasets.workers import checkouts
from flows.engine import names
from flows.engine.states import ATTEMPT_STATES, AttemptState
from flows.engine.transitions import Bring, Transition
from flows.models import Attempt, AttemptInput, InputState, Run
from flows.selectors import failures, specs
from flows.selectors.inputs import AHEAD, DATA_SOURCES, NEXT
from flows.workers import handover, next_data
from flows.workers.snapshots import Loaded

log = structlog.get_logger(__name__)

_SYSTEM = Actor.system("flow runs")
_LEASE_S = 60.0
# Nothing is given up sooner: for so long a fill waits for a store that is away.
_MOST_TRIES, _LONGEST_WAIT = 5, timedelta(minutes=10)
_ENDED = sorted(state.value for state in ATTEMPT_STATES.final)
_UNDER_WAY = Q(is_live=True, state=InputState.PENDING, attempt__state="preparing")


def reconcile_inputs(run_id: str, keep_lease: Callable[[], object]) -> None:
    """Ask for what is missing for the attempts of a run that prepare, and note what has arrived.

    Before something is asked for, `keep_lease` is called: a store that is away answers late.
    """
    waiting = AttemptInput.objects.filter(_UNDER_WAY, attempt__run=run_id).select_related(
        "attempt__run__flow", "attempt__step"
    )
    rows = list(waiting.order_by("pk"))
    if any(row.is_cached and not row.cached_commit_id for row in rows):
        keep_lease()
    isolation.for_each(failures.BRING_INPUT, rows, _look, on_failure=_give_up)


def bring_ahead(
    run: Run, loaded: Loaded, transitions: Sequence[Transition], keep_lease: Callable[[], object]
) -> dict[tuple[str, str], str]:
    """Ask for the datasets of attempts that wait where their next templates read them, and hold them there.

    Return why some cannot be brought, by step and template. While the store is away nothing is refused: the next plan
    asks again. Before something is asked for, `keep_lease` is called.
    """
    refused = {}
    for bring in transitions:
        if isinstance(bring, Bring):
            keep_lease()
            step = loaded.steps[bring.step_id]
            sites = [
                cache_selectors.get_site(actor=_SYSTEM, name=name)
                for name in loaded.templates[bring.template].resource.sites
            ]
            label = names.attempt_label(run.flow.name, run.number, step.label, step.attempt_count)
            try:
                for data in loaded.spec.step(step.key).data:
                    if data.cached:
                        caches.request_nearest(
                            actor=_SYSTEM,
                            commit=_commit(data.dataset, run.datasets[data.dataset]["commit"]),
                            sites=sites,
                            holder=AHEAD + bring.attempt_id,
                            why=f"read next by {label}",
                        )
            except (StoreUnreachable, CacheSiteAway) as error:
                log.warning("input.not_brought_ahead", attempt=bring.attempt_id, code=error.code)
            except PlatformError as error:
                log.info("input.not_brought_ahead", attempt=bring.attempt_id, code=error.code)
                refused[step.key, bring.template] = error.message
    return refused


def find_preparing() -> QuerySet[AttemptInput]:
    """Return the inputs of the attempts that prepare."""
    return AttemptInput.objects.filter(is_live=True, attempt__state="preparing")


def find_runs_to_advance() -> list[str]:
    """Return the runs in which an attempt has got all its datasets, lost one, or what it waits for has moved on.

    Also those for which a dataset could not be asked for, once that is tried again.
    """
    preparing = find_preparing()
    if not preparing.exists():
        return []
    complete = preparing.exclude(state=InputState.PENDING).exclude(attempt__inputs__state=InputState.PENDING)
    failed = preparing.filter(state=InputState.FAILED)
    awaited = preparing.filter(state=InputState.PENDING).exclude(cached_commit_id="")
    ids = set(awaited.values_list("cached_commit_id", flat=True))
    settled = cache_selectors.list_cached_commits(actor=_SYSTEM).filter(pk__in=ids, state__in=("ready", "failed"))
    settled = settled.exclude(state="ready", site__absence__gt="")
    moved = awaited.filter(cached_commit_id__in=list(settled.values_list("pk", flat=True)))
    begun = cache_selectors.find_begun(ids).values_list("pk", flat=True)
    moved |= awaited.filter(is_early=True, cached_commit_id__in=list(begun))
    now = clock.now()
    due = [row.item_id for row in isolation.find([failures.BRING_INPUT]) if not isolation.is_delayed(row, now)]
    retried = preparing.filter(state=InputState.PENDING, pk__in=due)
    return sorted(
        {
            run_id
            for rows in (complete, failed, moved, retried)
            for run_id in rows.values_list("attempt__run", flat=True)
        }
    )


def runs_waiting_for(cached_commit_id: str) -> list[str]:
    """Return the runs in which an attempt waits for a cached commit."""
    waiting = AttemptInput.objects.filter(_UNDER_WAY, cached_commit_id=cached_commit_id)
    return sorted(set(waiting.values_list("attempt__run_id", flat=True)))


def find_pending_copies() -> list[QuerySet[AttemptInput]]:
    """Return the copies that are needed and that no worker makes."""
    now = clock.now()
    return [AttemptInput.objects.filter(_UNDER_WAY, leases.is_free(now, leases.latest_end(now)), is_cached=False)]


def copy_pending_inputs() -> None:
    """Make every copy that is needed and that no worker makes."""
    (pending,) = find_pending_copies()
    copy_each(list(pending.order_by("pk").values_list("pk", flat=True)))


def copy_each(input_ids: Sequence[str]) -> None:
    """Make these copies. One that fails stops none of the others."""
    isolation.for_each(failures.COPY_INPUT, input_ids, copy_input, on_failure=_give_up_copy)


def copy_input(input_id: str) -> None:
    """Write an attempt's own copy of a commit, verified, unless somebody is at it or it is for another host to do."""
    row = AttemptInput.objects.select_related("attempt").filter(_UNDER_WAY, pk=input_id, is_cached=False).first()
    template = _template_of(row.attempt) if row is not None else None
    if row is None or (template is not None and not hosts.is_here(template.resource.host)):
        return
    token = leases.take(AttemptInput.objects.filter(_UNDER_WAY, pk=input_id, is_cached=False), for_s=_LEASE_S)
    if token is None:
        return
    target = _copies_of(row.attempt.run_id, row.attempt_id) / row.name
    draft = target.with_name(f".{row.name}-{secrets.token_hex(4)}")
    try:
        if not target.exists():
            draft.parent.mkdir(parents=True, exist_ok=True)
            renew = _Renewal(input_id, token)
            checkouts.write_tree(row.commit_id, draft, renew, on_wait=renew)
            draft.rename(target)
        _settle(row, InputState.READY, source=source_to_json(HostFolder(str(target))))
    except PlatformError as error:
        _settle(row, InputState.FAILED, error=error.message)
    except OSError as error:
        if not target.exists():  # somebody else may have been quicker
            _settle(row, InputState.FAILED, error=f"The copy could not be written: {error}")
    finally:
        with suppress(OSError):
            remove_folder(draft)
    tasks.enqueue("flows.advance", run_id=row.attempt.run_id)


def find_held_inputs() -> list[QuerySet[Any]]:
    """Return what ended attempts still hold, and what is held ahead."""
    held = AttemptInput.objects.filter(is_live=True, attempt__state__in=_ENDED)
    return [held, cache_selectors.find_holds(prefix=AHEAD), cache_selectors.find_holds(prefix=NEXT)]


def release_inputs() -> None:
    """Release what ended attempts hold: cached commits, also those brought ahead, and their own copies."""
    next_data.release()
    held, ahead, _ = find_held_inputs()
    ended = sorted(set(held.values_list("attempt_id", "attempt__run_id")))
    isolation.for_each("flows.release_inputs", ended, _release, key=lambda item: str(item[0]))
    holders = {holder.removeprefix(AHEAD) for holder in ahead.values_list("holder", flat=True)}
    # Where the attempt waits no more, its data is not needed there, or held by the step's next one once that has asked.
    is_needed = Q(state=AttemptState.QUEUED) | Q(step__in=next_data.find_unasked().values("attempt__step"))
    needed = Attempt.objects.filter(is_needed, pk__in=holders).values_list("pk", flat=True)
    unneeded = sorted(holders - set(needed))
    isolation.for_each(
        "flows.release_ahead", unneeded, lambda pk: caches.release_holds(actor=_SYSTEM, holder=AHEAD + pk)
    )


def _release(ended: tuple[str, str]) -> None:
    attempt_id, run_id = ended
    caches.release_holds(actor=_SYSTEM, holder=attempt_id)
    with suppress(OSError):
        remove_folder(_copies_of(run_id, attempt_id))
    AttemptInput.objects.filter(attempt=attempt_id).update(state=InputState.RELEASED)


def _give_up(row: AttemptInput, failure: Failure) -> None:
    """Let a step fail whose dataset could not be brought again and again."""
    if failure.attempts >= _MOST_TRIES and clock.now() - row.created_at >= _LONGEST_WAIT:
        _settle(row, InputState.FAILED, error=f"{failure.attempts} tries ended with {failure.error.rstrip('.')}.")
        isolation.forget(failure.kind, [row.pk])


def _give_up_copy(input_id: str, failure: Failure) -> None:
    row = AttemptInput.objects.select_related("attempt").filter(pk=input_id).first()
    if row is not None:
        _give_up(row, failure)


def _look(row: AttemptInput) -> None:
    """Ask for what is missing, or note what has arrived; what is refused is noted as failed.

    Raises StoreUnreachable: a full site is asked for no more than is missing there, which the store says. Raises
    CacheSiteAway: from a full site whose folder is away nothing can be evicted yet.
    """
    try:
        _bring(row)
    except (StoreUnreachable, CacheSiteAway):
        raise
    except PlatformError as error:
        log.info("input.failed", input=row.pk, reference=row.reference, code=error.code)
        _settle(row, InputState.FAILED, error=error.message)


def _bring(row: AttemptInput) -> None:
    template = _template_of(row.attempt)
    mountable = templates.list_mountable(template) if template is not None else DATA_SOURCES
    sites = resources.list_readable_sites(template.resource, mountable) if template is not None else []
    if row.is_cached and not sites:
        # The resource has no cache site that its jobs can read, so the attempt gets a copy of its own.
        AttemptInput.objects.filter(pk=row.pk).update(is_cached=False)
        row.is_cached = False
    if not row.is_cached:
        is_simulated = template is not None and template.resource.is_simulated
        if SourceKind.HOST_FOLDER in mountable and not is_simulated:
            tasks.enqueue("flows.copy_input", input_id=row.pk)
        else:
            commit = _commit_of(row)
            _settle(row, InputState.READY, source=source_to_json(Tree(commit.dataset_id, commit.root)))
        return
    cached = _request(row, sites)
    if source := cached.early_source if row.is_early else cached.source:
        _settle(row, InputState.READY, source=source)
    elif cached.state == "failed":
        _settle(row, InputState.FAILED, error=cached.error or "It could not be cached.")


def _request(row: AttemptInput, sites: Sequence[Any]) -> Any:
    """Return the cached commit that was asked for before; ask for it when that was never done, or it is gone."""
    if row.cached_commit_id:
        cached = cache_selectors.get_cached_commit(actor=_SYSTEM, cached_commit_id=row.cached_commit_id)
        if cached.state not in {"evicting", "gone"}:
            return cached
    cached = caches.request_nearest(
        actor=_SYSTEM,
        commit=_commit_of(row),
        sites=sites,
        holder=row.attempt_id,
        why=f"read by {_label(row.attempt)}",
    )
    AttemptInput.objects.filter(pk=row.pk).update(cached_commit_id=cached.pk, site=cached.site.name)
    if Attempt.objects.filter(pk=row.attempt_id, state__in=_ENDED).exists():
        # It may have ended, and have let go of all that it held, before it held this.
        caches.release_holds(actor=_SYSTEM, holder=row.attempt_id)
    return cached


def _label(attempt: Attempt) -> str:
    return names.attempt_label(attempt.run.flow.name, attempt.run.number, attempt.step.label, attempt.number)


def _commit_of(row: AttemptInput) -> Any:
    return _commit(row.reference, row.commit_id)


def _commit(reference: str, commit_id: str) -> Any:
    return dataset_selectors.resolve(_SYSTEM, f"{reference.partition('@')[0]}@{commit_id}").commit


def _template_of(attempt: Any) -> Any:
    """Return the template of an attempt; None when it is gone."""
    if attempt.run.places:
        return specs.find_templates(attempt.run).get(attempt.template)
    try:
        return templates.get_template(actor=_SYSTEM, full_name=attempt.template)
    except TemplateNotFound:
        return None


def _settle(row: AttemptInput, state: InputState, *, source: Mapping[str, str] | None = None, error: str = "") -> None:
    waiting = AttemptInput.objects.filter(pk=row.pk, state=InputState.PENDING)
    waiting.update(state=state, source=source or {}, error=error)


class _Renewal:
    """Renews the lease of a copy that gets on. Called from the threads that write it, so seldom and self-contained."""

    def __init__(self, input_id: str, token: str) -> None:
        self._rows, self._token = AttemptInput.objects.filter(pk=input_id), token
        self._guard = threading.Lock()
        self._renewed_at = clock.monotonic()

    def __call__(self, _progress: object) -> None:
        with self._guard:
            if clock.monotonic() - self._renewed_at < _LEASE_S / 3:
                return
            self._renewed_at = clock.monotonic()
        leases.renew(self._rows, self._token, for_s=_LEASE_S)
        connection.close()


def _copies_of(run_id: str, attempt_id: str) -> Path:
    return handover.run_folder(run_id) / "data" / attempt_id
