"""Where the steps of a graph are drawn."""

from hypothesis import given
from hypothesis import strategies as st

from flows.engine.layout import NODE_HEIGHT, NODE_WIDTH, Box, lay_out


@st.composite
def graphs(draw):
    count = draw(st.integers(0, 12))
    return {
        f"s{number}": [f"s{other}" for other in range(number) if draw(st.integers(0, 3)) == 0]
        for number in range(count)
    }


def test_an_empty_graph_is_an_empty_picture():
    assert lay_out({}).boxes == ()


def test_a_chain_stands_in_one_row():
    assert lay_out({"a": [], "b": ["a"], "c": ["b"]}).boxes == (Box("a", 28, 28), Box("b", 292, 28), Box("c", 556, 28))


def test_a_fan_stands_in_one_column_around_the_middle():
    layout = lay_out({"prepare": [], "x": ["prepare"], "y": ["prepare"], "z": ["prepare"], "report": ["x", "y", "z"]})

    assert [layout.box(key).x for key in ("x", "y", "z")] == [292, 292, 292]
    assert [layout.box(key).y for key in ("x", "y", "z")] == [28, 106, 184]
    assert layout.box("prepare").y == layout.box("report").y == 106


def test_crossings_that_the_order_of_steps_would_draw_are_undone():
    layout = lay_out({"a": [], "b": [], "under_b": ["b"], "under_a": ["a"]})

    assert layout.box("under_a").y == layout.box("a").y
    assert layout.box("under_b").y == layout.box("b").y


def test_a_step_stands_right_of_its_last_parent():
    layout = lay_out({"a": [], "b": ["a"], "c": ["a", "b"]})

    assert layout.box("c").x > layout.box("b").x > layout.box("a").x


def test_an_arrow_over_a_column_leads_past_the_step_there():
    layout = lay_out({"prepare": [], "train": ["prepare"], "evaluate": ["prepare", "train"]})

    arrow_y = layout.box("prepare").y + NODE_HEIGHT // 2
    assert layout.box("evaluate").y == layout.box("prepare").y
    assert not layout.box("train").y <= arrow_y <= layout.box("train").y + NODE_HEIGHT


@given(graphs())
def test_every_step_is_inside_right_of_its_parents_and_overlaps_none(parents):
    layout = lay_out(parents)

    assert {box.key for box in layout.boxes} == set(parents)
    for box in layout.boxes:
        assert 0 <= box.x <= layout.width - NODE_WIDTH
        assert 0 <= box.y <= layout.height - NODE_HEIGHT
        assert all(layout.box(parent).x + NODE_WIDTH < box.x for parent in parents[box.key])
        assert not any(
            other is not box and abs(other.x - box.x) < NODE_WIDTH and abs(other.y - box.y) < NODE_HEIGHT
            for other in layout.boxes
        )


@given(graphs())
def test_the_same_graph_is_drawn_the_same(parents):
    assert lay_out(parents) == lay_out(parents)
