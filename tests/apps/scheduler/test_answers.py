"""What those who wait are told beyond the sentence: once for all alike, kept up to date, and gone with the last."""

import pytest

from accounts.services import projects
from scheduler.models import Answer, Change, Node, Queue, Workload
from scheduler.selectors.answers import NearNode, PassedBound, ShortageText, find_proof
from scheduler.services import pool_members, queues, resource_nodes, workloads
from scheduler.workers import cycle
from tests.factories.api import call
from tests.factories.scheduler import GIB, enqueue, report, report_nodes

pytestmark = pytest.mark.django_db


def told(name: str) -> Workload:
    return Workload.objects.select_related("answer").get(name=name)


def test_one_who_waits_is_told_what_would_help_and_shown_the_proof(project):
    report_nodes(report("n1", 2), report("n2", 1), report("n3"))
    enqueue(project, "first", "second", gpus=1)
    cycle.run_once()
    enqueue(project, "pair", gpus=2)

    cycle.run_once()

    pair = told("pair")
    n1 = Node.objects.get(name="n1").pk
    lack = {"resource": "gpu", "asked": 2000, "available": 1000, "profile": ""}
    assert pair.answer.advice == "wait for 1 GPU more on n1"
    assert pair.answer.proof == {
        "needed": 1,
        "placeable": 0,
        "bounds": [],
        "nearest": [{"node_id": n1, "node": "n1", "cause": "busy", "shortages": [lack]}],
        "others": {"too_small": 2},
        "unblock": [{"way": "wait_for_node", "where": "n1", "resource": "gpu", "amount": 1000, "profile": ""}],
    }


def test_all_that_wait_for_the_same_share_one_answer(project):
    report_nodes(report("n1", 1))
    enqueue(project, *[f"job-{number}" for number in range(30)], gpus=1)
    enqueue(project, *[f"half-{number}" for number in range(30)], gpus=0.5)

    cycle.run_once()

    assert Answer.objects.count() == 2
    waiting = Workload.objects.filter(state="pending")
    assert {(row.gpu_milli, row.answer_id) for row in waiting} == {
        (1000, told("job-29").answer_id),
        (500, told("half-29").answer_id),
    }


def test_numbers_that_change_behind_the_same_sentence_are_written_once_not_for_each_who_waits(
    project, django_assert_num_queries
):
    report_nodes(report("n1", 1), report("n2", 1))
    enqueue(project, "a", "b", *[f"job-{number}" for number in range(50)], gpus=1)
    cycle.run_once()
    before = told("job-9")
    resource_nodes.report_nodes(
        resource_id="res_lab",
        resource_name="lab",
        is_simulated=True,
        nodes=[report("n1", 1), report("n2", 1), report("n3")],
    )

    # those of a cycle that changes nothing, the new node with its devices, and the answer
    with django_assert_num_queries(11):
        cycle.run_once()

    after = told("job-9")
    assert (after.why, after.answer_id) == (before.why, before.answer_id)
    assert (before.answer.proof["others"], after.answer.proof["others"]) == ({}, {"too_small": 1})


def test_a_sentence_that_changes_is_written_once_not_for_each_who_waits(project):
    report_nodes(report("n1", 2))
    first, *_ = enqueue(project, "first", *[f"pair-{number}" for number in range(50)], gpus=2)
    cycle.run_once()
    workloads.release_many([first.pk])
    cycle.run_once()
    before = told("pair-49")
    newest = Change.objects.order_by("pk").last().pk

    workloads.withdraw_many([before.pk])
    resource_nodes.mark_unreachable(resource_id="res_lab")
    cycle.run_once()

    after = told("pair-48")
    assert (before.why_code, after.why_code) == ("no_room", "resource_unreachable")
    assert before.why == "needs 2 GPUs on lab; most free on one node is 0 GPUs (n1)"
    assert after.why == "resource unreachable: lab does not answer, its only node is ready"
    assert (after.reason, after.reason_code, after.answer_id) == ("", "", before.answer_id)
    changes = Change.objects.filter(pk__gt=newest).values_list("kind", "key")
    assert {key for kind, key in changes if key.startswith("work_")} == {before.pk}


def test_who_is_at_a_limit_shares_no_answer_with_other_queues(project, site_admin):
    report_nodes(report("n1", 2))
    other = projects.create_project(actor=site_admin, name="team-b")
    queues.set_quota(actor=site_admin, queue=_queue(project), gpu_limit_milli=0)
    enqueue(project, "limited", gpus=2)
    enqueue(other, "first", "second", gpus=2)

    cycle.run_once()

    assert told("limited").why == (
        "its project is at its limit: it needs 2 GPUs, the limit of team-a is 0 GPUs, and its jobs hold 0 GPUs"
    )
    assert told("second").why == "needs 2 GPUs on lab; most free on one node is 0 GPUs (n1)"


