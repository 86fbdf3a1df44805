"""A flow written in Python is the flow that the YAML says."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nearline import Flow, InvalidRequest


def digits() -> Flow:
    return (
        Flow("digits", title="Digits", description="Two steps: first, second")
        .parameter("lr", 0.1, help="Learning rate")
        .parameter("mode", type="str", choices=["fast", "yes"])
        .step("prepare", command="python prepare.py\n", datasets=["demo/digits@main"])
        .step(
            "train",
            command='python train.py "$X" # not a comment',
            after=["prepare"],
            datasets=[{"dataset": "demo/more", "name": "more", "cached": False}],
            compute=["this-machine.small", {"template": "lab.gpu-1", "wait": "30s"}],
            env={"X": "true", "EMPTY": ""},
            grid={"C": [0.1, 1, 10], "gamma": {"min": 0, "max": 1, "steps": 3}},
            retries={"user_error": 0, "infrastructure": 3},
            timeout="1h",
            priority="build",
            preemptible=False,
            when="prepare.accuracy >= 0.9",
        )
    )


def test_the_spec_uses_the_keys_of_the_flow_file_and_leaves_out_what_was_not_given():
    assert digits().to_spec() == {
        "flow": "digits",
        "title": "Digits",
        "description": "Two steps: first, second",
        "parameters": {
            "lr": {"type": "float", "default": 0.1, "help": "Learning rate"},
            "mode": {"type": "str", "choices": ["fast", "yes"]},
        },
        "steps": [
            {"name": "prepare", "command": "python prepare.py\n", "data": [{"dataset": "demo/digits@main"}]},
            {
                "name": "train",
                "command": 'python train.py "$X" # not a comment',
                "data": [{"dataset": "demo/more", "name": "more", "cached": False}],
                "after": ["prepare"],
                "env": {"X": "true", "EMPTY": ""},
                "compute": ["this-machine.small", {"template": "lab.gpu-1", "wait": "30s"}],
                "retries": {"user_error": 0, "infrastructure": 3},
                "timeout": "1h",
                "priority": "build",
                "preemptible": False,
                "when": "prepare.accuracy >= 0.9",
                "grid": {"C": [0.1, 1, 10], "gamma": {"min": 0, "max": 1, "steps": 3}},
            },
        ],
    }


def test_the_usual_launcher_is_an_empty_mapping():
    flow = Flow("x").step("a", command="c", launcher={}).step("b", command="c", launcher={"cpu": 1})

    assert [step["launcher"] for step in flow.to_spec()["steps"]] == [{}, {"cpu": 1}]
    assert yaml.safe_load(flow.to_yaml()) == flow.to_spec()


def test_yaml_reads_back_as_the_spec():
    assert yaml.safe_load(digits().to_yaml()) == digits().to_spec()


@given(st.text(min_size=1), st.text(), st.dictionaries(st.text(min_size=1), st.text(), max_size=3))
def test_any_text_survives_yaml(command, when, env):
    flow = Flow("x").step("a", command=command, when=when or None, env=env)

    assert yaml.safe_load(flow.to_yaml()) == flow.to_spec()


def test_zero_and_false_are_values_and_not_nothing():
    spec = Flow("x").parameter("n", 0).parameter("b", False).step("a", command="c", retries=0).to_spec()

    assert spec["parameters"] == {"n": {"type": "int", "default": 0}, "b": {"type": "bool", "default": False}}
    assert spec["steps"][0]["retries"] == 0


@pytest.mark.parametrize(
    "build",
    [
        lambda: Flow("x").step("a", command="c").step("a", command="d"),
        lambda: Flow("x").parameter("p", 1).parameter("p", 2),
        lambda: Flow("x").parameter("p", type="list"),
        lambda: Flow("x").step("a", command="c", after=["b"]).to_spec(),
        lambda: Flow("x").step("a", command="c", compute="this-machine.small"),
        lambda: Flow("x").step("a", command="c", grid={"i": "abc"}),
        lambda: Flow("x").step("a", command="c", parameters={"path": Path("data")}).to_yaml(),
    ],
)
def test_what_cannot_be_meant_is_refused(build):
    with pytest.raises(InvalidRequest):
        build()


def test_a_number_of_numpy_is_a_number():
    class Int64:
        def item(self) -> int:
            return 3

    flow = Flow("x").step("a", command="c", parameters={"n": Int64()}, grid={"C": [Int64(), 5]})

    assert yaml.safe_load(flow.to_yaml())["steps"][0] == {
        "name": "a",
        "command": "c",
        "parameters": {"n": 3},
        "grid": {"C": [3, 5]},
    }


def test_a_flow_tells_its_name_and_its_steps():
    assert repr(Flow("digits")) == "<Flow 'digits': no step>"
    assert repr(Flow("digits").step("a", command="true").step("b", command="true")) == "<Flow 'digits': a, b>"
