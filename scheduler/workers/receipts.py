"""Stores the receipts of evictions, and what the cycles that evicted decided on; both are collected in time."""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta

from core import clock, ids, isolation, orm
from core.units import ONE_GPU
from scheduler.engine import dumps
from scheduler.engine.decisions import Decision
from scheduler.engine.receipts import Held, Receipt, list_job_ids
from scheduler.engine.snapshot import Policy, Snapshot
from scheduler.models import CycleDump, Eviction, Workload
from scheduler.selectors.snapshots import ClusterView

KEEP_RECEIPTS = timedelta(days=180)
KEEP_DUMPS = timedelta(days=14)
MOST_DUMPS = 500
MOST_DUMPED = 5000
"""A cycle that decides on more jobs is not dumped: the next cycles would have to wait for it."""

DUMP = "scheduler.dump_cycle"
"""The kind of failures; items are cycles."""


@dataclass(frozen=True)
class CycleReceipts:
    """The receipts of a cycle in one pool, by the victim's id. `cycle_id` is that of its dump, where one is stored."""

    pool_id: str
    by_victim: Mapping[str, Receipt]
    cycle_id: str = field(default_factory=lambda: ids.new_id(CycleDump.id_prefix, now_ms=clock.now_ms()))


def record(workload_ids: Sequence[str], receipts: CycleReceipts, *, at: datetime) -> None:
    """Store the receipts of workloads that are evicted, in the transaction that evicts them."""
    named = [receipts.by_victim[pk] for pk in workload_ids]
    rows = Workload.objects.only("project_id", "placed_at")
    known = {row.pk: row for batch in orm.in_batches(sorted(list_job_ids(named))) for row in rows.filter(pk__in=batch)}

    def lost_gpu_s(workload_id: str, gpu_milli: int, saved_at: float | None) -> float:
        return gpu_milli * (at - _saved_at(known[workload_id], saved_at, at)).total_seconds() / ONE_GPU

    Eviction.objects.bulk_create(
        Eviction(
            pool_id=receipts.pool_id,
            cycle=receipts.cycle_id,
            project_id=known[receipt.job_id].project_id,
            workload_id=receipt.job_id,
            code=receipt.code,
            gpu_milli=receipt.gpu_milli,
            placed_at=known[receipt.job_id].placed_at or at,
            saved_at=_saved_at(known[receipt.job_id], receipt.saved_at, at),
            lost_gpu_s=lost_gpu_s(receipt.job_id, receipt.gpu_milli, receipt.saved_at),
            is_moved=receipt.moves_to is not None,
            claimant_id=receipt.claimant_id if receipt.claimant_id in known else None,
            claim_class=receipt.claim_class or "",
            victim_share=_share(receipt.victim),
            claimant_share=_share(receipt.claimant),
            alternatives=[
                {
                    "workload_id": each.job_id,
                    "gpu_milli": each.gpu_milli,
                    "lost_gpu_s": lost_gpu_s(each.job_id, each.gpu_milli, each.saved_at),
                    "why": each.why,
                }
                for each in receipt.alternatives
                if each.job_id in known
            ],
            claim_delay_s=receipt.claim_delay_s,
            min_runtime_s=receipt.min_runtime_s,
            at=at,
        )
        for receipt in named
    )


def store_dump(receipts: CycleReceipts, view: ClusterView, policy: Policy, decisions: Sequence[Decision]) -> None:
    """Store what a cycle decided on and what it decided, unless that is too much."""
    if len(view.jobs) > MOST_DUMPED:
        return

    def store(cycle_id: str) -> None:
        dump = dumps.write(Snapshot(view.nodes, view.queues, list(view.jobs.values())), policy, decisions)
        data = zlib.compress(json.dumps(dump, separators=(",", ":")).encode())
        CycleDump.objects.create(id=cycle_id, pool_id=receipts.pool_id, data=data)

    isolation.for_each(DUMP, [receipts.cycle_id], store)


def collect() -> None:
    """Delete receipts and dumps that are older than they are kept, and dumps beyond the most that are kept."""
    now = clock.now()
    Eviction.objects.filter(at__lt=now - KEEP_RECEIPTS).delete()
    CycleDump.objects.filter(created_at__lt=now - KEEP_DUMPS).delete()
    beyond = CycleDump.objects.order_by("-pk").values_list("pk", flat=True)[MOST_DUMPS : MOST_DUMPS + 1].first()
    if beyond is not None:
        CycleDump.objects.filter(pk__lte=beyond).delete()


def _saved_at(workload: Workload, saved_at: float | None, at: datetime) -> datetime:
    """Return when its work was last safe: at its last checkpoint, else at its start."""
    started_at = workload.placed_at or at
    return started_at if saved_at is None else max(started_at, datetime.fromtimestamp(saved_at, UTC))


def _share(held: Held | None) -> dict[str, object]:
    return {} if held is None else asdict(held)
