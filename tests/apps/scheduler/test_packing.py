"""Prices of capacity: learnt from what was asked for lately, beside the cycles, and what the controller makes of them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from core import clock
from scheduler.engine.snapshot import NEARLINE, CapacityPrices, Fill
from scheduler.models import Packing, Placement, Workload
from scheduler.selectors.snapshots import with_prices
from scheduler.services import pool_members, workloads
from scheduler.workers import cycle, packing
from tests.factories.browsers import browser_of
from tests.factories.scheduler import enqueue, report, report_nodes

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
LINEAR = CapacityPrices(tuple(part / 100 for part in range(101)))
HALF_A_DEVICE_IS_ALL = CapacityPrices((0.0,) * 50 + (0.5,) * 51)
"""The second half of a device is worth nothing: by that alone each share up to a half would open a device."""


def ask(project, count: int, **shape) -> None:
    """Let work of a shape come and go again."""
    first = Workload.objects.count()
    past = enqueue(project, *[f"past-{first + number}" for number in range(count)], **shape)
    workloads.release_many([workload.pk for workload in past])


def learn_at(moment: datetime) -> None:
    with clock.frozen_at(moment):
        packing.learn()


def set_prices(prices: CapacityPrices) -> None:
    facts = {"device": prices.device, "cores_per_device": prices.cores_per_device}
    Packing.objects.create(mix=[[1000, 1000, 2**30, 80]], prices=facts, requests=80, learnt_at=clock.now())


def arrive(project, shapes: Sequence[tuple[float, int]]) -> tuple[int, list[str]]:
    """Let workloads of some GPUs and cores come one by one; return the GPUs that are held in the end, and who waits."""
    for number, (gpus, cores) in enumerate(shapes):
        enqueue(project, f"{number}: {gpus:g}", gpus=gpus, cpu_millicores=1000 * cores)
        cycle.run_once()
    held = sum(milli for placement in Placement.objects.all() for _, milli in placement.gpus)
    return held, list(Workload.objects.filter(state="pending").order_by("pk").values_list("name", flat=True))


# --- learning


def test_too_few_requests_for_gpus_teach_nothing(project):
    ask(project, 49, gpus=0.5)
    ask(project, 100)

    packing.learn()

    assert not Packing.objects.exists()
    assert with_prices(NEARLINE) is NEARLINE


def test_the_prices_are_those_of_the_mix_of_recent_requests_and_every_controller_reads_them(project):
    ask(project, 40, gpus=0.5, cpu_millicores=2000)
    ask(project, 20, gpus=2, cpu_millicores=8000)

    learn_at(NOON)

    known = Packing.objects.get()
    assert (known.requests, known.learnt_at) == (60, NOON)
    assert known.mix == [[500, 2000, 2**30, 40], [2000, 8000, 2**30, 20]]
    policy = with_prices(NEARLINE)
    assert (policy.gpu_nodes, policy.cpu_nodes, policy.devices) == (Fill.MIX, Fill.MIX, Fill.PACK)
    assert policy.prices.cores_per_device == (40 * 2000 + 20 * 8000) / (40 * 0.5 + 20 * 2)
    assert [round(policy.prices.device[part], 1) for part in (0, 49, 50, 100)] == [0, 0, 0.5, 1]


def test_of_all_controllers_one_looks_in_five_minutes(project):
    learn_at(NOON)
    ask(project, 50, gpus=0.5)

    learn_at(NOON + timedelta(minutes=4, seconds=59))
    assert not Packing.objects.exists()

    learn_at(NOON + timedelta(minutes=5))
    assert Packing.objects.get().requests == 50


def test_prices_are_worked_out_anew_only_when_the_mix_has_moved(project):
    ask(project, 60, gpus=0.5)
    learn_at(NOON)
    later = NOON + timedelta(minutes=5)

    ask(project, 3, gpus=1)
    learn_at(later)
    assert Packing.objects.get().learnt_at == NOON

    ask(project, 1, gpus=1)
    learn_at(later + timedelta(minutes=5))
    known = Packing.objects.get()
    assert (known.requests, known.learnt_at) == (64, later + timedelta(minutes=5))


def test_the_newest_requests_count(project, monkeypatch):
    monkeypatch.setattr(packing, "_LOOK_BACK", 50)
    ask(project, 10, gpus=0.5)
    ask(project, 50, gpus=1)

    packing.learn()

    assert Packing.objects.get().mix == [[1000, 1000, 2**30, 50]]


def test_what_can_no_longer_be_learnt_is_forgotten(project):
    set_prices(LINEAR)

    packing.learn()

    assert not Packing.objects.exists()


def test_a_change_is_logged_once(project, monkeypatch):
    logged = []
    monkeypatch.setattr(packing, "log", SimpleNamespace(info=lambda event, **facts: logged.append((event, facts))))
    ask(project, 50, gpus=1)

    learn_at(NOON)
    learn_at(NOON + timedelta(minutes=5))

    assert logged == [("scheduler.packing", {"fill": "mix", "requests": 50})]


# --- packing by it


SHARES = [(share, 1) for share in (0.5, 0.2, 0.5, 0.2, 0.3, 0.3)]
CORES = [(1, cores) for cores in (6, 6, 4, 4, 4, 4)]


def test_shares_by_the_prices_of_the_mix_leave_the_room_that_later_ones_need(project):
    report_nodes(report("n1", 1), report("n2", 1))
    for share, count in ((0.5, 40), (0.3, 20), (0.2, 20)):
        ask(project, count, gpus=share)
    packing.learn()

    assert arrive(project, SHARES) == (2000, [])


def test_shares_on_the_fullest_device_break_it(project):
    report_nodes(report("n1", 1), report("n2", 1))

    assert arrive(project, SHARES) == (1700, ["5: 0.3"])


def test_work_with_many_cores_by_the_prices_of_the_mix_leaves_those_that_other_devices_need(project):
    report_nodes(report("lean", 2, cpu=8), report("rich", 4, cpu=40))
    for cores in (6, 4, 4):
        ask(project, 20, gpus=1, cpu_millicores=1000 * cores)
    packing.learn()

    assert arrive(project, CORES) == (6000, [])


def test_work_with_many_cores_on_the_fullest_node_strands_a_device(project):
    report_nodes(report("lean", 2, cpu=8), report("rich", 4, cpu=40))

    assert arrive(project, CORES) == (5000, ["5: 1"])


@pytest.mark.parametrize("prices", [None, LINEAR, HALF_A_DEVICE_IS_ALL])
def test_a_share_joins_a_device_in_shared_use_whatever_the_prices(project, prices):
    report_nodes(report("n1", 2), report("n2", 2))
    if prices is not None:
        set_prices(prices)

    arrive(project, [(0.5, 1), (0.3, 1)])

    (first, second) = Placement.objects.order_by("pk")
    assert (first.gpus, second.gpus) == ([[0, 500]], [[0, 300]])
    assert first.node == second.node


def test_the_page_of_quotas_says_which_packing_is_in_use(site_admin, project):
    client = browser_of(site_admin)
    pool_members.ensure_queue(project_id=project.pk)
    assert "Packing: the fullest node first. After 50 GPU requests" in client.get("/quotas/").content.decode()

    set_prices(LINEAR)

    assert "the mix of the last 80 GPU requests" in client.get("/quotas/").content.decode()
