"""Who goes first when capacity has to be taken: exact victims, by what is wanted and by what would be lost."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine import solver
from scheduler.engine.cycle import run_cycle
from scheduler.engine.decisions import Stop, StopCode
from scheduler.engine.sharing import SharingRules
from scheduler.engine.snapshot import NEARLINE, PARITY, GroupView, JobView, PodSetView, Policy, Snapshot
from tests.factories.scheduler import held, node, queue, wait


def runs(name: str, gpus: list[int], saved_at: float | None, *, on: str = "n1", **more) -> JobView:
    """Return a job of a queue without quota that holds devices of a node and was saved at some moment."""
    kept = {key: more.pop(key) for key in ("evictions", "running_for_s") if key in more}
    return replace(held(name, "guest", on, dict.fromkeys(gpus, 1), **more), saved_at=saved_at, **kept)


def stopped(*jobs: JobView, nodes: int = 1, gpus: int = 4, policy: Policy = NEARLINE) -> set[str]:
    """Return the jobs that a cycle stops on full nodes; `owner` has all the quota, `guest` none."""
    rows = [node(f"n{index + 1}", gpus) for index in range(nodes)]
    queues = [queue("owner", gpus * nodes), queue("guest", 0)]
    decisions = run_cycle(Snapshot(rows, queues, jobs), policy)
    return {decision.job_id for decision in decisions if isinstance(decision, Stop)}


def test_of_equal_jobs_the_one_that_was_saved_last_goes():
    jobs = [runs("long-ago", [0], 100), runs("just-now", [1], 900), runs("lately", [2], 500), runs("older", [3], 300)]

    assert stopped(*jobs, wait("claim", "owner", 1)) == {"just-now"}
    assert stopped(*jobs, wait("claim", "owner", 2)) == {"just-now", "lately"}


def test_a_job_of_which_it_is_not_known_when_it_was_saved_goes_after_those_of_which_it_is():
    jobs = [runs("unknown", [0, 1], None, minute=9), runs("known", [2, 3], 0, minute=1)]

    assert stopped(*jobs, wait("claim", "owner", 2)) == {"known"}


def test_of_jobs_that_lose_the_same_the_youngest_goes():
    jobs = [runs("old", [0, 1], 500, minute=1), runs("young", [2, 3], 500, minute=2)]

    assert stopped(*jobs, wait("claim", "owner", 2)) == {"young"}


def test_priority_comes_before_what_is_lost():
    jobs = [runs("valued", [0, 1], 900, priority=75), runs("plain", [2, 3], 100)]

    assert stopped(*jobs, wait("claim", "owner", 2)) == {"plain"}


def test_one_victim_that_is_enough_goes_rather_than_several_that_lose_less():
    jobs = [runs("a", [0], 900), runs("b", [1], 900), runs("pair", [2, 3], 100)]

    assert stopped(*jobs, wait("claim", "owner", 2)) == {"pair"}


def test_a_large_job_stays_while_a_small_one_is_enough():
    jobs = [runs("large", [0, 1, 2], 900), runs("small", [3], 100)]

    assert stopped(*jobs, wait("claim", "owner", 1)) == {"small"}


@pytest.mark.parametrize(("claims", "victims"), [(8, {"large"}), (2, {"small0", "small1"})])
def test_one_job_goes_for_all_that_its_queue_has_too_much_and_another_claims(claims, victims):
    small = [runs(f"small{index}", [index], 900, on="n2", minute=9 - index) for index in range(8)]
    jobs = [runs("large", list(range(8)), 100), *small, *(wait(f"c{index}", "owner", 1) for index in range(claims))]

    assert stopped(*jobs, nodes=2, gpus=8) == victims


def test_of_jobs_larger_than_needed_the_smallest_goes():
    jobs = [runs("eight", list(range(8)), 900), runs("four", [0, 1, 2, 3], 100, on="n2")]
    jobs.append(runs("other-four", [4, 5, 6, 7], 50, on="n2"))

    assert stopped(*jobs, wait("claim", "owner", 1), nodes=2, gpus=8) == {"four"}


def test_no_more_victims_go_than_are_needed():
    jobs = [runs(f"job{index}", [index], 100 * index) for index in range(8)]

    assert stopped(*jobs, wait("claim", "owner", 3), gpus=8) == {"job5", "job6", "job7"}


def test_pods_beyond_a_minimum_go_before_whole_jobs():
    surplus = replace(
        (elastic := runs("elastic", [0], 0)),
        pods=tuple(
            replace(elastic.pods[0], id=f"elastic-{index}", devices=(str(index),)) for index in range(2)
        ),
        structure=GroupView((PodSetView("", 1),)),
    )  # fmt: skip
    jobs = [surplus, runs("fresh", [2], 900), runs("fresher", [3], 950)]
    decisions = run_cycle(
        Snapshot([node("n1", 4)], [queue("owner", 4), queue("guest", 0)], [*jobs, wait("claim", "owner", 1)]), NEARLINE
    )

    assert [decision.pod_id for decision in decisions if isinstance(decision, Stop)] == ["elastic-1"]


@pytest.mark.parametrize(("evictions", "victims"), [(4, {"unlucky"}), (5, {"other"})])
def test_a_job_that_was_evicted_as_often_as_allowed_is_spared(evictions, victims):
    jobs = [runs("unlucky", [0, 1], 900, evictions=evictions), runs("other", [2, 3], 100, evictions=4)]

    assert stopped(*jobs, wait("claim", "owner", 2)) == victims


def test_who_lost_its_place_less_often_goes_first_even_if_more_work_is_lost():
    jobs = [runs("unlucky", [0, 1], 900, evictions=2), runs("other", [2, 3], 100, evictions=1)]

    assert stopped(*jobs, wait("claim", "owner", 2)) == {"other"}


def test_where_everybody_is_spared_nobody_goes():
    jobs = [runs("a", [0, 1], 900, evictions=5), runs("b", [2, 3], 100, evictions=7)]

    assert stopped(*jobs, wait("claim", "owner", 2)) == set()


def test_how_often_a_job_may_be_evicted_is_the_policys_to_say():
    jobs = [runs("a", [0, 1], 900, evictions=1), runs("b", [2, 3], 100)]

    assert stopped(
        *jobs, wait("claim", "owner", 2), policy=replace(NEARLINE, sharing=SharingRules(evictions_at_most=1))
    ) == {"b"}


@pytest.mark.parametrize(("evictions", "moved"), [((4, 4), {"young"}), ((4, 5), {"old"}), ((5, 5), set())])
def test_a_job_that_was_stopped_as_often_as_allowed_is_not_moved_either(evictions, moved):
    old = runs("old", [0], 100, on="n1", minute=1, evictions=evictions[0])
    young = runs("young", [0], 900, on="n2", minute=2, evictions=evictions[1])
    parts = [node("n1", 2), node("n2", 2)], [queue("guest", 4)], [old, young, wait("wide", "guest", 2, minute=3)]

    assert {
        decision.job_id for decision in run_cycle(Snapshot(*parts), NEARLINE) if isinstance(decision, Stop)
    } == moved


@pytest.mark.parametrize(("evictions", "moved"), [(0, {"alone"}), (1, {"left", "right"})])
def test_the_work_of_that_node_moves_whose_stops_add_up_to_least(evictions, moved):
    jobs = [
        runs("left", [0, 1], 100, on="n1", minute=1),
        runs("right", [2, 3], 100, on="n1", minute=2),
        runs("alone", [0], 100, on="n2", minute=3, evictions=2 * evictions),
        runs("stays", [0], 100, on="n3", minute=4, evictions=5),
        wait("wide", "guest", 4, minute=5),
    ]
    rows = [node(name, 4) for name in ("n1", "n2", "n3")]

    decisions = run_cycle(Snapshot(rows, [queue("guest", 12)], jobs), NEARLINE)

    assert {decision.job_id for decision in decisions if isinstance(decision, Stop)} == moved


@pytest.mark.parametrize(("nodes", "tried"), [(4, 9), (8, 14), (16, 23)])
def test_where_moves_cannot_help_a_set_a_node_is_tried_and_others_of_doubled_size(nodes, tried, monkeypatch):
    rows = [node(f"n{index}", 4) for index in range(nodes)]
    jobs = [
        held(f"j{index}-{gpu}", "guest", f"n{index}", {gpu: 1}, cpu=20) for index in range(nodes) for gpu in range(3)
    ]
    queues = [queue("owner", nodes), queue("guest", 3 * nodes)]
    played = []
    play = solver._play
    monkeypatch.setattr(
        solver, "_play", lambda session, *more, **how: played.append(session.cause.code) or play(session, *more, **how)
    )

    decisions = run_cycle(Snapshot(rows, queues, [*jobs, wait("large", "owner", 4)]), NEARLINE)

    assert not any(isinstance(decision, Stop) for decision in decisions)
    assert played.count(StopCode.MOVED) == 2 * tried  # the wanted job first, and in its turn


def test_to_the_letter_of_the_model_neither_size_nor_loss_nor_past_evictions_count():
    jobs = [
        runs("young", [0, 1, 2], 100, minute=9, evictions=9),
        runs("old", [3], 900, minute=1),
    ]

    assert stopped(*jobs, wait("claim", "owner", 1), policy=PARITY) == {"young"}
    assert stopped(*jobs, wait("claim", "owner", 1)) == {"old"}


@st.composite
def full_clusters(draw) -> list[JobView]:
    """Return jobs of equal size that fill nodes of four devices, each saved at some moment or never."""
    size = draw(st.sampled_from([1, 2, 4]))
    moments = st.one_of(st.none(), st.integers(0, 1000))
    places = [(f"n{index + 1}", first) for index in range(draw(st.integers(1, 4))) for first in range(0, 4, size)]
    return [
        runs(f"job{number}", list(range(first, first + size)), draw(moments), on=name, minute=number)
        for number, (name, first) in enumerate(places)
    ]


@given(full_clusters(), st.sampled_from([1, 2, 4]), st.integers(1, 3))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_what_was_saved_decides_who_goes_and_not_how_much(jobs, gpus, count):
    claims = [wait(f"claim{number}", "owner", gpus) for number in range(count)]
    nodes = len({job.pods[0].node_id for job in jobs})

    by_loss = stopped(*jobs, *claims, nodes=nodes)
    by_age = stopped(*(replace(job, saved_at=None) for job in jobs), *claims, nodes=nodes)

    # Claims are served one after the other, so once in some thousand cases an earlier one leaves less for a later one.
    assert _devices(jobs, by_loss) <= _devices(jobs, by_age)


def _devices(jobs: list[JobView], stopped_ids: set[str]) -> int:
    return sum(len(job.pods[0].devices) for job in jobs if job.id in stopped_ids)
