"""When the resources come back that a job waits for."""

from datetime import UTC, datetime, timedelta

import pytest

from compute.engine.holders import Amounts, Holding, count_empty, find_release

START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
NODE = Amounts(8000, 2**34, 2000)
ONE_GPU = Amounts(1000, 2**30, 1000)


def holding(job: str, minutes: float | None, *, node: str = "n1", cpu: int = 1000, gpus=()) -> Holding:
    ends_at = None if minutes is None else START + timedelta(minutes=minutes)
    return Holding(job, node, cpu, 2**30, gpus, ends_at)


def told(ask: Amounts, holdings: list[Holding], nodes=(("n1", NODE),)) -> tuple[str, float, list[str]] | None:
    release = find_release(ask, nodes, holdings)
    if release is None:
        return None
    return release.node, (release.ends_at - START) / timedelta(minutes=1), [each.job_id for each in release.holdings]


def test_what_is_free_is_held_by_nobody():
    assert told(ONE_GPU, [holding("a", 5, gpus=[[0, 1000]])]) is None


def test_a_device_comes_back_when_the_first_of_its_holders_ends():
    held = [holding("a", 9, gpus=[[0, 1000]]), holding("b", 5, gpus=[[1, 1000]])]

    assert told(ONE_GPU, held) == ("n1", 5, ["b"])


def test_whole_devices_come_back_when_all_their_parts_have_ended():
    held = [holding("a", 9, gpus=[[0, 500]]), holding("b", 5, gpus=[[0, 500]]), holding("c", None, gpus=[[1, 1000]])]

    assert told(ONE_GPU, held) == ("n1", 9, ["b", "a"])
    assert told(Amounts(1000, 2**30, 500), held) == ("n1", 5, ["b"])


def test_where_no_known_end_is_enough_nothing_is_told():
    assert told(ONE_GPU, [holding("a", None, gpus=[[0, 1000]]), holding("b", None, gpus=[[1, 1000]])]) is None
    assert told(Amounts(9000, 2**30, 0), [holding("a", 5)]) is None


def test_of_several_nodes_the_first_to_come_free_is_told():
    held = [holding("a", 9, cpu=8000), holding("b", 4, node="n2", cpu=8000)]

    assert told(Amounts(4000, 2**30, 0), held, nodes=[("n1", NODE), ("n2", NODE)]) == ("n2", 4, ["b"])


@pytest.mark.parametrize(
    ("cpu", "memory", "gpu_milli", "count"),
    [(1000, 2**30, 0, 8), (1000, 2**32, 0, 4), (1000, 2**30, 1000, 2), (1000, 2**30, 300, 6), (1000, 2**30, 3000, 0)],
)
def test_what_is_asked_for_is_counted_on_an_empty_node(cpu, memory, gpu_milli, count):
    assert count_empty(Amounts(cpu, memory, gpu_milli), NODE) == count
