"""Reads about how queues share: what each used lately, and what that does to its share."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from scheduler.engine.queues import shares_if_all_ask
from scheduler.engine.sharing import SharingRules
from scheduler.models import Pool, Queue
from scheduler.selectors.snapshots import parts_used, view_queue


@dataclass(frozen=True)
class PastUse:
    """What a queue used lately, its part among its siblings, and its share without and with that.

    Shares are those if all asked for more than there is, in thousandths of GPUs.
    """

    used_gpu_s: float
    part: float
    plain_milli: int
    pulled_milli: int

    @property
    def percent(self) -> int:
        """Its part in hundredths."""
        return round(100 * self.part)


def find_past_use(pool: Pool, rules: SharingRules, gpu_milli: int) -> Mapping[str, PastUse]:
    """Return by queue what past use does under some rules. For callers that show only what a reader may see."""
    queues = list(Queue.objects.filter(pool=pool, project__removed_at=None).select_related("project").order_by("pk"))
    parts = parts_used(queues)
    views = [replace(view_queue(queue), used=(parts[queue.pk], 0.0, 0.0)) for queue in queues]
    plain = shares_if_all_ask(views, gpu_milli, usage_pull=0.0)
    pulled = shares_if_all_ask(views, gpu_milli, usage_pull=rules.usage_pull)
    return {queue.pk: PastUse(queue.used_gpu_s, parts[queue.pk], plain[queue.pk], pulled[queue.pk]) for queue in queues}
