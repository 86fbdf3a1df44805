"""What held the GPUs of nodes is noted when it changes, read over time, and deleted when it is old."""

from datetime import timedelta

import pytest

from scheduler.models import NodeSpan
from scheduler.selectors.nodes import Share, Stretch, read_histories
from scheduler.services import workloads
from scheduler.workers import cycle, node_spans
from tests.factories.scheduler import NOON, enqueue, report, report_nodes

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


@pytest.fixture
def held(project, move):
    """Let one of two GPUs be held from the second minute to the fourth."""
    report_nodes(report("n1", 2))
    node_spans.sample()
    (job,) = enqueue(project, "job", gpus=1)
    cycle.run_once()
    move(NOON + MINUTE)
    node_spans.sample()
    move(NOON + 2 * MINUTE)
    node_spans.sample()
    workloads.release_many([job.pk])
    move(NOON + 3 * MINUTE)
    node_spans.sample()
    return job


def test_a_row_is_written_for_each_change_and_for_nothing_else(held, project):
    rows = NodeSpan.objects.order_by("begins_at").values_list("begins_at", "ends_at", "shares")

    assert list(rows) == [
        (NOON, NOON + MINUTE, []),
        (NOON + MINUTE, NOON + 3 * MINUTE, [[0, project.pk, 1000]]),
        (NOON + 3 * MINUTE, None, []),
    ]


def test_each_device_is_read_as_stretches_of_equal_moments(held, project, member):
    (node,) = read_histories(actor=member, pool="default", past=5 * MINUTE, moments=5, most=10)

    assert node.devices == [
        [Stretch(1, 2, []), Stretch(2, 4, [Share(project.pk, 1000)]), Stretch(4, 5, [])],
        [Stretch(1, 5, [])],
    ]


def test_spans_that_ended_long_ago_are_deleted_and_the_last_one_stays(held, move):
    move(NOON + node_spans.KEPT + 4 * MINUTE)
    node_spans.collect()

    assert [span.begins_at for span in NodeSpan.objects.all()] == [NOON + 3 * MINUTE]


def test_shares_of_one_device_by_the_same_project_are_added_up(project, move):
    report_nodes(report("n1", 1))
    enqueue(project, "first", "second", gpus=0.5)
    cycle.run_once()
    node_spans.sample()

    assert NodeSpan.objects.get().shares == [[0, project.pk, 1000]]
