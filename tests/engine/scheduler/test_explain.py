"""Why something waits, word for word."""

from tests.factories.scheduler import decide, held, node, queue, wait


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
        "never fits: needs 8.6 GB of memory on lab; most on any node is 4.3 GB of memory (node-1)",
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
            "needs 1 GPU and 4 CPU and 1.1 GB of memory together on one node of lab; "
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
