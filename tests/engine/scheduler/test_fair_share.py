"""How one resource is divided. The cases of the reference data are run too, where its folder is at hand."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.queues import ShareRequest, divide, divide_surplus

ONE = 1000
CASES = Path(__file__).resolve().parents[4] / "shared" / "scenarios" / "scenarios.json"


def claim(name: str, quota: float | None, requested: float, weight: float = 1) -> ShareRequest:
    return ShareRequest(name, None if quota is None else round(quota * ONE), round(requested * ONE), weight)


def gpus(total: float, *claims: ShareRequest) -> dict[str, float]:
    return {name: share / ONE for name, share in divide(round(total * ONE), claims, unit=ONE).items()}


def test_a_queue_gets_what_it_asks_for_and_no_more():
    assert gpus(16, claim("a", 4, 2), claim("b", 4, 3.5)) == {"a": 2, "b": 3.5}


def test_what_quotas_leave_is_divided_by_weight():
    assert gpus(100, claim("a", 10, 100, 3), claim("b", 10, 100, 1)) == {"a": 70, "b": 30}


def test_a_queue_that_wants_little_leaves_the_rest_to_the_others():
    assert gpus(16, claim("a", 4, 16, 4), claim("b", 2, 16, 2), claim("c", 2, 16, 2), claim("d", 8, 0, 8)) == {
        "a": 8,
        "b": 4,
        "c": 4,
        "d": 0,
    }


def test_after_half_the_reclaim_of_the_paper_both_over_quota_teams_have_three():
    claims = [claim("a", 4, 4, 4), claim("b", 2, 4, 2), claim("c", 2, 4, 2), claim("d", 8, 6, 8)]

    assert gpus(16, *claims) == {"a": 4, "b": 3, "c": 3, "d": 6}


def test_quotas_are_given_even_when_there_is_not_enough():
    assert gpus(3, claim("a", 4, 4), claim("b", 4, 4)) == {"a": 4, "b": 4}


def test_a_queue_without_weight_stays_at_its_quota():
    assert gpus(10, claim("a", 2, 10, 0), claim("b", 2, 10, 1)) == {"a": 2, "b": 8}


def test_whole_gpus_that_rounding_leaves_go_to_the_largest_remainder_then_to_the_older():
    twenty = [
        ShareRequest("one", 0, 100 * ONE, 2, (1,)),
        ShareRequest("two", 0, 100 * ONE, 3, (2,)),
        ShareRequest("three", 0, 100 * ONE, 1, (3,)),
    ]

    assert divide(20 * ONE, twenty, unit=ONE) == {"one": 7 * ONE, "two": 10 * ONE, "three": 3 * ONE}


def test_an_unlimited_quota_is_the_whole():
    assert gpus(5, claim("a", None, 9), claim("b", 0, 3)) == {"a": 5, "b": 0}


claims_of = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(0, 8000)), st.integers(0, 12000), st.sampled_from([0.0, 0.5, 1.0, 2.0, 7.0])
    ),
    max_size=6,
).map(lambda rows: [ShareRequest(f"q{i}", quota, asked, weight, (i,)) for i, (quota, asked, weight) in enumerate(rows)])


@given(st.integers(0, 20000), claims_of, st.sampled_from([1, 1000]), st.randoms(use_true_random=False))
def test_shares_stay_between_quota_and_request_and_never_outgrow_the_pool(total, claims, unit, random):
    shares = divide(total, claims, unit=unit)

    floors = {c.queue_id: min(c.requested, total if c.quota is None else c.quota) for c in claims}
    assert all(floors[c.queue_id] <= shares[c.queue_id] <= c.requested for c in claims)
    assert sum(shares.values()) <= max(total, sum(floors.values()))
    if any(c.weight > 0 and shares[c.queue_id] < c.requested for c in claims):
        assert sum(shares.values()) >= total
    shuffled = list(claims)
    random.shuffle(shuffled)
    assert divide(total, shuffled, unit=unit) == shares


def reference_cases() -> list[dict]:
    cases = json.loads(CASES.read_text())["fair_share_cases"] if CASES.exists() else []
    return [case for case in cases if len({queue["priority"] for queue in case["queues"]}) == 1]


@pytest.mark.skipif(not CASES.exists(), reason="the folder with the reference scenarios is not at hand")
def test_the_reference_cases_without_queue_priorities_come_out_as_written():
    assert len(reference_cases()) == 38
    for case in reference_cases():
        assert shares_of(case) == pytest.approx(case["expected"]["share"], abs=0.002), case["id"]


def shares_of(case: dict) -> dict[str, float]:
    claims = []
    for row in case["queues"]:
        limit = float("inf") if row["limit"] is None else row["limit"]
        quota = None if row["quota"] is None else round(row["quota"] * ONE)
        requested = round(min(limit, row["requested"]) * ONE)
        claims.append(ShareRequest(row["name"], quota, requested, row["over_quota_weight"], (row["created_rank"],)))
    total = round(case["total"] * ONE)
    if case["stage"] == "all":
        shares = divide(total, claims, unit=ONE)
    else:
        before = {row["name"]: round(row.get("share_before", 0) * ONE) for row in case["queues"]}
        shares = divide_surplus(total, claims, before, unit=ONE)
    return {name: share / ONE for name, share in shares.items()}