def test_an_answer_goes_with_the_last_who_waits_for_it(project):
    report_nodes(report("n1", 1))
    first, *_ = enqueue(project, "first", "second", gpus=1)
    enqueue(project, "half", gpus=0.5)
    cycle.run_once()
    assert Answer.objects.count() == 2

    workloads.release_many([first.pk])
    cycle.run_once()

    assert told("second").answer is None
    assert list(Answer.objects.values_list("pk", flat=True)) == [told("half").answer_id]


def test_a_workload_that_is_withdrawn_has_no_answer_any_more(project):
    report_nodes(report("n1", 1))
    _, second = enqueue(project, "first", "second", gpus=1)
    cycle.run_once()

    workloads.withdraw_many([second.pk])

    assert told("second").answer_id is None


def test_an_answer_that_somebody_removed_comes_back(project):
    report_nodes(report("n1", 1))
    enqueue(project, "first", "second", gpus=1)
    cycle.run_once()
    Answer.objects.all().delete()
    assert told("second").answer is None

    cycle.run_once()

    assert told("second").answer.advice == "wait for 1 GPU more on n1"


def test_who_would_pass_a_quota_has_an_answer_of_the_own_queue(project, site_admin):
    report_nodes(report("n1", 4))
    queues.set_quota(actor=site_admin, queue=_queue(project), gpu_quota_milli=1000)
    enqueue(project, "first", "second", gpus=1, is_preemptible=False)

    cycle.run_once()

    proof = find_proof(told("second"))
    assert proof is not None
    assert proof.advice == proof.action == "raise the quota of team-a by 1 GPU, or let it be preempted"
    assert proof.bounds == [PassedBound("team-a", "quota", held="1 GPU", asked="1 GPU", amount="1 GPU")]
    assert (proof.nodes, proof.others) == ([], [(1, "with capacity")])


def test_what_somebody_can_do_is_told_apart_from_waiting(project):
    report_nodes(report("n1", 1), report("n2", 1, ready=False))
    enqueue(project, "first", "second", gpus=1)

    cycle.run_once()

    proof = find_proof(told("second"))
    assert proof is not None
    assert (proof.advice, proof.action) == ("wait for 1 GPU more on n1, or bring n2 back", "bring n2 back")


def test_the_proof_in_words(project):
    report_nodes(report("n1", 2, cpu=4), report("n2"), report("n3", 2, ready=False))
    enqueue(project, "first", gpus=1, cpu_millicores=3000)
    cycle.run_once()
    enqueue(project, "second", gpus=2, cpu_millicores=2000, memory_bytes=GIB)

    cycle.run_once()

    proof = find_proof(told("second"))
    assert proof is not None
    lacks = [ShortageText(asked="2 GPUs", there="1 GPU", missing="1 GPU"), ShortageText("2 CPU", "1 CPU", "1 CPU")]
    assert proof.nodes == [NearNode("n1", "in use", lacks)]
    assert proof.others == [(1, "too small even when empty"), (1, "not ready")]


def test_bytes_that_shares_of_a_node_leave_are_not_told_as_memory(project):
    report_nodes(report("n1", 3, memory_gib=100))
    enqueue(project, "first", "second", "third", gpus=1, memory_bytes=100 * GIB // 3)
    cycle.run_once()
    enqueue(project, "fourth", gpus=1, memory_bytes=100 * GIB // 3)

    cycle.run_once()

    proof = find_proof(told("fourth"))
    assert proof is not None
    memory = ShortageText(asked="33.3 GiB of memory", there="0 B of memory", missing="33.3 GiB of memory")
    assert memory in proof.nodes[0].shortages


def test_nobody_who_has_room_has_a_proof(project):
    report_nodes(report("n1", 1))
    enqueue(project, "first", gpus=1)
    cycle.run_once()

    assert find_proof(told("first")) is None
    assert find_proof(None) is None


def test_workloads_show_advice_and_proof_through_the_api(member, project):
    report_nodes(report("n1", 1))
    enqueue(project, "first", "second", gpus=1)
    cycle.run_once()

    (waiting,) = call(member, "GET", "/scheduler/workloads?state=pending").body["items"]
    (placed,) = call(member, "GET", "/scheduler/workloads?state=placed").body["items"]

    assert waiting["advice"] == "wait for 1 GPU more on n1"
    assert waiting["proof"] == told("second").answer.proof
    assert (placed["advice"], placed["proof"]) == ("", None)


def _queue(project) -> Queue:
    return Queue.objects.get(pk=pool_members.ensure_queue(project_id=project.pk))
