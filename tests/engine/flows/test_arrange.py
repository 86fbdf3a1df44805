"""Places for graphs that are still being drawn."""

import pytest

from core.bounds import OutOfBounds
from flows.engine.layout import arrange, lay_out


def test_an_acyclic_graph_stands_where_the_picture_of_the_run_has_it():
    parents = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}

    assert arrange(parents) == {box.key: (box.x, box.y) for box in lay_out(parents).boxes}


def test_names_that_lead_nowhere_are_left_out():
    assert arrange({"a": ["nowhere"]}) == arrange({"a": []})


def test_the_arrow_that_closes_a_circle_moves_nothing():
    assert arrange({"a": ["c"], "b": ["a"], "c": ["b", "c"]}) == arrange({"b": [], "c": ["b"], "a": ["c"]})


def test_a_graph_of_300_nodes_with_every_arrow_is_arranged_at_once():
    names = [f"s{number}" for number in range(300)]

    assert len(arrange({name: names[:place] for place, name in enumerate(names)})) == 300


@pytest.mark.parametrize(
    "parents",
    [{f"s{number}": [] for number in range(20_001)}, {"a": ["b"] * 25_001, "b": ["a"] * 25_000}],
    ids=["nodes", "edges"],
)
def test_a_graph_of_more_nodes_or_edges_than_one_request_may_ask_for_is_refused(parents):
    with pytest.raises(OutOfBounds, match="at most"):
        arrange(parents)


def test_a_long_chain_needs_no_recursion():
    chain = {f"s{number}": [f"s{number + 1}"] for number in range(4999)} | {"s4999": []}

    assert len(arrange(chain)) == 5000
