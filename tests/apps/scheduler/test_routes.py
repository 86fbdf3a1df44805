"""Queues, nodes and workloads through the API."""

from dataclasses import replace

import pytest

from scheduler.services import pool_members
from scheduler.workers import cycle
from tests.factories.api import call
from tests.factories.scheduler import enqueue, report, report_nodes

pytestmark = pytest.mark.django_db


def test_the_queues_of_own_projects_show_what_is_guaranteed_and_held(member, project):
    report_nodes(report("n1", 1))
    enqueue(project, "first", "second", gpus=1)
    cycle.run_once()

    status, body = call(member, "GET", "/scheduler/queues")

    assert (status, body["next_cursor"]) == (200, None)
    assert body["items"] == [
        {
            "pool": "default",
            "project": "team-a",
            "gpu_quota_milli": 0,
            "cpu_quota_millicores": None,
            "memory_quota_bytes": None,
            "over_quota_weight": None,
            "gpu_limit_milli": None,
            "cpu_limit_millicores": None,
            "memory_limit_bytes": None,
            "department": None,
            "training_node_labels": [],
            "interactive_node_labels": [],
            "training_run_at_most_s": None,
            "interactive_run_at_most_s": None,
            "training_idle_at_most_s": None,
            "interactive_idle_at_most_s": None,
            "claim_delay_s": None,
            "reclaim_min_runtime_s": None,
            "surplus_min_runtime_s": None,
            "evictions_at_most": None,
            "surplus_evictions_at_most": None,
            "preempt_min_runtime_s": None,
            "pool_rank": None,
            "gpu_held_milli": 1000,
            "used_gpu_s": 0.0,
            "cpu_held_millicores": 1000,
            "memory_held_bytes": 2**30,
            "placed_workloads": 1,
            "waiting_workloads": 1,
        }
    ]


def test_a_patch_changes_only_what_it_names(site_admin, project):
    pool_members.ensure_queue(project_id=project.pk)
    call(site_admin, "PATCH", "/scheduler/queues/team-a", {"gpu_quota_milli": 4000, "cpu_quota_millicores": 8000})

    status, body = call(site_admin, "PATCH", "/scheduler/queues/team-a", {"cpu_quota_millicores": None})

    assert (status, body["gpu_quota_milli"], body["cpu_quota_millicores"]) == (200, 4000, None)


@pytest.mark.parametrize(
    "body",
    [{"gpu_quota_milli": -1}, {"gpu_quota_milli": None}, {"over_quota_weight": "much"}, {"limit": 4}, {"gpu_quota": 1}],
)
def test_a_quota_that_makes_no_sense_is_refused(site_admin, project, body):
    pool_members.ensure_queue(project_id=project.pk)

    assert call(site_admin, "PATCH", "/scheduler/queues/team-a", body).status == 400

    assert call(site_admin, "GET", "/scheduler/queues").body["items"][0]["gpu_quota_milli"] == 0


def test_a_place_among_pools_that_makes_no_sense_is_told_in_words(site_admin, project):
    pool_members.ensure_queue(project_id=project.pk)

    status, body = call(site_admin, "PATCH", "/scheduler/queues/team-a", {"pool_rank": 0})

    assert (status, body["title"]) == (400, "The place of a pool in an order is a whole number from 1 to 100.")


def test_nodes_show_their_devices_and_what_is_held_of_each(member, project):
    report_nodes(report("n1", 2, cpu=8))
    enqueue(project, "half", gpus=0.5)
    cycle.run_once()

    (node,) = call(member, "GET", "/scheduler/nodes?resource=lab").body["items"]

    assert (node["name"], node["resource"], node["is_ready"], node["is_simulated"]) == ("n1", "lab", True, True)
    assert (node["cpu_millicores"], node["cpu_held_millicores"], node["memory_held_bytes"]) == (8000, 1000, 2**30)
    assert [(gpu["index"], gpu["model"], gpu["held_milli"]) for gpu in node["gpus"]] == [
        (0, "V100", 500),
        (1, "V100", 0),
    ]
    assert call(member, "GET", "/scheduler/nodes?resource=farm").body["items"] == []


def test_nodes_are_listed_in_a_fixed_number_of_queries(member, project, django_assert_max_num_queries):
    report_nodes(*[report(f"n{i}", 2) for i in range(20)])
    enqueue(project, *[f"job-{i}" for i in range(30)], gpus=1)
    cycle.run_once()

    with django_assert_max_num_queries(16):
        assert len(call(member, "GET", "/scheduler/nodes").body["items"]) == 20


