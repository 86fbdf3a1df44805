"""On which nodes a project's training and its interactive work may run."""

from dataclasses import replace

import pytest

from core.taints import Taint, Toleration
from scheduler.engine.decisions import Explain, Reserve, Start, Stop, Withdraw
from scheduler.engine.proof import Cause, Remedy, Suggestion
from scheduler.engine.snapshot import (
    GroupView,
    NodeView,
    PodSetView,
    PodState,
    QueueView,
    TopologyConstraint,
    WorkRules,
)
from tests.engine.scheduler.world import gang
from tests.factories.scheduler import decide, held, node, queue, wait

TYPE = "run.ai/type"
OLD, NEW = frozenset({(TYPE, "v100")}), frozenset({(TYPE, "a100")})


def typed(name: str, gpus: int, kind: str, **labels: str) -> NodeView:
    return replace(node(name, gpus), labels={TYPE: kind, **labels})


def project(name: str, gpus: float = 8, *, training=None, interactive=None, **more) -> QueueView:
    """Return a project with the labels of the nodes for its two kinds of work."""
    row = replace(queue(name, gpus), **more)
    return replace(row, training=WorkRules(training), interactive=WorkRules(interactive))


def node_of(*parts, firm: bool = False) -> str | None:
    """Return where a job of one GPU starts."""
    return decide(*parts, wait("job", "a", 1, firm=firm)).nodes.get("job")


# The fullest node that serves is taken: without a rule that is the small, old one.
NODES = typed("n1", 1, "v100"), typed("n2", 4, "a100"), node("n3", 8)


@pytest.mark.parametrize(
    ("rules", "training", "interactive"),
    [
        ({}, "n1", "n1"),
        ({"training": NEW}, "n2", "n1"),
        ({"interactive": NEW}, "n1", "n2"),
        ({"training": NEW, "interactive": OLD}, "n2", "n1"),
        ({"training": NEW | {("rack", "r1")}}, "n2", "n1"),
        ({"training": frozenset({("rack", "r1")})}, None, "n1"),
        ({"training": frozenset()}, None, "n1"),
    ],
)
def test_each_kind_of_work_runs_on_nodes_with_one_of_the_labels_for_it(rules, training, interactive):
    parts = *NODES, project("a", **rules)

    assert (node_of(*parts), node_of(*parts, firm=True)) == (training, interactive)


@pytest.mark.parametrize(("own", "where"), [(None, "n2"), (OLD, "n1")])
def test_a_project_without_a_rule_has_that_of_its_department(own, where):
    department = project("d", training=NEW, interactive=OLD)

    assert node_of(*NODES, department, project("a", training=own, parent_id="d")) == where


def test_a_rule_of_interactive_work_leaves_that_of_training_to_the_department():
    department = project("d", training=NEW)

    assert node_of(*NODES, department, project("a", interactive=OLD, parent_id="d")) == "n2"


@pytest.mark.parametrize(("named", "where"), [({"n1", "n3"}, None), ({"n1", "n2"}, "n2")])
def test_of_the_nodes_that_a_job_names_only_those_serve_that_the_rule_allows(named, where):
    job = wait("job", "a", 1)
    job = replace(job, pods=(replace(job.pods[0], allowed_nodes=frozenset(named)),))

    assert decide(*NODES, project("a", training=NEW), job).nodes.get("job") == where


def test_projects_with_other_rules_that_ask_for_the_same_go_elsewhere():
    outcome = decide(
        *NODES, project("a", training=NEW), project("b", training=OLD), project("c", 8),
        *[wait(f"{name}{number}", name, 1) for name in "abc" for number in range(2)],
    )  # fmt: skip

    assert outcome.nodes == {"a0": "n2", "a1": "n2", "b0": "n1", "c0": "n2", "c1": "n2"}


def test_a_gang_stays_in_one_rack_of_the_nodes_that_the_rule_allows():
    racks = [typed("n1", 8, "v100", rack="r1"), typed("n2", 2, "a100", rack="r1"), typed("n3", 4, "a100", rack="r2")]
    big = replace(
        gang("g", "a", 1, 4, 4), structure=GroupView((PodSetView("", 4, TopologyConstraint(("rack",), "rack")),))
    )

    assert decide(*racks, project("a", training=NEW), big).nodes == dict.fromkeys(["g-0", "g-1", "g-2", "g-3"], "n3")


# --- taking from others


def test_only_victims_on_nodes_that_the_rule_allows_are_taken():
    guests = held("old", "b", "n1", {0: 1}, minute=9), held("new", "b", "n2", {0: 1})
    parts = typed("n1", 1, "v100"), typed("n2", 1, "a100"), project("a", 1, training=NEW), project("b", 0)

    outcome = decide(*parts, *guests, wait("job", "a", 1), actions=("allocate", "reclaim"))

    assert [d for d in outcome.decisions if isinstance(d, Stop | Reserve)] == [
        Stop("new", "new", None, "reclaimed", "Another queue claims its share; b holds more than it may keep.", "job"),
        Reserve("job", "job", "n2"),
    ]


def test_who_is_moved_stays_on_nodes_that_the_rule_of_his_project_allows():
    nodes = [typed("n1", 2, "a100"), typed("n2", 2, "a100"), typed("n3", 1, "v100")]
    parts = *nodes, project("a", 3, training=NEW), project("b", 3, training=NEW)
    running = held("x", "b", "n1", {0: 1}), held("y", "b", "n2", {0: 1}, minute=1)

    outcome = decide(*parts, *running, wait("wide", "a", 2), actions=("allocate", "consolidate"))

    moves = [d for d in outcome.decisions if not isinstance(d, Explain)]
    assert [(d.pod_id, d.moves_to) for d in moves if isinstance(d, Stop)] == [("y", "n1")]
    assert [(d.pod_id, d.node_id) for d in moves if isinstance(d, Reserve)] == [("y", "n1"), ("wide", "n2")]


