"""Who starts, where, and on which device."""

from scheduler.engine.snapshot import Fill, Policy
from tests.factories.scheduler import decide, held, node, queue, wait

LAB = (node("dgx1-1", 8), node("dgx1-2", 8))


def test_a_workload_takes_the_device_with_the_lowest_index():
    outcome = decide(node("n1", 2), queue("a", 2), wait("job", "a", 1))

    assert outcome.nodes == {"job": "n1"}
    assert outcome.gpus == {"job": {0: 1000}}


def test_whole_gpus_go_to_the_node_with_the_fewest_left_that_still_fits():
    outcome = decide(*LAB, queue("a", 16), held("old", "a", "dgx1-2", {0: 1, 1: 1}), wait("job", "a", 2))

    assert outcome.nodes == {"job": "dgx1-2"}
    assert outcome.gpus == {"job": {2: 1000, 3: 1000}}


def test_spreading_prefers_the_emptier_node():
    spread = Policy(gpu_nodes=Fill.SPREAD, cpu_nodes=Fill.SPREAD)

    outcome = decide(*LAB, queue("a", 16), held("old", "a", "dgx1-1", {0: 1}), wait("job", "a", 2), policy=spread)

    assert outcome.nodes == {"job": "dgx1-2"}


def test_whole_gpus_of_one_workload_are_all_on_one_node():
    outcome = decide(node("n1", 2), node("n2", 2), queue("a", 4), held("x", "a", "n1", {0: 1}), wait("big", "a", 3))

    assert outcome.starts == []
    assert outcome.codes == {"big": "never_fits"}


def test_fractions_share_a_device_while_they_fit_together():
    outcome = decide(
        node("n1", 2),
        queue("a", 2),
        wait("a5", "a", 0.5),
        wait("a3", "a", 0.3, minute=1),
        wait("a4", "a", 0.4, minute=2),
    )

    assert outcome.gpus == {"a5": {0: 500}, "a3": {0: 300}, "a4": {1: 400}}


def test_a_fraction_joins_the_fullest_shared_device_on_which_it_fits():
    shared = held("x", "a", "n1", {0: 0.3}), held("y", "a", "n1", {1: 0.6}), held("z", "a", "n1", {2: 0.8})

    outcome = decide(node("n1", 4), queue("a", 4), *shared, wait("job", "a", 0.4))

    assert outcome.gpus == {"job": {1: 400}}


def test_a_fraction_goes_to_a_shared_device_elsewhere_rather_than_open_a_whole_one():
    outcome = decide(node("n1", 2), node("n2", 8), queue("a", 4), held("x", "a", "n2", {3: 0.5}), wait("job", "a", 0.5))

    assert outcome.nodes == {"job": "n2"}
    assert outcome.gpus == {"job": {3: 500}}


def test_a_fraction_never_spans_two_devices():
    outcome = decide(node("n1", 2), queue("a", 2), held("x", "a", "n1", {0: 0.7, 1: 0.7}), wait("job", "a", 0.5))

    assert outcome.starts == []
    assert outcome.texts["job"] == "needs 0.5 GPU on one device of lab; most free on one device is 0.3 GPU (n1)"


def test_whole_gpus_are_never_taken_from_a_shared_device():
    outcome = decide(node("n1", 1), queue("a", 1), held("x", "a", "n1", {0: 0.1}), wait("job", "a", 1))

    assert outcome.starts == []


def test_work_without_gpus_stays_off_gpu_nodes_while_it_can():
    outcome = decide(node("gpu", 8, cpu=2), node("plain", cpu=64), queue("a"), wait("job", "a", cpu=1))

    assert outcome.nodes == {"job": "plain"}


def test_work_without_gpus_takes_a_gpu_node_when_nothing_else_has_room():
    outcome = decide(node("gpu", 8), node("plain", cpu=1), queue("a"), wait("job", "a", cpu=2))

    assert outcome.nodes == {"job": "gpu"}


def test_cpu_work_fills_the_fullest_node_that_still_fits():
    outcome = decide(
        node("n1", cpu=8), node("n2", cpu=8), queue("a"), held("x", "a", "n2", cpu=4), wait("j", "a", cpu=3)
    )

    assert outcome.nodes == {"j": "n2"}


def test_memory_limits_what_fits_too():
    outcome = decide(node("n1", memory_gib=4), node("n2", memory_gib=16), queue("a"), wait("job", "a", memory_gib=8))

    assert outcome.nodes == {"job": "n2"}


def test_nothing_starts_on_a_node_that_is_not_ready():
    outcome = decide(node("n1", 8, ready=False), node("n2", 1), queue("a", 8), wait("job", "a", 2))

    assert outcome.starts == []


def test_a_workload_runs_only_on_its_own_resource():
    outcome = decide(
        node("n1", 1, resource="lab"),
        node("m1", 8, resource="farm"),
        queue("a", 8),
        wait("job", "a", 2, resource="lab"),
    )

    assert outcome.starts == []


def test_higher_priority_goes_first_then_the_older():
    outcome = decide(
        node("n1", 2),
        queue("a", 2),
        wait("late", "a", 1, minute=3),
        wait("early", "a", 1, minute=1),
        wait("urgent", "a", 1, minute=9, priority=75),
    )

    assert outcome.order == ["urgent", "early"]
    assert list(outcome.texts) == ["late"]


def test_a_small_workload_passes_a_large_one_that_does_not_fit():
    outcome = decide(
        node("n1", 2), queue("a", 2), held("x", "a", "n1", {0: 1}), wait("big", "a", 2), wait("small", "a", 1, minute=1)
    )

    assert outcome.order == ["small"]


def test_a_device_that_vanished_under_its_workload_does_no_harm():
    outcome = decide(node("n1", 1), queue("a", 2), held("x", "a", "n1", {7: 1}), wait("job", "a", 1))

    assert outcome.gpus == {"job": {0: 1000}}


def test_a_node_that_shrank_under_its_workloads_takes_no_more():
    outcome = decide(node("n1", cpu=2), queue("a"), held("x", "a", "n1", cpu=4), wait("job", "a", cpu=1))

    assert outcome.starts == []
    assert outcome.texts["job"] == "needs 1 CPU on lab; most free on one node is 0 CPU (n1)"
