"""Why something waits, word for word."""

from dataclasses import replace

from scheduler.engine.decisions import Explain
from scheduler.engine.proof import Bound, BoundKind, Cause, NodeShortfall, Proof, Remedy, Resource, Shortage, Suggestion
from scheduler.engine.snapshot import (
    NEARLINE,
    GroupView,
    JobView,
    NodeView,
    PodSetView,
    PodState,
    PodView,
    Quota,
    Request,
    TopologyConstraint,
)
from tests.engine.scheduler.test_failures import launcher_with_workers
from tests.factories.scheduler import START, decide, held, needs, node, queue, wait


def texts(*parts) -> tuple[str, str]:
    outcome = decide(*parts, queue("a", 8))
    (name,) = outcome.texts
    return outcome.codes[name], outcome.texts[name]


def test_too_few_gpus_are_free_on_one_node():
    busy = [held(f"x{i}", "a", f"node-{i}", {0: 1} if i == 2 else {0: 1, 1: 1}) for i in (1, 2)]

    assert texts(node("node-1", 2), node("node-2", 2), *busy, wait("job", "a", 2)) == (
        "no_room",
        "needs 2 GPUs on lab; most free on one node is 1 GPU (node-2)",
    )


def test_no_node_has_so_many_gpus():
    assert texts(node("node-1", 2), node("node-2", 8), wait("job", "a", 16)) == (
        "never_fits",
        "never fits: needs 16 GPUs on lab; most on any node is 8 GPUs (node-2)",
    )


def test_no_node_has_any_gpu():
    assert texts(node("node-1"), wait("job", "a", 0.5)) == (
        "never_fits",
        "never fits: needs 0.5 GPU on one device of lab; most on any node is 0 GPUs (node-1)",
    )


def test_no_node_has_so_much_memory():
    assert texts(node("node-1", memory_gib=4), wait("job", "a", memory_gib=8)) == (
        "never_fits",
        "never fits: needs 8 GiB of memory on lab; most on any node is 4 GiB of memory (node-1)",
    )


def test_a_node_would_be_large_enough_but_is_not_ready():
    parts = node("node-1", 8, ready=False), node("node-2", 1), wait("job", "a", 4)

    assert texts(*parts) == (
        "no_room",
        "needs 4 GPUs on lab; most free on one node is 1 GPU (node-2); not ready: node-1",
    )


def test_the_gpus_are_free_here_and_the_cpu_there():
    busy = held("x", "a", "node-1", cpu=62), held("y", "a", "node-2", {0: 1})

    assert texts(node("node-1", 1), node("node-2", 1), *busy, wait("job", "a", 1, cpu=4)) == (
        "no_room",
        (
            "needs 1 GPU and 4 CPU and 1 GiB of memory together on one node of lab; "
            "the closest, node-1, has only 2 CPU free"
        ),
    )


def test_a_resource_that_never_reported_is_unreachable():
    assert texts(wait("job", "a")) == ("resource_unreachable", "resource unreachable: it has not reported any node yet")


def test_a_resource_whose_nodes_are_all_away_is_unreachable():
    assert texts(node("node-1", ready=False), node("node-2", ready=False), wait("job", "a")) == (
        "resource_unreachable",
        "resource unreachable: lab does not answer, none of its 2 nodes is ready",
    )


def test_what_never_fits_says_so_even_while_the_resource_is_away():
    code, _ = texts(node("node-1", ready=False), wait("job", "a", 1))

    assert code == "never_fits"


def test_workloads_of_one_shape_share_one_reason():
    outcome = decide(node("n1", 1), queue("a", 1), *[wait(f"j{i}", "a", 1, minute=i) for i in range(4)])

    assert outcome.order == ["j0"]
    assert set(outcome.texts.values()) == {"needs 1 GPU on lab; most free on one node is 0 GPUs (n1)"}


# --- gangs


def gang(name: str, gpus: float, count: int, *, resource: str = "lab", level: str | None = None, **more) -> JobView:
    pods = tuple(PodView(f"{name}-{i}", PodState.PENDING, needs(gpus, resource=resource)) for i in range(count))
    topology_constraint = TopologyConstraint((level,), level) if level else None
    return JobView(name, "a", pods, GroupView((PodSetView("", count, topology_constraint),)), **more)


