"""Which template a step goes to by what is forecast there, against what then happens."""

import math
import os
import random
from dataclasses import replace

import pytest

from flows.engine import places
from flows.engine.places import Decision, PlaceForecast
from scheduler.engine.forward import Forward
from scheduler.engine.run_times import Lengths, RunTimes, each_once
from scheduler.engine.snapshot import NEARLINE, Snapshot
from tests.engine.scheduler.timed_cluster import Cluster
from tests.factories.scheduler import node, queue, wait

HOUR = 3600.0
NAMES = {0: "lab.gpu", 1: "cloud.gpu"}


def place(*starts: float, run_s: float = HOUR, price: float | None = None) -> PlaceForecast:
    return PlaceForecast(starts, run_s, price)


def test_the_place_where_it_is_done_first_is_chosen_though_it_starts_later():
    forecasts = {0: place(100.0, run_s=1000.0), 1: place(0.0, run_s=3200.0)}

    decision = places.choose("soonest", forecasts, {})

    assert decision == Decision(chosen=0, runner_up=1)
    assert places.explain("soonest", decision, forecasts, {}, NAMES) == (
        "lab.gpu is done first, in about 18 min 20 s; on cloud.gpu it would start now but be done 35 min later."
    )


def test_of_equal_places_the_one_that_is_named_first_is_chosen():
    assert places.choose("soonest", {1: place(0.0), 0: place(0.0)}, {}) == Decision(0, 1)


def test_a_place_of_which_nothing_is_known_is_not_chosen():
    assert places.choose("soonest", {0: place(math.inf), 1: place(9000.0)}, {}) == Decision(1, None)
    assert places.choose("soonest", {0: place(math.inf)}, {}) is None


def test_jobs_that_went_to_a_place_before_count_there():
    forecasts = {0: place(0.0, HOUR), 1: place(1800.0, 5400.0)}

    assert places.choose("soonest", forecasts, {0: 1}) == Decision(1, 0)


def test_beyond_those_that_were_forecast_jobs_start_as_steadily():
    assert place(0.0, 600.0, 1200.0).start_of(4) == 2400.0


def test_the_cheapest_place_is_chosen_by_what_the_run_costs_there():
    forecasts = {0: place(0.0, run_s=HOUR, price=2.0), 1: place(HOUR, run_s=3 * HOUR, price=0.5)}

    decision = places.choose("cheapest", forecasts, {})

    assert decision == Decision(1, 0)
    assert places.explain("cheapest", decision, forecasts, {}, NAMES) == (
        "cloud.gpu costs least, 1.50, and is done in about 4 h; on lab.gpu it would cost 2.00 and start now and be done "
        "3 h sooner."
    )


def test_a_template_without_a_price_is_no_cheap_one():
    assert places.choose("cheapest", {0: place(0.0), 1: place(0.0, price=9.0)}, {}) == Decision(1, None)


CASES = int(os.environ.get("NEARLINE_TEST_PLACES", "30"))
"""200 by hand: `NEARLINE_TEST_PLACES=200`."""


class _Site:
    """A cluster with work on it, and what the candidate job has and misses there."""

    def __init__(self, dice: random.Random) -> None:
        queues = [queue(name, dice.randint(0, 6)) for name in "abc"]
        nodes = [node(f"n{number}", dice.choice((2, 4))) for number in range(dice.randint(1, 2))]
        self.cluster = Cluster(Snapshot(nodes, queues, []))
        for number in range(dice.randint(0, 9)):
            job = wait(f"job-{number:02}", dice.choice("abc"), dice.choice((1, 2)), firm=dice.random() < 0.2)
            self.cluster.submit(job, dice.randint(300, 9000) + number / 16)
            self.cluster.pass_to(self.cluster.now_s + dice.randint(1, 200))
        missing_bytes = dice.choice((0, 0, 41, 250)) * 10**9
        self.copy_s = missing_bytes / dice.choice((50e6, 100e6, 500e6))
        self.length_s = float(dice.randint(300, 4000))

    def forecast(self, spread: float, dice: random.Random) -> PlaceForecast:
        """Forecast from histories whose lengths lie so far around the true ones."""
        known = {
            name: replace(each, lengths=_history(each.lengths.seconds[0], spread, dice))
            for name, each in self.cluster.run_times().items()
        }
        own = RunTimes(_history(self.length_s, spread, dice))
        forward = Forward(self.cluster.snapshot, NEARLINE, known, at_s=self.cluster.now_s, passes=9)
        start = forward.start_of(replace(self._job, rank=(self.cluster.rank,)), own, in_s=self.copy_s)
        return PlaceForecast((start.likely_s,), own.left_s(0.5))

    def finish(self) -> float:
        """Let it happen, and return in how many seconds the job was done."""
        cluster, since_s = self.cluster, self.cluster.now_s
        rank, cluster.rank = cluster.rank, cluster.rank + 1
        cluster.pass_to(since_s + self.copy_s)
        cluster.rank = rank
        cluster.submit(self._job, self.length_s)
        while "tried" not in cluster.started and cluster.ends:
            cluster.pass_to(min(cluster.ends.values()))
        started_at, _ = cluster.started.get("tried", (math.inf, ""))
        return started_at - since_s + self.length_s

    _job = wait("tried", "a", 2)


def _history(length_s: float, spread: float, dice: random.Random) -> Lengths:
    return each_once(*(length_s * dice.uniform(1 - spread, 1 + spread) for _ in range(7 if spread else 1)))


@pytest.mark.parametrize(("spread", "within"), [(0.0, 0.01), (0.15, 0.05)])
def test_the_place_that_is_chosen_is_where_the_job_is_done_first(spread, within):
    right = 0
    for seed in range(CASES):
        dice = random.Random(seed)
        sites = {number: _Site(dice) for number in range(dice.randint(2, 3))}
        decision = places.choose("soonest", {n: site.forecast(spread, dice) for n, site in sites.items()}, {})
        assert decision is not None

        done_s = {number: site.finish() for number, site in sites.items()}

        right += done_s[decision.chosen] <= min(done_s.values()) * (1 + within)
    assert right >= 0.95 * CASES, f"{right} of {CASES}"
