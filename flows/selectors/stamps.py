"""Cheap stamps of runs, for pages that wait for a change. They tell nothing but that there was one."""

from collections.abc import Collection, Mapping

from django.db.models import Max

from core import isolation
from flows.models import Run, RunEvent
from flows.selectors.failures import ADVANCE


def stamp_of_all_runs() -> str:
    """Return a stamp that is another one whenever anything happened in any run."""
    return str(RunEvent.objects.aggregate(newest=Max("pk"))["newest"])


def stamps_of_runs(run_ids: Collection[str]) -> Mapping[str, str]:
    """Return for each of these runs a stamp that is another one whenever something happened in it."""
    rows = Run.objects.filter(pk__in=run_ids).values_list("pk", "event_seq", "cancel_requested_at")
    failed = {failure.item_id: f"f{failure.attempts}" for failure in isolation.find([ADVANCE], run_ids)}
    return {run_id: f"{seq}{'c' if is_cancelled else ''}{failed.get(run_id, '')}" for run_id, seq, is_cancelled in rows}