def busy(name: str, of: int, held_gpus: int, **more) -> tuple[NodeView, JobView]:
    """Return a node and the job that holds some of its devices."""
    return replace(node(name, of), **more), held(f"on-{name}", "a", name, dict.fromkeys(range(held_gpus), 1))


def explain(*parts, actions=("allocate",), policy=NEARLINE) -> Explain:
    """Return why the only job waits that does."""
    (found,) = [d for d in decide(*parts, actions=actions, policy=policy).decisions if isinstance(d, Explain)]
    return found


def test_a_gang_is_told_for_how_many_of_its_pods_there_is_room():
    found = explain(*busy("n1", 8, 2), *busy("n2", 8, 5), queue("a", 16), gang("big", 3, 4))

    assert (found.code, found.text) == (
        "no_room",
        "needs 4 pods of 3 GPUs and 1 CPU and 1 GiB of memory at once on lab; there is capacity for 3",
    )
    assert found.advice == "wait for capacity for 1 pod more on lab"
    assert found.proof == Proof(
        needed=4,
        placeable=3,
        others=((Cause.HAS_CAPACITY, 2),),
        suggestions=(Suggestion(Remedy.WAIT_FOR_CAPACITY, "lab", Resource.PODS, 1),),
    )


def test_a_gang_for_which_the_cluster_is_too_small_never_fits():
    found = explain(node("n1", 8), node("n2", 8), queue("a", 32), gang("big", 3, 5))

    assert (found.code, found.text) == (
        "never_fits",
        "never fits: needs 5 pods of 3 GPUs and 1 CPU and 1 GiB of memory at once; lab has capacity for 4 when it is empty",
    )
    assert found.advice == "ask for at most capacity for 4 pods"


def test_a_gang_for_which_the_cluster_is_too_small_is_told_so_also_while_it_is_full():
    found = explain(*busy("n1", 8, 8), *busy("n2", 8, 8), queue("a", 32), gang("big", 8, 3))

    assert (found.code, found.advice) == ("never_fits", "ask for at most capacity for 2 pods")
    assert [(node.node, node.cause) for node in found.proof.nearest] == [("n1", Cause.BUSY), ("n2", Cause.BUSY)]


def test_a_gang_that_fits_but_not_in_one_rack_is_told_so():
    nodes = [replace(node(f"n{i}", 2), labels={"rack": f"r{i // 2}"}) for i in range(4)]

    found = explain(
        *nodes,
        held("x", "a", "n0", {0: 1}),
        held("y", "a", "n3", {0: 1}),
        queue("a", 8),
        gang("big", 2, 2, level="rack"),
    )

    assert (found.code, found.text, found.proof.placeable) == (
        "not_together",
        "needs 2 pods of 2 GPUs and 1 CPU and 1 GiB of memory in one rack; the one with most capacity takes 1",
        1,
    )


def test_a_gang_that_lost_too_many_pods_can_never_start():
    whole = gang("big", 1, 2)
    half = replace(whole, pods=(whole.pods[0], replace(whole.pods[1], state=PodState.FAILED)))

    assert explain(node("n1", 2), queue("a", 2), half).code == "incomplete"


def test_unlike_pods_for_which_all_nodes_together_are_too_small_never_fit():
    nodes = [node("n1", 1, cpu=1), node("n2", 1, cpu=1)]

    free = explain(*nodes, queue("a", 32), launcher_with_workers("mpi", "a", 2))
    full = explain(*nodes, queue("a", 32), held("busy", "a", "n1", {0: 1}), launcher_with_workers("mpi", "a", 2))

    told = "never fits: needs 3 CPU for 3 pods at once; lab has 2 CPU"
    assert {(each.code, each.text, each.advice) for each in (free, full)} == {
        ("never_fits", told, "ask for at most 2 CPU")
    }
    assert free.proof.needed == 3


def test_pods_of_which_one_kind_has_to_be_in_one_rack_are_told_so():
    nodes = [replace(node(f"n{i}", 1, cpu=8), labels={"rack": f"r{i}"}) for i in range(2)]
    job = launcher_with_workers("mpi", "a", 2)
    rack = TopologyConstraint(("rack",), "rack", None)
    launcher, workers = job.structure.children

    found = explain(
        *nodes,
        queue("a", 32),
        replace(job, structure=GroupView((launcher, replace(workers, topology_constraint=rack)))),
    )

    assert (found.code, found.text) == (
        "not_together",
        "needs 2 pods of 1 GPU and 1 CPU and 1 GiB of memory in one rack; the one with most capacity takes 1",
    )


