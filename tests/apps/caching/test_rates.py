"""The rate of a site is that of the copies that came to it, and little that came tells nothing.

To a new site copies are expected to come as slowly as to the slowest other one.
"""

from datetime import UTC, datetime, timedelta

import pytest

from datasets.engine.cache_states import CacheState
from datasets.models import CachedCommit, CacheSite
from datasets.selectors import cache_plans
from datasets.selectors.cache_plans import ASSUMED_BYTES_S, ExpectedRate
from tests.factories.datasets import commit_files

pytestmark = pytest.mark.django_db

BEGUN = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)


@pytest.fixture
def come(member, dataset, site):
    """Note a copy that brought so many bytes in so many seconds."""

    def note(moved: int, seconds: float, copied: int = 0, **more: object) -> CachedCommit:
        count = CachedCommit.objects.count()
        commit = commit_files(member, dataset, {"number": str(count).encode()})
        return CachedCommit.objects.create(
            **{
                "site": site,
                "dataset": dataset,
                "commit": commit,
                "state": CacheState.GONE,
                "files_total": 1,
                "bytes_total": moved,
                "reserved_bytes": 0,
                "requested_by": "member",
                "bytes_moved": moved,
                "bytes_copied": copied,
                "started_at": BEGUN,
                "ready_at": BEGUN + timedelta(seconds=seconds),
                **more,
            }
        )

    return note


def test_a_site_to_which_nothing_came_has_no_rate(site):
    assert cache_plans.measure_rate(site) is None


def test_a_small_copy_tells_nothing_of_a_big_one(site, come):
    come(1_400, 0.7)

    assert cache_plans.measure_rate(site) is None


def test_of_several_copies_the_big_ones_decide(site, come):
    come(8_000_000_000, 80, copied=1_000_000_000)
    come(1_400, 10)

    assert cache_plans.measure_rate(site) == pytest.approx(100_000_000, rel=1e-6)


def test_the_copy_that_comes_now_tells_the_rate_of_now(site, come):
    come(9_000_000_000, 90)
    come(0, 1, state=CacheState.HYDRATING, rate_bytes_s=5e6, ready_at=None)

    assert cache_plans.measure_rate(site) == 5e6


def test_a_declared_rate_is_the_rate(site):
    simulated = CacheSite.objects.create(
        name="far",
        kind="simulated",
        root="simulated://far",
        config={"size_bytes": 1, "rate_bytes_s": 10_000},
        capacity_bytes=1,
    )

    assert cache_plans.measure_rate(simulated) == 10_000.0


def make_site(name: str, **columns: object) -> CacheSite:
    return CacheSite.objects.create(name=name, root=f"/{name}", capacity_bytes=1, **columns)


def test_copies_are_expected_to_come_to_a_new_site_as_slowly_as_to_the_slowest_that_exists(site, come):
    quick, new = make_site("quick", kind="folder"), make_site("new", kind="folder")
    make_site("far", kind="simulated", config={"size_bytes": 1, "rate_bytes_s": 10})
    come(1_000_000_000, 10)
    come(1_000_000_000, 1, site=quick)

    assert cache_plans.expect_rates([quick, new]) == {
        quick.pk: ExpectedRate(1e9),
        new.pk: ExpectedRate(1e8, is_assumed=True),
    }


def test_a_rate_is_assumed_while_little_came_to_any_site(site, come):
    come(1_400, 0.7)

    assert cache_plans.expect_rates([site]) == {site.pk: ExpectedRate(ASSUMED_BYTES_S, is_assumed=True)}
