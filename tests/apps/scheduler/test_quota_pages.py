"""The page of quotas: what is held, what a change would mean, and the change itself."""

import pytest
from django.test import Client

from accounts.models import User
from accounts.services import projects
from scheduler.models import Queue
from scheduler.services import queues
from scheduler.workers import cycle
from tests.factories.scheduler import enqueue, report, report_nodes

pytestmark = pytest.mark.django_db


@pytest.fixture
def browser(site_admin) -> Client:
    client = Client()
    client.force_login(User.objects.get(pk=site_admin.user_id))
    return client


@pytest.fixture
def two_projects(site_admin) -> None:
    """Two projects with one GPU each of four; both ask for four."""
    report_nodes(report("n1", 4))
    for name in ("team-b", "team-c"):
        project = projects.create_project(actor=site_admin, name=name)
        queues.set_quota(actor=site_admin, queue=Queue.objects.get(project=project), gpu_quota_milli=1000)
        enqueue(project, *[f"{name}-{number}" for number in range(4)], gpus=1, cpu_millicores=100)


def rows_of(browser: Client, address: str) -> dict[str, tuple]:
    context = browser.get(address).context
    return {row.queue.project.name: (row.fair_milli, row.then_milli) for row in context["rows"]}


def test_fair_shares_are_those_of_the_next_cycle(browser, two_projects):
    assert rows_of(browser, "/quotas/") == {"team-b": (2000, None), "team-c": (2000, None)}


def test_a_change_is_tried_without_being_made(browser, two_projects):
    tried = rows_of(browser, "/quotas/?try=team-b&gpus=3")

    assert tried == {"team-b": (2000, 3000), "team-c": (2000, 1000)}
    assert set(Queue.objects.values_list("gpu_quota_milli", flat=True)) == {1000}


def test_a_change_is_made_and_holds(browser, two_projects):
    browser.post("/quotas/team-b/", {"gpus": "3", "memory": "64 GB", "weight": "2"})

    queue = Queue.objects.get(project__name="team-b")
    assert (queue.gpu_quota_milli, queue.memory_quota_bytes, queue.over_quota_weight) == (3000, 64 * 10**9, 2.0)
    assert queue.cpu_quota_millicores is None


def test_a_senseless_quota_is_refused_in_words_and_the_old_one_stays(browser, two_projects):
    answer = browser.post("/quotas/team-b/", {"gpus": "-1"}, follow=True)

    assert "The quota of team-b stays." in answer.content.decode()
    assert Queue.objects.get(project__name="team-b").gpu_quota_milli == 1000


def test_what_is_held_beyond_the_quota_is_borrowed(browser, two_projects):
    cycle.run_once()

    page = browser.get("/quotas/").content.decode()

    assert page.count("borrows 1") == 2


def test_a_member_sees_their_own_projects_and_no_way_to_change_them(member, project, two_projects):
    client = Client()
    client.force_login(User.objects.get(pk=member.user_id))
    queues.ensure_queue(project_id=project.pk)

    page = client.get("/quotas/").content.decode()

    assert "team-a" in page
    assert "team-b" not in page
    assert "Change the quota" not in page


def test_a_thousand_waiting_workloads_give_the_shares_that_the_next_cycle_counts_on(two_projects):
    few = cycle.fair_shares()
    enqueue(Queue.objects.get(project__name="team-b").project, *[f"more-{n}" for n in range(1000)], gpus=1)

    assert len(cycle._demand()) < 100
    assert cycle.fair_shares() == few


def test_what_was_held_in_the_last_two_hours_is_drawn_with_its_numbers(browser, two_projects):
    assert browser.get("/quotas/").context["chart"] is None

    cycle.run_once()

    chart = browser.get("/quotas/").context["chart"]
    assert [(line.label, line.values[0], line.values[-1]) for line in chart.series] == [
        ("team-b", 0, 2),
        ("team-c", 0, 2),
    ]
    assert (chart.x[0], chart.x[-1]) == (-120, 0)
    assert [line.label for line in browser.get("/quotas/?project=team-b").context["chart"].series] == ["team-b"]


@pytest.mark.parametrize(
    ("gpus", "cores", "memory_gib", "stand_ins"),
    [
        (0.5, 40, 256, 4),  # two GPUs hold four halves, though cores and memory hold only two of these
        (0, 10, 256, 8),  # 80 cores hold eight of ten
        (0, 40, 4, 128),  # 512 GiB hold 128 of four
    ],
)
def test_the_preview_counts_with_as_many_stand_ins_as_fill_everything(project, gpus, cores, memory_gib, stand_ins):
    report_nodes(*(report(name, gpus=1, cpu=40, memory_gib=256) for name in ("n1", "n2")))
    names = [f"job-{n}" for n in range(200)]
    enqueue(project, *names, gpus=gpus, cpu_millicores=cores * 1000, memory_bytes=memory_gib * 2**30)

    assert len(cycle._demand()) == stand_ins