def test_unlike_pods_that_fit_one_by_one_but_not_together():
    pods = (
        PodView("w", PodState.PENDING, needs(2, resource="lab")),
        PodView("l", PodState.PENDING, needs(2, 2, resource="lab")),
    )
    job = JobView("job", "a", pods, GroupView((PodSetView("", 2),)))

    found = explain(node("n1", 3), node("n2", 1), queue("a", 4), job)

    assert found.text == "needs capacity for 2 unlike pods at once; each kind of them alone would find enough"


# --- proofs


def test_the_nearest_nodes_come_with_what_they_lack_and_the_others_are_counted():
    nodes = [part for i, taken in enumerate((8, 5, 7, 6, 8)) for part in busy(f"n{i}", 8, taken)]
    more = node("tiny", 1), node("away", 8, ready=False), replace(node("shut", 8), is_drained=True)

    found = explain(*nodes, *more, queue("a", 64), wait("job", "a", 4))

    assert found.proof == Proof(
        needed=1,
        placeable=0,
        nearest=tuple(
            NodeShortfall(name, name, Cause.BUSY, (Shortage(Resource.GPU, 4000, free),))
            for name, free in (("n1", 3000), ("n3", 2000), ("n2", 1000))
        ),
        others=((Cause.TOO_SMALL, 1), (Cause.NOT_READY, 1), (Cause.DRAINED, 1), (Cause.BUSY, 2)),
        suggestions=(
            Suggestion(Remedy.WAIT_FOR_NODE, "n1", Resource.GPU, 1000),
            Suggestion(Remedy.OPEN_NODE, "shut"),
            Suggestion(Remedy.REPAIR_NODE, "away"),
        ),
    )
    assert found.advice == "wait for 1 GPU more on n1, or open shut, or bring away back"


def test_a_node_may_lack_several_things():
    found = explain(
        node("n1", 2, cpu=4), held("x", "a", "n1", {0: 1}, cpu=3), queue("a", 2), wait("job", "a", 2, cpu=3)
    )

    assert found.proof.nearest[0].shortages == (Shortage(Resource.GPU, 2000, 1000), Shortage(Resource.CPU, 3000, 1000))
    assert [shortage.missing for shortage in found.proof.nearest[0].shortages] == [1000, 2000]
    assert found.advice == "wait for 1 GPU and 2 CPU more on n1"


def test_every_quota_that_is_passed_has_to_be_raised():
    department, team = queue("department", 1), replace(queue("team", 1), parent_id="department")
    found = explain(node("n1", 4), department, team, wait("job", "team", 2, firm=True))

    assert found.advice == (
        "raise the quota of team by 1 GPU and raise the quota of department by 1 GPU, or let it be preempted"
    )


def test_what_never_fits_is_told_the_most_it_may_ask_for():
    found = explain(node("n1", 2), node("n2", 4), queue("a", 8), wait("job", "a", 8))

    assert found.advice == "ask for at most 4 GPUs"
    assert found.proof.nearest[0] == NodeShortfall("n2", "n2", Cause.TOO_SMALL, (Shortage(Resource.GPU, 8000, 4000),))


def test_room_in_another_pool_is_pointed_out():
    found = explain(*busy("n1", 1, 1), node("n2", 1, resource="farm"), queue("a", 2), wait("job", "a", 1))

    assert found.proof.suggestions[-1] == Suggestion(Remedy.DROP_POOL, "lab")
    assert found.advice == "wait for 1 GPU more on n1, or let it run elsewhere than on lab"


def test_the_quota_that_firm_work_would_pass_is_proved_with_the_nodes():
    team = replace(queue("team", 1), id="team")
    child = replace(queue("a", 2), parent_id="team")
    parts = *busy("n1", 2, 2), team, child

    found = explain(*parts, held("mine", "a", "n1", {}, firm=True), wait("job", "a", 2, firm=True))

    assert found.code == "beyond_quota"
    assert found.proof.bounds == (Bound("team", "team", BoundKind.QUOTA, Resource.GPU, 1000, 0, 2000),)
    assert found.proof.bounds[0].missing == 1000
    assert found.proof.nearest[0].node == "n1"
    assert found.advice == "raise the quota of team by 1 GPU, or let it be preempted"


