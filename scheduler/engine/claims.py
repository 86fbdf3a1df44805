"""What a job claims from others: how much, by what right, and which victims were passed over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from scheduler.engine.decisions import StopCode
from scheduler.engine.jobs import Job
from scheduler.engine.queues import QueueState

MOST_PASSED_OVER = 4
MOST_TRIED = 2
"""So many of those passed over had been tried without a result."""
MOST_LOOKS = 16
"""So many jobs are looked at for those that would be evicted next."""


class ClaimClass(StrEnum):
    """By what right a job takes capacity: within its quota, within its fair share beyond that, or by its priority."""

    BY_RIGHT = "by_right"
    OVER_QUOTA = "over_quota"
    PRIORITY = "priority"


class WhyNot(StrEnum):
    """Why other work was not evicted. All but the first two tell by which rule it would be evicted later."""

    NOT_ENOUGH = "not_enough"
    OTHER_QUEUE = "other_queue"
    PRIORITY = "priority"
    NEEDED = "needed"
    FREES_LESS = "frees_less"
    FREES_MORE = "frees_more"
    EVICTED_MORE = "evicted_more"
    LOSES_MORE = "loses_more"
    OLDER = "older"


ORDER_BY_LOSS = (WhyNot.PRIORITY, WhyNot.NEEDED, WhyNot.FREES_LESS, WhyNot.EVICTED_MORE, WhyNot.LOSES_MORE)
"""What each part of `Job.victim_order` stands for, up to those that tell the age."""

ORDER_OF_SERVICE = (WhyNot.PRIORITY, WhyNot.NEEDED)
"""The same where the order is that of service."""


@dataclass(frozen=True, slots=True)
class PassedOver:
    """Work that could have been evicted instead, with the thousandths of GPUs that it would have freed."""

    job: Job
    gpu_milli: int
    why: WhyNot


@dataclass(slots=True, eq=False)
class Claim:
    """The amounts that a job claims, and what the queues above it held before, by id."""

    amounts: tuple[int, int, int]
    held: Mapping[str, tuple[float, ...]]
    passed_over: Sequence[PassedOver] = ()

    @classmethod
    def of(cls, line: Sequence[QueueState], amounts: tuple[int, int, int]) -> "Claim":
        """Return a claim that a job of a queue, with those above it, makes now."""
        return cls(amounts, {queue.view.id: tuple(queue.held) for queue in line})

    def class_against(self, code: StopCode, claimant: QueueState, victim: QueueState) -> ClaimClass:
        """Return by what right it takes from another queue: where the two meet in the tree, the quota decides."""
        if code is StopCode.PREEMPTED:
            return ClaimClass.PRIORITY
        for ours, theirs in zip(claimant.path, victim.path, strict=False):
            if ours is not theirs:
                break
        held = self.held[ours.view.id]
        is_within = all(have + more <= most for have, more, most in zip(held, self.amounts, ours.quota, strict=True))
        return ClaimClass.BY_RIGHT if is_within else ClaimClass.OVER_QUOTA
