"""What a process keeps between cycles says what the database says, and costs what has changed."""

import random
from datetime import timedelta

import pytest
from django.db import transaction

from accounts.services import projects
from core import clock
from scheduler.engine.snapshot import NEARLINE
from scheduler.models import Node, Queue, Workload
from scheduler.selectors.snapshots import SnapshotReader
from scheduler.services import nodes, pool_members, queues, workloads
from scheduler.services.workloads import PodSet, WorkloadRequest
from scheduler.workers import cycle
from scheduler.workers.cycle import SessionCache
from tests.engine.scheduler.rebuilt_session import differences
from tests.factories.scheduler import GIB, NOON, enqueue, report, report_nodes

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("move")]


@pytest.fixture
def sessions(monkeypatch):
    """Return what the cycles of the test use."""
    mine = SessionCache()
    monkeypatch.setattr(cycle, "_sessions", mine)
    return mine


@pytest.fixture
def teams(project, site_admin):
    return [project, projects.create_project(actor=site_admin, name="team-b")]


def seen(sessions) -> list[tuple[bool, int]]:
    """Return whether a cycle has changes, and how many jobs there are."""
    with sessions.read(NEARLINE) as inputs:
        return [(cycle_input.has_changes, len(cycle_input.view.jobs)) for cycle_input in inputs.values()]


def enqueue_gang(project, name: str, count: int) -> None:
    """Let a launcher wait with its workers."""
    workers = PodSet(name="replica", cpu_millicores=1000, memory_bytes=GIB, gpu_milli=1000, count=count)
    launcher = PodSet(name="launcher", cpu_millicores=2000, memory_bytes=GIB)
    gang = WorkloadRequest(project_id=project.pk, name=name, resource_id="res_lab", pod_sets=[workers, launcher])
    workloads.enqueue_many([gang])


@pytest.mark.parametrize("seed", range(6))
def test_it_says_what_one_that_knows_nothing_would_say(teams, site_admin, sessions, move, seed):
    dice = random.Random(seed)
    for team in teams:
        queue = Queue.objects.get(pk=pool_members.ensure_queue(project_id=team.pk))
        queues.set_quota(actor=site_admin, queue=queue, gpu_quota_milli=4000)
    sizes = {"n1": 4, "n2": 4, "n3": 2}

    def some(state: str) -> list[str]:
        ids = list(Workload.objects.filter(state=state).order_by("pk").values_list("pk", flat=True))
        return dice.sample(ids, min(len(ids), dice.randint(0, 3)))

    def drain() -> None:
        node = dice.choice(Node.objects.order_by("name"))
        nodes.set_drained(actor=site_admin, node=node, is_drained=not node.is_drained)

    def set_quota() -> None:
        queue = dice.choice(Queue.objects.order_by("pk"))
        queues.set_quota(actor=site_admin, queue=queue, gpu_quota_milli=1000 * dice.randint(0, 8))

    def lose_devices() -> None:
        sizes["n3"] = dice.randint(0, 3)
        report_nodes(*[report(name, size) for name, size in sizes.items()])

    lose_devices()
    for step in range(40):
        deeds = [
            lambda step=step: enqueue(dice.choice(teams), f"w{step}", gpus=dice.choice([0, 0.5, 1, 2, 4])),
            lambda step=step: enqueue_gang(dice.choice(teams), f"gang{step}", dice.randint(1, 3)),
            lambda: workloads.release_many(some("placed")),
            lambda: workloads.withdraw_many(some("pending")),
            lambda: workloads.requeue_many(some("leaving")),
            lambda: move(clock.now() + timedelta(seconds=dice.choice([1, 20, 400]))),
            *dice.sample([drain, set_quota, lose_devices], 1),
        ]
        for deed in dice.sample(deeds, 3):
            deed()
        with sessions.read(NEARLINE) as inputs:
            anew = SnapshotReader().read()
            assert {pool_id: cycle_input.view for pool_id, cycle_input in inputs.items()} == anew
            assert [differences(cycle_input.session) for cycle_input in inputs.values()] == [[]]
        cycle.run_once()


def test_a_cycle_has_no_changes_until_something_changes(project, sessions):
    report_nodes(report("n1", 1))
    enqueue(project, "first", gpus=1)

    assert [*seen(sessions), *seen(sessions)] == [(True, 1), (False, 1)]
    enqueue(project, "second", gpus=1)
    assert [*seen(sessions), *seen(sessions)] == [(True, 2), (False, 2)]
    workloads.withdraw_many(Workload.objects.values_list("pk", flat=True))
    assert [*seen(sessions), *seen(sessions)] == [(True, 0), (False, 0)]


def test_a_cycle_decides_where_something_has_changed_and_keeps_the_other_answers(project, sessions, monkeypatch):
    report_nodes(report("n1", 1))
    report_nodes(report("c1", 1), resource="res_cloud")
    (big,) = enqueue(project, "big", gpus=2)
    cycle.run_once()
    decided: list[set[str]] = []
    decide = cycle.decide_moves
    monkeypatch.setattr(cycle, "decide_moves", lambda session: decided.append({*session.jobs}) or decide(session))

    (other,) = enqueue(project, "elsewhere", gpus=2, resource="res_cloud")
    outcome = cycle.run_once()

    assert decided == [{other.pk}]
    assert outcome.waiting == 2
    for workload in (big, other):
        workload.refresh_from_db()
    assert [workload.why_code for workload in (big, other)] == ["never_fits", "never_fits"]


def test_a_wait_changes_something_only_when_nodes_begin_to_be_reserved(project, sessions, move):
    report_nodes(report("n1", 1))
    enqueue(project, "big", gpus=1)

    changes = []
    for second in (810, 850, 899, 900, 960):
        move(NOON + timedelta(seconds=second))
        changes += [has_changes for has_changes, _ in seen(sessions)]

    assert changes == [True, False, False, True, False]


def test_everything_is_looked_at_anew_after_ten_minutes(project, sessions, move):
    report_nodes(report("n1", 1))
    seen(sessions)

    move(NOON + timedelta(seconds=599))
    assert seen(sessions) == [(False, 0)]
    move(NOON + timedelta(seconds=600))
    assert seen(sessions) == [(True, 0)]


def test_a_cycle_that_is_cut_short_leaves_nothing_behind(project, sessions):
    report_nodes(report("n1", 1))
    seen(sessions)

    with pytest.raises(RuntimeError), sessions.read(NEARLINE):
        raise RuntimeError

    assert seen(sessions) == [(True, 0)]


def test_a_look_at_what_is_rolled_back_afterwards_leaves_nothing_behind(project, sessions):
    report_nodes(report("n1", 1))
    enqueue(project, "first", gpus=1)
    seen(sessions)

    with transaction.atomic():
        enqueue(project, "second", gpus=1)
        assert seen(sessions) == [(True, 2)]
        transaction.set_rollback(True)

    assert seen(sessions) == [(True, 1)]


def test_a_look_reads_the_rows_of_what_is_new_only(project, sessions, django_assert_num_queries):
    report_nodes(report("n1", 1))
    enqueue(project, *[f"w{number}" for number in range(50)], gpus=1)
    seen(sessions)

    # what there is, and the queues
    with django_assert_num_queries(2):
        seen(sessions)
    enqueue(project, "one more", gpus=1)
    with django_assert_num_queries(3):
        seen(sessions)