def test_the_limit_of_the_queue_is_proved():
    limited = replace(queue("a", 2), limit=Quota(1000, None, None))

    found = explain(node("n1", 4), limited, held("x", "a", "n1", {0: 1}), wait("job", "a", 2))

    assert found.proof.bounds == (Bound("a", "a", BoundKind.LIMIT, Resource.GPU, 1000, 1000, 2000),)
    assert found.proof.suggestions == (
        Suggestion(Remedy.RAISE_LIMIT, "a", Resource.GPU, 2000),
        Suggestion(Remedy.WAIT_FOR_QUEUE, "a"),
    )
    assert found.advice == "raise the limit of a by 2 GPUs, or wait until other work of a ends"


def test_where_quotas_do_not_count_none_is_blamed():
    limited = replace(queue("a"), limit=Quota(0, None, None))

    found = explain(*busy("n1", 1, 1), limited, wait("job", "a", 1), policy=replace(NEARLINE, quotas=False))

    assert (found.code, found.proof.bounds) == ("no_room", ())


def test_a_share_counted_in_memory_is_explained_in_memory():
    pod = PodView("job", PodState.PENDING, Request(share_mib=20_000, pool="lab"))
    user = PodView("x", PodState.RUNNING, Request(share_mib=15_000), node_id="n1", devices=("0",))
    jobs = [JobView(view.id, "a", (view,), GroupView((PodSetView("", 1),))) for view in (pod, user)]

    assert explain(node("n1", 1), queue("a", 1), *jobs).text == (
        "needs 19.5 GiB of GPU memory on one device of lab; most free on one device is 16.6 GiB of GPU memory (n1)"
    )


def test_a_share_of_several_devices_sees_the_last_of_them():
    pod = PodView("job", PodState.PENDING, Request(share_milli=500, devices=2, pool="lab"))
    job = JobView("job", "a", (pod,), GroupView((PodSetView("", 1),)))

    assert explain(node("n1", 2), held("x", "a", "n1", {0: 0.75}), queue("a", 2), job).text == (
        "needs 0.5 GPU on each of 2 devices of lab; most free on one device is 0.25 GPU (n1)"
    )


def test_work_that_may_run_on_certain_nodes_only_is_compared_with_those():
    job = wait("job", "a", 2)
    there = replace(job, pods=(replace(job.pods[0], allowed_nodes=frozenset({"n2"})),))
    nowhere = replace(job, pods=(replace(job.pods[0], allowed_nodes=frozenset()),))
    parts = node("n1", 2), *busy("n2", 2, 1), queue("a", 4)

    assert explain(*parts, there).proof.others == ((Cause.NOT_ALLOWED, 1),)
    assert explain(*parts, nowhere).text == "may run on none of the 2 nodes of lab"


def test_room_that_is_kept_for_a_big_job_is_said_to_be():
    big = gang("big", 2, 1, waited_s=1e3, rank=(START,))
    found = decide(*busy("n1", 2, 1), queue("a", 4), big, wait("small", "a", 1))
    (small,) = [d for d in found.decisions if isinstance(d, Explain) and d.job_id == "small"]

    assert (small.code, small.text) == (
        "kept_for_another",
        "the capacity on n1 is reserved for a big job whose turn comes first",
    )
    assert small.advice == "wait until the job that the capacity is reserved for has started"
    assert (
        found.texts["big"]
        == "needs 2 GPUs on lab; most free on one node is 1 GPU (n1); what gets free on n1 is reserved for it"
    )


def test_room_that_only_just_became_free_counts_in_the_next_cycle():
    assert explain(node("n1", 1), queue("a", 1), wait("job", "a", 1), actions=()).code == "next_cycle"


def test_a_thousand_jobs_of_one_kind_share_one_answer():
    outcome = decide(*busy("n1", 1, 1), queue("a", 1), *[wait(f"j{i}", "a", 1, minute=i) for i in range(1000)])

    proofs = [decision.proof for decision in outcome.decisions if isinstance(decision, Explain)]
    assert len(proofs) == 1000
    assert len({id(proof) for proof in proofs}) == 1
