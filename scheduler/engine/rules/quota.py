"""Quotas: the share that each queue may count on, and what may run only inside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.engine.resources import NOTHING, ONE_GPU, Amount
from scheduler.engine.rules.fair_share import Claim, divide
from scheduler.engine.snapshot import QueueView, Waiting

_UNITS = Amount(ONE_GPU, 1, 1)
_GPU = 0


@dataclass(slots=True)
class Usage:
    """What a queue holds at this point of the cycle; `firm` is the part of it that is not preemptible."""

    held: Amount = NOTHING
    firm: Amount = NOTHING

    def add(self, amount: Amount, *, is_preemptible: bool) -> None:
        """Count what another workload holds."""
        self.held = self.held.plus(amount)
        if not is_preemptible:
            self.firm = self.firm.plus(amount)


@dataclass(frozen=True, slots=True)
class Share:
    """What a queue may count on in this cycle. `allocatable` is the larger of quota and fair share."""

    fair: Amount
    allocatable: Amount


def gpu_weight_of(queue: QueueView) -> float:
    """Return the weight in dividing GPUs beyond the quotas: the one set, else the GPU quota, at least one GPU's."""
    return max(queue.quota.gpu_milli or 0, ONE_GPU) if queue.weight is None else queue.weight


def share_out(
    total: Amount, queues: Sequence[QueueView], usage: Mapping[str, Usage], waiting: Mapping[str, Amount]
) -> dict[str, Share]:
    """Return each queue's share of `total`, given what it holds and what it waits for.

    Weights are for GPUs; CPU and memory beyond the quotas are divided evenly.
    """
    fair: list[dict[str, int]] = []
    for index, unit in enumerate(_UNITS):
        claims = [
            Claim(
                queue.id,
                queue.quota[index],
                usage[queue.id].held[index] + waiting.get(queue.id, NOTHING)[index],
                gpu_weight_of(queue) if index == _GPU else 1.0,
                (queue.created_at,),
            )
            for queue in queues
        ]
        fair.append(divide(total[index], claims, unit=unit))
    return {queue.id: _share(queue, total, Amount(*(shares[queue.id] for shares in fair))) for queue in queues}


def _share(queue: QueueView, total: Amount, fair: Amount) -> Share:
    bounds = zip(queue.quota, total, fair, strict=True)
    return Share(fair, Amount(*(max(whole if quota is None else quota, part) for quota, whole, part in bounds)))


def may_start(workload: Waiting, queue: QueueView, usage: Usage) -> bool:
    """Return whether quotas let a workload start: what is not preemptible must fit into the quota with its like."""
    return workload.is_preemptible or queue.quota.has_room_for(usage.firm, workload.shape.needs)
