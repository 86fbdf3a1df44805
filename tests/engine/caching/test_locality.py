"""How much of a job's datasets still moves, and until when: by copies, sites, rates and what goes before."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets.engine.locality import CommitCopies, SiteCopy, SiteTraffic, measure_arrival

GB = 10**9
NOW = datetime(2026, 11, 21, 14, 5, tzinfo=UTC)


def commit(size_bytes: int, name: str = "xray", **copies: SiteCopy) -> CommitCopies:
    return CommitCopies(name, size_bytes, copies)


READY = SiteCopy(250 * GB, is_ready=True)


@pytest.mark.parametrize(
    ("copies", "missing_bytes"),
    [
        ({}, 250 * GB),
        ({"near": READY}, 0),
        ({"elsewhere": READY}, 250 * GB),
        ({"near": SiteCopy(100 * GB, is_coming=True)}, 150 * GB),
        ({"near": SiteCopy(100 * GB), "far": SiteCopy(209 * GB)}, 41 * GB),
    ],
)
def test_missing_is_what_the_fullest_copy_on_the_sites_lacks(copies, missing_bytes):
    assert commit(250 * GB, **copies).missing_bytes(["near", "far"]) == missing_bytes


def test_what_still_moves_is_told_with_bytes_rate_and_time():
    copy = SiteCopy(209 * GB, is_coming=True, id="cc_1")
    traffic = {"near": SiteTraffic(125_000_000.0, queue={"cc_1": 41 * GB})}

    arrival = measure_arrival([commit(250 * GB, near=copy)], ["near"], traffic)

    assert (arrival.missing_bytes, arrival.ready_in_s, arrival.is_requested) == (41 * GB, 328.0, True)
    assert arrival.describe(NOW) == (
        "41.0 GB of 250 GB still move to near at 125 MB/s, ready in about 5 min 28 s (14:10 UTC)."
    )


def test_a_rate_that_nobody_declared_or_measured_is_told_as_assumed():
    traffic = {"near": SiteTraffic(50_000_000.0, is_assumed=True)}
    measured = SiteCopy(0, is_coming=True, rate_bytes_s=50_000_000.0)

    arrival = measure_arrival([commit(GB)], ["near"], traffic)

    assert arrival.describe(NOW) == (
        "1.0 GB of 1.0 GB still move to near at an assumed 50.0 MB/s, ready in about 20 s (14:05 UTC)."
    )
    assert not measure_arrival([commit(GB, near=measured)], ["near"], traffic).is_assumed


def test_without_a_rate_no_time_is_told():
    arrival = measure_arrival([commit(GB)], ["near"], {"near": SiteTraffic()})

    assert (arrival.missing_bytes, arrival.ready_in_s, arrival.is_requested) == (GB, None, False)
    assert arrival.describe(NOW) == "1.0 GB of 1.0 GB still move to near. No rate is known yet."


def test_a_copy_on_a_site_that_is_away_is_not_said_to_be_there():
    copies, away = {"near": READY, "far": SiteCopy(0)}, SiteTraffic(1.0 * GB, is_away=True)

    alone = measure_arrival([commit(250 * GB, **copies)], ["near"], {"near": away})
    beside = measure_arrival(
        [commit(250 * GB, **copies)], ["near", "far"], {"near": away, "far": SiteTraffic(1.0 * GB)}
    )

    assert (alone.is_ready, alone.ready_in_s, alone.is_away) == (False, None, True)
    assert alone.describe(NOW) == "250 GB wait for near, which is away."
    assert (beside.site, beside.missing_bytes, beside.ready_in_s, beside.is_away) == ("far", 250 * GB, 250.0, False)


def test_what_is_ready_on_any_of_its_sites_moves_no_more():
    arrival = measure_arrival([commit(250 * GB, far=READY)], ["near", "far"], {})

    assert (arrival.is_ready, arrival.ready_in_s, arrival.site) == (True, 0.0, "far")
    assert arrival.describe(NOW) == "250 GB are ready on far."


def test_a_site_that_fills_one_copy_at_a_time_moves_what_is_ahead_first():
    queue = {"first": 10 * GB, "mine": 2 * GB, "last": 5 * GB}
    mine = SiteCopy(0, is_coming=True, id="mine")
    serial, parallel = (SiteTraffic(1.0 * GB, is_serial, queue) for is_serial in (True, False))

    assert measure_arrival([commit(2 * GB, near=mine)], ["near"], {"near": serial}).ready_in_s == 12.0
    assert measure_arrival([commit(2 * GB, near=mine)], ["near"], {"near": parallel}).ready_in_s == 2.0
    assert measure_arrival([commit(2 * GB), commit(3 * GB)], ["near"], {"near": serial}).ready_in_s == 22.0


SITES = ("a", "b", "c")
copies = st.dictionaries(
    st.sampled_from(SITES),
    st.builds(SiteCopy, st.integers(0, 300), st.booleans(), st.booleans(), st.sampled_from(["x", "y"])),
)


@given(
    st.lists(st.builds(CommitCopies, st.just("d"), st.integers(0, 200), copies), max_size=4),
    st.lists(st.sampled_from(SITES), min_size=1, unique=True),
    st.dictionaries(
        st.sampled_from(SITES),
        st.builds(
            SiteTraffic,
            st.none() | st.floats(1, 100),
            st.booleans(),
            st.dictionaries(st.sampled_from(["x", "y"]), st.integers(0, 100)),
        ),
    ),
)
def test_never_is_less_than_nothing_or_more_than_all_missing(commits, sites, traffic):
    arrival = measure_arrival(commits, sites, traffic)

    assert 0 <= arrival.missing_bytes <= arrival.total_bytes
    assert arrival.ready_in_s is None or arrival.ready_in_s >= 0
    if arrival.is_ready:
        assert (arrival.missing_bytes, arrival.ready_in_s, arrival.is_requested) == (0, 0.0, True)
