"""Who is left alone: for longer, and after fewer evictions, by claims of what lies beyond quotas than of a quota."""

from dataclasses import replace

import pytest

from scheduler.engine.cycle import run_cycle
from scheduler.engine.decisions import Stop
from scheduler.engine.sharing import SharingRules
from scheduler.engine.snapshot import NEARLINE, PARITY, Policy, Snapshot
from tests.factories.scheduler import held, node, queue, wait

HOUR = 3600.0
POLICY = replace(NEARLINE, sharing=SharingRules(surplus_min_runtime_s=24 * HOUR))


def stops(
    *, owned: int, asked: int, ran_s: float, policy: Policy = POLICY, least_s: float | None = None, evictions: int = 0
) -> int:
    """Return how many jobs of `guest` go when `owner`, which holds so many GPUs, asks for more in one job.

    The quota of both is 2 of 8 GPUs and the fair share of both 4; `guest` holds what `owner` does not, job by job.
    """
    guests = [held(f"guest-{gpu}", "guest", "n1", {gpu: 1}) for gpu in range(8 - owned)]
    running = [replace(guest, running_for_s=ran_s, evictions=evictions) for guest in guests]
    running += [held(f"owner-{gpu}", "owner", "n1", {gpu: 1}) for gpu in range(8 - owned, 8)]
    queues = [queue("owner", 2), replace(queue("guest", 2), reclaim_min_runtime_s=least_s)]
    decisions = run_cycle(Snapshot([node("n1", 8)], queues, [*running, wait("claim", "owner", asked)]), policy)
    return sum(isinstance(decision, Stop) for decision in decisions)


@pytest.mark.parametrize(("ran_s", "count"), [(24 * HOUR - 1, 0), (24 * HOUR, 2)])
def test_who_has_its_quota_takes_only_what_has_run_for_long(ran_s, count):
    assert stops(owned=2, asked=2, ran_s=ran_s) == count


def test_who_is_below_its_quota_takes_what_began_just_now():
    assert stops(owned=0, asked=2, ran_s=0) == 2


def test_a_claim_that_begins_below_the_quota_and_ends_beyond_it_is_one_of_the_quota():
    assert stops(owned=1, asked=2, ran_s=0) == 2


@pytest.mark.parametrize(("owned", "ran_s", "count"), [(0, HOUR - 1, 0), (0, HOUR, 2), (2, HOUR, 0), (2, 24 * HOUR, 2)])
def test_of_the_minimum_of_the_victims_queue_and_that_of_surplus_the_longer_counts(owned, ran_s, count):
    assert stops(owned=owned, asked=2, ran_s=ran_s, least_s=HOUR) == count


@pytest.mark.parametrize(("owned", "evictions", "count"), [(2, 1, 2), (2, 2, 0), (0, 2, 2), (0, 4, 2), (0, 5, 0)])
def test_who_has_its_quota_spares_after_two_evictions_and_who_has_not_after_five(owned, evictions, count):
    assert stops(owned=owned, asked=2, ran_s=24 * HOUR, evictions=evictions) == count


def test_to_the_letter_of_the_model_surplus_is_taken_like_a_quota():
    assert stops(owned=2, asked=2, ran_s=0, evictions=9, policy=PARITY) == 2