# --- when a rule changes


def test_what_runs_where_it_may_no_more_goes_on():
    outcome = decide(*NODES, project("a", training=NEW), held("x", "a", "n1", {0: 1}))

    assert outcome.decisions == []


def test_a_promise_where_it_may_no_more_run_is_exchanged():
    job = wait("job", "a", 1)
    job = replace(job, pods=(replace(job.pods[0], state=PodState.RESERVED, node_id="n1"),))

    outcome = decide(*NODES, project("a", training=NEW), job, actions=("honor_reservations", "allocate"))

    assert outcome.decisions == [Start("job", "job", "n2", ("0",))]


def test_a_promise_is_withdrawn_where_the_rule_leaves_no_other_place():
    job = wait("job", "a", 1)
    job = replace(job, pods=(replace(job.pods[0], state=PodState.RESERVED, node_id="n1"),))

    outcome = decide(
        typed("n1", 1, "v100"), project("a", training=NEW), job, actions=("honor_reservations", "allocate")
    )

    assert outcome.decisions[0] == Withdraw("job", "job")


# --- why it waits


def explain(*parts) -> Explain:
    (found,) = [decision for decision in decide(*parts).decisions if isinstance(decision, Explain)]
    return found


def test_a_rule_that_leaves_no_node_is_named():
    found = explain(
        typed("n1", 1, "v100"), node("n2", 1), project("a", interactive=NEW), wait("job", "a", 1, firm=True)
    )

    assert (found.code, found.text) == (
        "not_allowed",
        ("may run on none of the 2 nodes of lab; interactive work of a may run only on nodes with run.ai/type=a100"),
    )
    assert found.advice == "let interactive work of a run on more nodes"
    assert found.proof.others == ((Cause.NOT_ALLOWED, 2),)


def test_a_rule_that_keeps_work_from_free_nodes_is_named_beside_what_is_missing():
    parts = *NODES[:2], held("x", "a", "n2", dict.fromkeys(range(4), 1)), project("a", training=NEW | {("a", "b")})

    found = explain(*parts, wait("job", "a", 1))

    assert (found.code, found.text) == (
        "no_room",
        (
            "needs 1 GPU on lab; most free on one node is 0 GPUs (n2); "
            "training of a may run only on nodes with a=b or run.ai/type=a100"
        ),
    )
    assert found.proof.suggestions[-1] == Suggestion(Remedy.ALLOW_NODES, "training of a")
    assert found.advice == "wait for 1 GPU more on n2, or let training of a run on more nodes"


def test_more_nodes_are_not_advised_where_they_have_no_room_either():
    parts = typed("n1", 1, "v100"), typed("n2", 1, "a100"), project("a", training=NEW)
    found = explain(*parts, held("x", "a", "n1", {0: 1}), held("y", "a", "n2", {0: 1}), wait("job", "a", 1))

    assert found.advice == "wait for 1 GPU more on n2"


def test_a_rule_that_keeps_work_from_no_node_is_not_mentioned():
    parts = typed("n2", 1, "a100"), project("a", training=NEW)

    assert explain(*parts, held("x", "a", "n2", {0: 1}), wait("job", "a", 1)).text == (
        "needs 1 GPU on lab; most free on one node is 0 GPUs (n2)"
    )


def test_nodes_that_are_away_are_counted_without_those_that_the_rule_forbids():
    away = replace(typed("n2", 1, "a100"), is_ready=False)

    assert explain(typed("n1", 1, "v100"), away, project("a", training=NEW), wait("job", "a", 1)).text == (
        "resource unreachable: the only node of lab for it is not ready; "
        "training of a may run only on nodes with run.ai/type=a100"
    )


ONLY = Taint("gpu", "only", "NoSchedule")


@pytest.mark.parametrize(
    ("selector", "tolerations", "where"),
    [
        ({}, (), "n2"),
        ({}, (Toleration("gpu", "only", ""),), "n1"),
        ({TYPE: "a100"}, (), "n2"),
        ({TYPE: "a100", "rack": "r1"}, (), None),
        ({TYPE: "v100"}, (), None),
        ({TYPE: "v100"}, (Toleration("gpu", None, "NoSchedule"),), "n1"),
    ],
)
def test_a_job_runs_on_nodes_with_all_labels_of_its_selector_whose_taints_it_tolerates(selector, tolerations, where):
    job = wait("job", "a", 1)
    (pod,) = job.pods
    asked = replace(pod.request, selector=frozenset(selector.items()), tolerations=tolerations)
    tainted = replace(typed("n1", 1, "v100"), taints=(ONLY,))

    decided = decide(tainted, typed("n2", 4, "a100"), project("a"), replace(job, pods=(replace(pod, request=asked),)))

    assert decided.nodes.get("job") == where


def test_what_keeps_a_job_off_all_nodes_is_told():
    job = wait("job", "a", 1)
    (pod,) = job.pods
    asked = replace(pod.request, selector=frozenset({("rack", "r1")}))
    tainted = replace(typed("n1", 1, "v100"), taints=(ONLY,))

    decided = decide(tainted, project("a"), replace(job, pods=(replace(pod, request=asked),)))

    (answer,) = (each for each in decided.decisions if isinstance(each, Explain))
    assert answer.text == (
        "may not run on the only node of lab; its template asks for nodes with rack=r1; "
        "it does not tolerate gpu=only:NoSchedule"
    )
