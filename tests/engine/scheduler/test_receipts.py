"""What the receipt of an eviction tells: for whom, by what right, what both queues held, who was passed over; and its words."""

from dataclasses import replace

import pytest

from scheduler.engine.claims import WhyNot
from scheduler.engine.cycle import decide
from scheduler.engine.decisions import StopCode
from scheduler.engine.receipts import Alternative, Held, Receipt, explain_rule, explain_why_not, write_receipts
from scheduler.engine.session import Session
from scheduler.engine.snapshot import NEARLINE
from tests.factories.scheduler import held, node, queue, snapshot_of, wait

VICTIM = Held("c", quota=2000, fair=2000, before=4000, after=2000)


def receipts(*parts) -> dict[str, Receipt]:
    """Return the receipts of a cycle on a cluster that is given as its parts."""
    session = Session(snapshot_of(*parts), NEARLINE)
    return dict(write_receipts(session, decide(session)))


def saved(job, at: float):
    """Return a job that last saved its work then."""
    return replace(job, saved_at=at)


def test_a_claim_within_the_quota_is_by_right_and_tells_what_both_queues_held():
    visitor = saved(held("visitor", "guests", "n1", {0: 1, 1: 1}), 100)

    found = receipts(node("n1", 2), queue("owners", 2), queue("guests"), visitor, wait("claim", "owners", 2))

    assert found == {
        "visitor": Receipt(
            job_id="visitor",
            code="reclaimed",
            gpu_milli=2000,
            saved_at=100,
            moves_to=None,
            victim=Held("guests", quota=0, fair=0, before=2000, after=0),
            claimant_id="claim",
            claimant=Held("owners", quota=2000, fair=2000, before=0, after=2000),
            claim_class="by_right",
        )
    }


def test_a_claim_beyond_the_quota_is_told_so():
    jobs = [held(f"b{i}", "b", "n1", {i: 1}, minute=i) for i in range(4)]

    found = receipts(node("n1", 4), queue("a"), queue("b"), *jobs, wait("claim", "a", 1))

    (receipt,) = found.values()
    assert (receipt.job_id, receipt.claim_class) == ("b3", "over_quota")
    assert receipt.victim == Held("b", quota=0, fair=3000, before=4000, after=3000)


def test_higher_priority_in_a_queue_is_a_class_of_its_own():
    found = receipts(node("n1", 1), queue("a", 1), held("low", "a", "n1", {0: 1}), wait("high", "a", 1, priority=90))

    assert (found["low"].code, found["low"].claim_class, found["low"].claimant_id) == ("preempted", "priority", "high")
    assert found["low"].victim == found["low"].claimant == Held("a", quota=1000, fair=1000, before=1000, after=1000)


def test_who_is_moved_is_told_where_and_its_queue_holds_as_much_as_before():
    small = [held("x", "a", "n1", {0: 1}), held("y", "a", "n2", {0: 1})]

    found = receipts(node("n1", 2), node("n2", 2), queue("a", 4), *small, wait("large", "a", 2))

    (receipt,) = found.values()
    assert (receipt.code, receipt.claimant_id, receipt.moves_to in {"n1", "n2"}) == ("moved", "large", True)
    assert receipt.victim == Held("a", quota=4000, fair=4000, before=2000, after=4000)


def test_who_could_have_moved_as_well_is_not_said_to_have_been_too_little():
    small = [saved(held("x", "a", "n1", {0: 1}), 100), saved(held("y", "a", "n2", {0: 1}), 200)]

    found = receipts(node("n1", 2), node("n2", 2), queue("a", 4), *small, wait("large", "a", 2))

    assert {job_id: receipt.alternatives for job_id, receipt in found.items()} == {
        "y": (Alternative("x", 1000, 100, "loses_more"),)
    }


def test_those_who_would_have_gone_next_are_named_with_the_rule_that_spared_them():
    jobs = [
        saved(held("newest", "b", "n1", {0: 1}), 300),
        saved(held("older", "b", "n1", {1: 1}), 200),
        replace(saved(held("often", "b", "n1", {2: 1}), 300), evictions=1),
        saved(held("high", "b", "n1", {3: 1}, priority=75), 300),
    ]

    found = receipts(node("n1", 4), queue("a", 1), queue("b"), *jobs, wait("claim", "a", 1))

    assert list(found) == ["newest"]
    assert found["newest"].alternatives == (
        Alternative("older", 1000, 200, "loses_more"),
        Alternative("often", 1000, 300, "evicted_more"),
        Alternative("high", 1000, 300, "priority"),
    )


def test_who_frees_too_little_on_its_node_was_passed_over():
    jobs = [
        saved(held("firm", "a", "n1", {0: 1}, firm=True), 0),
        saved(held("small", "b", "n1", {1: 1}), 300),
        saved(held("x", "b", "n2", {0: 1}), 200),
        saved(held("y", "b", "n2", {1: 1}), 100),
    ]

    found = receipts(node("n1", 2), node("n2", 2), queue("a", 3), queue("b"), *jobs, wait("claim", "a", 2))

    assert sorted(found) == ["x", "y"]
    assert found["x"].alternatives == (Alternative("small", 1000, 300, "not_enough"),)


def test_a_cycle_without_an_eviction_writes_none():
    assert receipts(node("n1", 1), queue("a", 1), wait("job", "a", 1)) == {}


@pytest.mark.parametrize(
    ("claim_class", "claimant", "text"),
    [
        (
            "by_right",
            Held("a", 4000, 5000, 1000, 3000),
            (
                "Reclaim by right: the claimant stays within its quota of 4 GPUs; "
                "the project of the job that was stopped held 4 GPUs, of a quota of 2 GPUs."
            ),
        ),
        (
            "by_right",
            Held("a", 1000, 5000, 1000, 3000),
            (
                "Reclaim by right: the claimant stays within the quota of its department; "
                "the project of the job that was stopped held 4 GPUs, of a quota of 2 GPUs."
            ),
        ),
        (
            "over_quota",
            Held("a", 1000, 3000, 1000, 3000),
            (
                "Reclaim beyond the quota: the claimant stays within its fair share of 3 GPUs; "
                "the project of the job that was stopped held 4 GPUs, of a fair share of 2 GPUs."
            ),
        ),
    ],
)
def test_a_reclaim_names_the_bound_of_the_claimant_and_what_the_victim_s_project_held(claim_class, claimant, text):
    assert explain_rule("reclaimed", claim_class, VICTIM, claimant) == text


def test_a_quota_without_bound_is_not_numbered():
    text = explain_rule("reclaimed", "by_right", Held("c", None, 2000, 4000, 2000), Held("a", None, 5000, 1000, 3000))

    assert text == (
        "Reclaim by right: the claimant stays within its quota; the project of the job that was stopped held 4 GPUs."
    )


@pytest.mark.parametrize("code", sorted(set(StopCode) - {StopCode.RECLAIMED}))
def test_every_other_code_has_its_sentence(code):
    assert explain_rule(code, "", VICTIM, None).endswith(".")


@pytest.mark.parametrize("why", list(WhyNot))
def test_every_reason_why_another_was_not_stopped_has_its_words(why):
    assert explain_why_not(why)
