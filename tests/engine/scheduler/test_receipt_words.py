"""The rule by which a job was stopped, in one sentence that names numbers and no project."""

import pytest

from scheduler.engine.claims import WhyNot
from scheduler.engine.decisions import StopCode
from scheduler.engine.receipts import Held, explain_rule, explain_why_not

VICTIM = Held("c", quota=2000, fair=2000, before=4000, after=2000)


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
