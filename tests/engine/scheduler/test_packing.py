"""What capacity is worth to the work still to come, what a place costs, and where work goes by that."""

from dataclasses import replace

import pytest

from scheduler.engine.ledger import NodeLedger, SharedDevice
from scheduler.engine.rules import packing
from scheduler.engine.shapes import NO_CAPACITY, rank_key
from scheduler.engine.snapshot import CapacityPrices, Fill, PodState, Policy, Request
from tests.factories.scheduler import GIB, decide, held, needs, node, queue, wait

LAB = [node("n1", 4)]
LINEAR = CapacityPrices(tuple(part / 100 for part in range(101)))
HALVES = CapacityPrices(tuple(0.5 * (part // 50) for part in range(101)))
"""What halves make of a device."""


def by_prices(prices: CapacityPrices | None, *, shares_first: bool = False) -> Policy:
    return Policy(
        gpu_nodes=Fill.MIX, cpu_nodes=Fill.MIX, devices=Fill.MIX, prices=prices, prefers_shared_devices=shares_first
    )


def ledger(view, *running: tuple[Request, tuple[str, ...]]) -> NodeLedger:
    ledger_now = NodeLedger(view, 0, [])
    for request, devices in running:
        ledger_now.count(request, PodState.RUNNING, devices, 1)
    return ledger_now


# --- what capacity is worth


def worth(mix, *parts: int) -> list[float]:
    prices = packing.price_capacity(mix, LAB)
    assert prices is not None
    return [round(prices.device[part], 1) for part in parts]


def test_where_only_whole_devices_are_asked_for_a_part_of_one_is_worth_nothing():
    assert worth([(Request(gpus=1), 1)], 0, 50, 99, 100) == [0, 0, 0, 1]


def test_a_device_is_worth_the_pieces_that_will_be_cut_from_it():
    assert worth([(Request(share_milli=500), 1)], 49, 50, 100) == [0, 0.5, 1]
    assert worth([(Request(share_milli=600), 1), (Request(share_milli=400), 1)], 30, 40, 60, 90, 100) == [
        0, 0.4, 0.6, 0.8, 1,
    ]  # fmt: skip


def test_a_device_is_worth_no_more_than_the_work_that_loses_when_room_runs_out():
    assert worth([(Request(share_milli=800), 3), (Request(gpus=1), 5)], 20, 79, 80, 100) == [0, 0, 0.8, 0.8]


def test_more_room_is_never_worth_less():
    mix = [(Request(share_milli=milli), weight) for milli, weight in ((810, 9), (470, 7), (320, 3), (110, 1))]

    prices = packing.price_capacity([*mix, (Request(gpus=1), 20)], LAB)

    assert prices is not None
    assert list(prices.device) == sorted(prices.device)
    assert prices.device[0] == 0


def test_only_the_proportions_of_the_mix_matter():
    mix = [(Request(share_milli=600), 1), (Request(share_milli=400), 2)]

    assert packing.price_capacity(mix, LAB) == packing.price_capacity(
        [(request, 4 * weight) for request, weight in mix], LAB
    )


@pytest.mark.parametrize("mix", [[], [(needs(cpu=4), 3)], [(Request(mig=(("1g.5gb", 1),)), 1)], [(needs(1), 0)]])
def test_without_work_for_devices_to_come_there_are_no_prices(mix):
    assert packing.price_capacity(mix, LAB) is None


def test_a_share_in_memory_is_a_part_of_the_smallest_device():
    small = replace(node("n2", 4), device_mib=16_000)

    assert packing.price_capacity([(Request(share_mib=8_000), 1)], [*LAB, small]) == packing.price_capacity(
        [(Request(share_milli=500), 1)], [*LAB, small]
    )


def test_work_asks_for_so_many_cores_and_so_much_memory_with_each_device():
    mix = [(needs(2, cpu=8, memory_gib=4), 1), (needs(0.5, cpu=3, memory_gib=1), 4), (needs(cpu=99), 5)]

    prices = packing.price_capacity(mix, LAB)

    assert prices is not None
    assert prices.cores_per_device == (8_000 + 4 * 3_000) / (2 + 4 * 0.5)
    assert prices.memory_per_device == (4 + 4 * 1) * GIB / (2 + 4 * 0.5)


def test_the_devices_that_few_cores_serve_are_those_of_the_work_that_asks_for_the_fewest():
    mix = [(needs(1, cpu=12), 1), (needs(2, cpu=4), 1), (needs(1, cpu=4), 1)]

    prices = packing.price_capacity(mix, LAB)

    assert prices is not None
    assert [round(prices.served_by_cores[part], 3) for part in (0, 10, 20, 40, 70, 100)] == [
        0, 0.25, 0.5, 0.75, 0.875, 1,
    ]  # fmt: skip


def test_a_pool_is_dearer_by_the_part_of_it_that_work_will_ask_for_which_runs_nowhere_else():
    pools = [node("n1", 2, resource="old"), node("n2", 6, resource="new")]

    prices = packing.price_capacity([(needs(1), 8), (needs(1, resource="old"), 2)], pools)

    assert prices is not None
    assert prices.premiums == {"old": 0.2 / 0.25}


# --- what a place costs


def test_whole_devices_cost_what_each_is_worth():
    assert packing.cost(ledger(node("n1", 4)), needs(3), HALVES) == 3.0


def test_a_share_costs_what_it_takes_from_what_the_rest_was_worth():
    used = ledger(node("n1", 1), (needs(0.2), ("0",)))

    assert packing.cost(used, needs(0.3), HALVES) == 0.0
    assert packing.cost(used, needs(0.4), HALVES) == 0.5


def test_a_share_costs_what_it_takes_from_the_device_that_misses_it_least():
    used = ledger(node("n1", 3), (needs(0.5), ("0",)), (needs(0.2), ("1",)))

    assert packing.cost(used, needs(0.3), HALVES) == 0.0
    assert packing.cost(used, replace(needs(0.3), devices=2), HALVES) == 0.5


def test_in_a_dearer_pool_everything_costs_more():
    dear = replace(HALVES, premiums={"lab": 0.5})

    assert packing.cost(ledger(node("n1", 4)), needs(2), dear) == 3.0
    assert packing.cost(ledger(node("n1", 4, resource="other")), needs(2), dear) == 2.0


def test_devices_left_without_the_usual_cores_are_lost_and_count_twice():
    usual = replace(HALVES, cores_per_device=4_000)

    assert packing.cost(ledger(node("n1", 2, cpu=8)), needs(1, cpu=6), usual) == 1 + 2 * 0.5
    assert packing.cost(ledger(node("n1", 2, cpu=8)), needs(cpu=4), usual) == 2 * 1.0


def test_devices_left_without_the_usual_memory_are_lost_too_but_not_once_more():
    usual = replace(HALVES, cores_per_device=4_000, memory_per_device=8 * GIB)
    ledger_now = ledger(node("n1", 2, cpu=8, memory_gib=16))

    assert packing.cost(ledger_now, needs(cpu=0, memory_gib=4), usual) == 2 * 0.5
    assert packing.cost(ledger_now, needs(cpu=4, memory_gib=4), usual) == 2 * 1.0


def test_the_last_cores_beside_devices_are_dearer_than_those_that_only_some_work_would_use():
    half_need_none = tuple(min(1.0, 0.5 + part / 100) for part in range(101))
    usual = replace(HALVES, cores_per_device=4_000, served_by_cores=half_need_none)

    assert packing.cost(ledger(node("n1", 2, cpu=8)), needs(cpu=4), usual) == 0.0
    assert packing.cost(ledger(node("n1", 2, cpu=8)), needs(cpu=6), usual) == 2 * 0.5


def test_using_a_device_that_lacked_cores_anyhow_is_a_gain():
    usual = replace(HALVES, cores_per_device=4_000)

    assert packing.cost(ledger(node("n1", 2, cpu=4)), needs(1, cpu=0), usual) == 1 - 2 * 1.0


def test_a_share_takes_the_worth_of_the_room_that_it_needs():
    view = node("n1", 1)
    device = SharedDevice("0", active=1, active_mib=view.device_mib // 4)

    assert packing.device_cost(ledger(view), device, view.device_mib // 2, LINEAR) == 0.75 - 0.25


# --- where work goes


def test_of_equal_costs_the_fullest_node_wins():
    empty, used = ledger(node("n1", 4)), ledger(node("n2", 4), (needs(1), ("0",)))

    keys = [rank_key(ledger_now, needs(1), by_prices(HALVES)) for ledger_now in (empty, used)]

    assert keys[0] < keys[1]


def test_no_price_makes_room_where_there_is_none():
    assert rank_key(ledger(node("n1", 1)), needs(2), by_prices(HALVES)) == NO_CAPACITY


def test_a_small_share_does_not_break_the_room_that_half_a_device_will_need():
    cluster = [
        node("n1", 1),
        node("n2", 1),
        queue("q", 2),
        held("half", "q", "n1", {0: 0.5}),
        held("fifth", "q", "n2", {0: 0.2}),
    ]

    tight = decide(*cluster, wait("new", "q", 0.3))
    priced = decide(*cluster, wait("new", "q", 0.3), policy=by_prices(HALVES))

    assert tight.nodes == {"new": "n1"}
    assert priced.nodes == {"new": "n2"}


def test_of_the_devices_of_a_node_the_one_that_misses_the_share_least_serves_it():
    cluster = [
        node("n1", 2),
        queue("q", 2),
        held("half", "q", "n1", {0: 0.5}),
        held("fifth", "q", "n1", {1: 0.2}),
    ]

    assert decide(*cluster, wait("new", "q", 0.3)).gpus == {"new": {0: 300}}
    assert decide(*cluster, wait("new", "q", 0.3), policy=by_prices(HALVES)).gpus == {"new": {1: 300}}


def test_a_share_opens_a_device_rather_than_break_what_will_be_needed_unless_shared_ones_come_first():
    cluster = [node("n1", 1), node("n2", 1), queue("q", 2), held("half", "q", "n1", {0: 0.5})]
    whole_is_cheap = CapacityPrices((0.0,) * 50 + (0.5,) * 51)

    assert decide(*cluster, wait("new", "q", 0.3), policy=by_prices(whole_is_cheap)).nodes == {"new": "n2"}
    assert decide(*cluster, wait("new", "q", 0.3), policy=by_prices(whole_is_cheap, shares_first=True)).nodes == {
        "new": "n1"
    }


def test_work_that_may_run_anywhere_leaves_the_pool_that_others_cannot_do_without():
    scarce, plain = node("n1", 2, resource="scarce"), node("n2", 8, resource="plain")
    prices = replace(HALVES, premiums={"scarce": 0.8})
    job = wait("new", "q", 1, resource="")

    assert decide(scarce, plain, queue("q", 4), job).nodes == {"new": "n1"}
    assert decide(scarce, plain, queue("q", 4), job, policy=by_prices(prices)).nodes == {"new": "n2"}


def test_work_with_many_cores_goes_where_they_are_not_needed_by_devices():
    lean, rich = node("n1", 2, cpu=8), node("n2", 4, cpu=64)
    prices = replace(HALVES, cores_per_device=4_000)

    assert decide(lean, rich, queue("q", 4), wait("new", "q", 1, cpu=6)).nodes == {"new": "n1"}
    assert decide(lean, rich, queue("q", 4), wait("new", "q", 1, cpu=6), policy=by_prices(prices)).nodes == {
        "new": "n2"
    }
    assert decide(lean, rich, queue("q", 4), wait("new", "q", cpu=4), policy=by_prices(prices)).nodes == {"new": "n2"}


@pytest.mark.parametrize("gpus", [0, 0.3, 0.6, 1, 2])
def test_without_prices_the_mix_fills_as_packing_does(gpus):
    cluster = [
        node("n1", 4),
        node("n2", 4),
        node("n3", 1),
        node("n4"),
        queue("q", 9),
        held("a", "q", "n1", {0: 0.5}, cpu=9),
        held("b", "q", "n2", {0: 1, 1: 1}),
        held("c", "q", "n2", {2: 0.2}),
    ]
    jobs = [wait(f"j{index}", "q", gpus, minute=index) for index in range(4)]

    by_mix = decide(*cluster, *jobs, policy=by_prices(None, shares_first=True))

    assert by_mix.decisions == decide(*cluster, *jobs).decisions
