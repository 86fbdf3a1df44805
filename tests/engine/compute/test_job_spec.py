import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compute.engine.job_spec import DataMount, InputMount, JobSpec, is_safe_name
from compute.errors import InvalidJobSpec

texts = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), min_size=1)
names = st.text("abcXYZ019-_.", min_size=1, max_size=30).filter(is_safe_name)
values = st.one_of(st.integers(), st.floats(allow_nan=False), st.booleans(), texts)
specs = st.builds(
    JobSpec,
    name=names,
    command=st.one_of(texts, st.lists(texts, min_size=1).map(tuple)),
    image=st.none() | texts,
    env=st.dictionaries(names, texts),
    secret_names=st.lists(names).map(tuple),
    data=st.lists(st.builds(DataMount, names, texts)).map(tuple),
    inputs=st.lists(st.builds(InputMount, names, texts)).map(tuple),
    parameters=st.dictionaries(names, values),
    append_parameters=st.booleans(),
    timeout_s=st.none() | st.floats(0.1, 1e6),
    simulated_duration_s=st.floats(0, 1e6),
    working_directory=st.none() | texts,
    log_limit_bytes=st.integers(1, 2**40),
)


@given(specs)
def test_a_spec_survives_json(spec):
    assert JobSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


def test_a_key_that_this_version_does_not_know_is_passed_over():
    assert JobSpec.from_json({"name": "a", "command": "true", "colour": "blue"}) == JobSpec(name="a", command="true")


def test_a_text_command_is_run_by_the_shell_and_a_list_as_it_is():
    assert JobSpec(name="a", command="echo $X | wc").argv() == ["/bin/sh", "-c", "echo $X | wc"]
    assert JobSpec(name="a", command=["echo", "$X"]).argv() == ["echo", "$X"]


def test_appended_parameters_are_quoted_for_the_shell_and_plain_in_a_list():
    parameters = {"lr": 0.5, "title": "a b; rm -rf /", "deep": False}

    text = JobSpec(name="a", command="train", parameters=parameters, append_parameters=True)
    listed = JobSpec(name="a", command=["train"], parameters=parameters, append_parameters=True)

    assert text.argv()[2] == "train --lr 0.5 --title 'a b; rm -rf /' --deep false"
    assert listed.argv() == ["train", "--lr", "0.5", "--title", "a b; rm -rf /", "--deep", "false"]


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "a b", "a\n", "ü", "x" * 201, "---", "_"])
def test_a_name_that_cannot_be_a_folder_is_refused(name):
    assert not is_safe_name(name)
    with pytest.raises(InvalidJobSpec):
        JobSpec(name=name, command="true")


@pytest.mark.parametrize(
    "values",
    [
        {"command": ""},
        {"command": ()},
        {"command": "a\0b"},
        {"env": {"A=B": "c"}},
        {"env": {"": "c"}},
        {"data": [DataMount("../etc", "/etc")]},
        {"inputs": [InputMount("a/b", "/x")]},
        {"timeout_s": 0},
        {"simulated_duration_s": -1},
        {"log_limit_bytes": 0},
    ],
)
def test_what_makes_no_sense_is_refused(values):
    with pytest.raises(InvalidJobSpec):
        JobSpec(**{"name": "a", "command": "true", **values})