def test_workloads_say_where_they_run_or_why_they_wait(member, project):
    report_nodes(report("n1", 1))
    enqueue(project, "first", "second", gpus=1)
    cycle.run_once()

    (placed,) = call(member, "GET", "/scheduler/workloads?state=placed").body["items"]
    (waiting,) = call(member, "GET", "/scheduler/workloads?state=pending&project=team-a").body["items"]

    assert (placed["name"], placed["project"], placed["node"], placed["gpus"]) == ("first", "team-a", "n1", [[0, 1000]])
    assert (waiting["name"], waiting["node"], waiting["gpus"]) == ("second", None, [])
    assert waiting["reason"] == "needs 1 GPU on lab; most free on one node is 0 GPUs (n1)"


def test_a_state_that_does_not_exist_is_refused(member):
    assert call(member, "GET", "/scheduler/workloads?state=lost").status == 400


def test_a_stranger_sees_no_workload(make_actor, project):
    enqueue(project, "job")

    stranger = make_actor(None)

    assert call(stranger, "GET", "/scheduler/workloads").body["items"] == []
    assert call(stranger, "GET", "/scheduler/workloads?project=team-a").status == 404


def test_an_admin_makes_a_pool_moves_a_resource_and_its_work_and_sets_a_quota_there(site_admin, project):
    report_nodes(report("n1", 2))
    enqueue(project, "job", gpus=1)
    cycle.run_once()
    call(site_admin, "POST", "/scheduler/pools", {"name": "mine"})

    status, refusal = call(site_admin, "PATCH", "/scheduler/pools/mine", {"resources": ["lab"]})
    assert (status, refusal["code"]) == (400, "scheduler.pool_has_work")
    assert "1 job runs on, with 1 GPU" in refusal["title"]

    status, pool = call(site_admin, "PATCH", "/scheduler/pools/mine", {"resources": ["lab"], "moves_work": True})
    assert pool.pop("sharing")["preset"] == "prompt"
    assert (status, pool) == (
        200,
        {"name": "mine", "resources": ["lab"], "labels": [], "nodes": 1, "gpu_milli": 2000, "has_simulated": True},
    )
    call(site_admin, "PATCH", "/scheduler/queues/team-a?pool=mine", {"gpu_quota_milli": 2000})

    (queue,) = call(site_admin, "GET", "/scheduler/queues?pool=mine").body["items"]
    assert (queue["pool"], queue["gpu_quota_milli"], queue["gpu_held_milli"]) == ("mine", 2000, 1000)
    assert call(site_admin, "GET", "/scheduler/queues").body["items"][0]["gpu_quota_milli"] == 0


def test_a_label_of_a_resource_is_put_into_a_pool_and_taken_out(site_admin):
    report_nodes(report("n1", 2), replace(report("h1", 4), labels={"gpu": "h100"}))
    body = {"name": "h100", "resources": ["lab"], "label": "gpu=h100"}

    made = call(site_admin, "POST", "/scheduler/pools", body)
    assert (made.status, made.body["gpu_milli"]) == (201, 4000)
    assert made.body["labels"] == [{"resource": "lab", "label": "gpu=h100", "nodes": 1}]

    wrong = call(site_admin, "PATCH", "/scheduler/pools/h100", {"resources": ["lab"], "label": "h100"})
    assert (wrong.status, wrong.body["code"]) == (400, "scheduler.invalid_pool")

    removal = {"resources": ["lab"], "label": "gpu=h100"}
    gone = call(site_admin, "POST", "/scheduler/pools/h100/label-removals", removal)
    assert (gone.status, gone.body["labels"], gone.body["nodes"]) == (200, [], 0)
    assert call(site_admin, "POST", "/scheduler/pools/h100/label-removals", removal).status == 400


def test_a_pool_or_a_resource_that_does_not_exist_is_refused(site_admin, project):
    pool_members.ensure_queue(project_id=project.pk)
    assert call(site_admin, "PATCH", "/scheduler/queues/team-a?pool=mine", {"gpu_quota_milli": 1}).status == 404
    assert call(site_admin, "GET", "/scheduler/queues?pool=mine").status == 404
    assert call(site_admin, "POST", "/scheduler/pools", {"name": "mine", "resources": ["farm"]}).status == 400

    assert [pool["name"] for pool in call(site_admin, "GET", "/scheduler/pools").body["items"]] == ["default"]
