"""The sentence of an outlook: every number in it is what it says, and every name stays as its owner wrote it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from compute.engine.outlook import (
    STRANGER,
    DataState,
    HeldShare,
    HolderEnd,
    Outlook,
    Place,
    StoppedJob,
    in_words,
    in_words_of_trial,
)
from core.units import ONE_GPU

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
AT_TWO = NOW + timedelta(hours=2)
OWN = HeldShare("team-a", held=6 * ONE_GPU, quota=4 * ONE_GPU, fair=4 * ONE_GPU, resource="gpu")


def holder(gpus: int, project: str = "team-b", job: str = "gang", **more) -> HolderEnd:
    facts = {"ends_at": AT_TWO, "is_borrowing": False, "is_ahead": False, **more}
    return HolderEnd(job=job, project=project, gpu_milli=gpus * ONE_GPU, **facts)


def sentence(wait_class: str, gpus: int, *holders: HolderEnd, stops=()) -> str:
    outlook = Outlook(wait_class, NOW, AT_TWO, AT_TWO, 1, [], OWN, gpus * ONE_GPU, holders, stops, [], 0)
    return in_words(outlook, now=NOW).text.partition("; it starts")[0]


@pytest.mark.parametrize(
    ("holders", "told"),
    [
        ([holder(2)], "that team-b (gang) holds by right until about 14:00 UTC"),
        ([holder(8)], "that team-b (gang) holds by right until about 14:00 UTC"),
        ([holder(1)], ", of which team-b (gang) holds 1 by right until about 14:00 UTC"),
        ([holder(1, is_borrowing=True)], ", of which team-b (gang) borrows 1 and gives back about 14:00 UTC"),
        ([holder(2, is_over_quota=True)], "that team-b (gang) holds within its fair share until about 14:00 UTC"),
        (
            [holder(1, is_over_quota=True), holder(1, "team-c", "other")],
            "that team-b (gang) and 1 more hold within their fair share until about 14:00 UTC",
        ),
        ([holder(1, is_ahead=True)], ", of which team-b (gang) gets 1 first and keeps until about 14:00 UTC"),
        (
            [holder(1, "team-a", is_ahead=True, has_priority=True)],
            ", of which team-a (gang) gets 1 first by priority and keeps until about 14:00 UTC",
        ),
        (
            [holder(1), holder(1, "team-c", "other")],
            "that team-b (gang) and 1 more hold by right until about 14:00 UTC",
        ),
        ([holder(1, STRANGER)], ", of which another project holds 1 by right until about 14:00 UTC"),
        (
            [holder(1), holder(1, job="half"), holder(1, job="other")],
            "that team-b (gang, half and 1 more) holds by right until about 14:00 UTC",
        ),
        ([holder(2, "team-a")], "that team-a (gang) holds until about 14:00 UTC"),
        ([], ""),
    ],
)
def test_of_what_a_job_waits_for_it_says_how_much_the_named_holders_hold(holders, told):
    space = " " if told and told[0] != "," else ""

    assert sentence("by_right", 2, *holders) == f"This job waits for 2 GPUs{space}{told}"


def test_what_waits_for_nodes_that_take_no_work_is_not_said_to_wait_for_others():
    outlook = Outlook("nodes", NOW, None, None, 1, [], OWN, 2 * ONE_GPU, [], [], [], 0)

    told = "This job waits for 2 GPUs on nodes that are drained or do not answer; it starts once they take work again."
    assert in_words(outlook, now=NOW).text == told


@pytest.mark.parametrize(("in_s", "back"), [(0, "now"), (180, "in 3 min")])
def test_what_is_borrowed_and_reclaimed_is_given_back_now_or_when_the_rules_let_it_be_taken(in_s, back):
    stops = [StoppedJob("gang", "team-b", "reclaimed", NOW + timedelta(seconds=in_s))]

    assert sentence("borrowed", 4, holder(1, is_borrowing=True), stops=stops) == (
        f"This job waits for 4 GPUs, of which team-b (gang) borrows 1 and gives back {back}"
    )


def test_what_comes_within_a_minute_is_told_to_the_second():
    soon = NOW + timedelta(seconds=40)

    assert sentence("by_right", 2, holder(2, ends_at=soon)).endswith("holds by right until about 12:00:40 UTC")


def test_what_comes_in_two_seconds_is_not_said_to_be_now():
    moment = NOW + timedelta(seconds=2)
    outlook = Outlook("by_right", NOW, moment, moment, 1, [], OWN, ONE_GPU, [holder(1, ends_at=moment)], [], [], 0)

    assert in_words_of_trial(outlook, now=NOW).text == (
        "It would not start now: this job waits for 1 GPU that team-b (gang) holds by right until about 12:00:02 UTC; "
        "it starts about 12:00:02 UTC."
    )


def test_how_long_those_may_take_to_end_that_are_stopped_is_told_from_a_minute_on():
    stops = [StoppedJob("gang", "team-b", "reclaimed", NOW)]
    outlook = Outlook("borrowed", NOW, NOW, NOW, 1, ["n1"], OWN, ONE_GPU, [], stops, [], 0, ending_s=600)

    told = "It would start on n1 as soon as gang (team-b) is stopped for it"
    assert in_words_of_trial(outlook, now=NOW).text == f"{told}, which may take up to 10 min."
    assert in_words_of_trial(replace(outlook, ending_s=10), now=NOW).text == f"{told}."


def test_what_still_moves_is_never_said_to_be_there_already():
    data = DataState(1000, 400, "lab-cache", NOW + timedelta(seconds=2))
    place = Place("lab.two", "lab", AT_TWO, AT_TWO, None, None, is_chosen=True, is_fallback=False, data=data)
    outlook = Outlook("by_right", NOW, AT_TWO, AT_TWO, 1, [], OWN, 2 * ONE_GPU, [], [], [place], 0)

    assert "400 B still move and will be there in a moment." in in_words(outlook, now=NOW).text
    assumed = replace(outlook, places=[replace(place, data=replace(data, is_assumed=True))])
    assert "will be there in a moment, by an assumed rate." in in_words(assumed, now=NOW).text


def test_what_is_on_a_site_that_is_away_is_not_said_to_be_there():
    data = DataState(1000, 0, "lab-cache", None, is_away=True)
    place = Place("lab.two", "lab", None, None, None, None, is_chosen=True, is_fallback=False, data=data)
    outlook = Outlook("data", NOW, None, None, 1, [], OWN, 2 * ONE_GPU, [], [], [place], 0)

    told = in_words(outlook, now=NOW).text

    assert "when it starts is not known, as its data waits for lab-cache, which is away." in told
    assert "already on" not in told


@pytest.mark.parametrize(("held", "told"), [(4000, " (team-a has 4 GPUs)"), (1000, "")])
def test_what_is_not_preemptible_is_said_to_wait_for_its_quota_and_not_for_its_fair_share(held, told):
    own = replace(OWN, held=held, fair=8000)
    outlook = Outlook("quota", NOW, None, None, 1, [], own, 2 * ONE_GPU, [], [], [], 0)

    assert in_words(outlook, now=NOW).text.startswith(
        f"This job is not preemptible, so it has to stay within its quota{told}, and waits for 2 GPUs; "
    )


def test_what_asks_for_more_than_its_whole_quota_is_not_said_to_lack_a_history():
    own = replace(OWN, held=0, quota=2000)
    outlook = Outlook("quota", NOW, None, None, 1, [], own, 8 * ONE_GPU, [], [], [], 0)

    assert in_words(outlook, now=NOW).text == (
        "This job is not preemptible, so it has to stay within its quota (team-a has 2 GPUs), and waits for 8 GPUs; "
        "it cannot start before that quota is raised."
    )


def test_no_name_begins_a_sentence_so_that_it_stays_as_it_was_written():
    assert sentence("over_share", 2, holder(2)) == (
        "This job is beyond the share of its project (team-a holds 6 GPUs, but its quota is 4) "
        "and waits for 2 GPUs that team-b (gang) holds by right until about 14:00 UTC"
    )
    below = replace(OWN, held=2500)
    outlook = Outlook("over_share", NOW, AT_TWO, AT_TWO, 1, [], below, 2 * ONE_GPU, [], [], [], 0)
    assert in_words(outlook, now=NOW).text.startswith(
        "This job is beyond the share of its project (team-a holds 2.5 GPUs and would hold 4.5 with this job, "
        "but its quota is 4) and waits"
    )
    borrowing = replace(outlook, asked=replace(OWN, held=1000, quota=2000, fair=3000), asked_milli=8 * ONE_GPU)
    assert in_words(borrowing, now=NOW).text.startswith(
        "This job is beyond the share of its project (team-a holds 1 GPU and would hold 9 with this job, "
        "but its fair share is 3 and its quota 2) and waits for 8 GPUs"
    )
    unbound = replace(outlook, asked=replace(OWN, held=1000, quota=None, fair=2000))
    assert "and would hold 3 with this job, but its fair share is 2) and" in in_words(unbound, now=NOW).text
    assert sentence("starved", 2, holder(2)) == (
        "This job waits for 2 GPUs that team-b (gang) holds by right until about 14:00 UTC, "
        "though team-a is below its quota"
    )
