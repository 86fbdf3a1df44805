import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compute.engine.job_spec import HostFolder, JobSpec, Mount, NfsExport, Tree, Volume, is_safe_name
from compute.errors import InvalidJobSpec

texts = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), min_size=1)
names = st.text("abcXYZ019-_.", min_size=1, max_size=30).filter(is_safe_name)
values = st.one_of(st.integers(), st.floats(allow_nan=False), st.booleans(), texts)
sources = st.one_of(
    st.builds(HostFolder, texts),
    st.builds(Volume, texts, texts),
    st.builds(NfsExport, texts, texts),
    st.builds(Tree, texts, texts),
)
mounts = st.builds(Mount, names, sources, st.booleans())
tries = st.builds(Mount, st.builds("{}/{}".format, names, st.integers(0, 999)), sources)
specs = st.builds(
    JobSpec,
    name=names,
    command=st.one_of(texts, st.lists(texts, min_size=1).map(tuple)),
    image=st.none() | texts,
    env=st.dictionaries(names, texts),
    secret_names=st.lists(names).map(tuple),
    data=st.lists(mounts).map(tuple),
    inputs=st.lists(mounts | tries).map(tuple),
    code=st.none() | mounts,
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


def test_a_spec_that_the_first_release_stored_is_read():
    stored = {
        "name": "run-train-1",
        "command": "cp -R /home/code/1f . || exit 1\npython train.py",
        "image": None,
        "env": {"NEARLINE_STEP": "train"},
        "secret_names": ["KEY"],
        "data": [{"name": "digits", "path": "/home/sites/local/commit"}],
        "inputs": [
            {"step": "prep", "path": "/home/jobs/prep/output", "sources": ""},
            {"step": "fit", "path": "/home/runs/1/inputs/fit-a", "sources": "/home/runs/1/inputs/fit-a.sources"},
        ],
        "parameters": {"C": 10},
        "append_parameters": False,
        "timeout_s": None,
        "simulated_duration_s": 5.0,
        "working_directory": None,
        "readable_paths": ["/home/code/1f"],
        "log_limit_bytes": 52428800,
    }

    assert JobSpec.from_json(stored) == JobSpec(
        name="run-train-1",
        command="cp -R /home/code/1f . || exit 1\npython train.py",
        env={"NEARLINE_STEP": "train"},
        secret_names=("KEY",),
        data=(Mount("digits", HostFolder("/home/sites/local/commit")),),
        inputs=(
            Mount("prep", HostFolder("/home/jobs/prep/output")),
            Mount("fit", HostFolder("/home/runs/1/inputs/fit-a")),
        ),
        parameters={"C": 10},
        readable_paths=("/home/code/1f",),
        readable_lists=("/home/runs/1/inputs/fit-a.sources",),
    )


@pytest.mark.parametrize(
    "source", [None, {}, {"kind": "floppy"}, {"kind": "volume"}, {"kind": "host_folder", "path": "/x", "mode": "1"}]
)
def test_a_mount_from_something_unknown_is_refused(source):
    with pytest.raises(InvalidJobSpec):
        JobSpec.from_json({"name": "a", "command": "true", "data": [{"name": "digits", "source": source}]})


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
        {"data": [Mount("../etc", HostFolder("/etc"))]},
        {"data": [Mount("digits/0", HostFolder("/x"))]},
        {"inputs": [Mount("a/b", HostFolder("/x"))]},
        {"inputs": [Mount("a/", HostFolder("/x"))]},
        {"inputs": [Mount("../0", HostFolder("/x"))]},
        {"timeout_s": 0},
        {"simulated_duration_s": -1},
        {"log_limit_bytes": 0},
    ],
)
def test_what_makes_no_sense_is_refused(values):
    with pytest.raises(InvalidJobSpec):
        JobSpec(**{"name": "a", "command": "true", **values})
