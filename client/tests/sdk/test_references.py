"""How a dataset is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearline.errors import InvalidRequest
from nearline.resources.references import (
    OutputReference,
    Reference,
    is_output,
    parse_output,
    parse_reference,
    server_of,
)

HERE = "http://127.0.0.1:8000"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("team/digits", Reference("team", "digits")),
        ("team/digits@main", Reference("team", "digits", "main")),
        ("digits", Reference("mine", "digits")),
        ("digits@v1", Reference("mine", "digits", "v1")),
        ("http://127.0.0.1:8000/datasets/team/digits", Reference("team", "digits")),
        ("http://127.0.0.1:8000/datasets/team/digits/", Reference("team", "digits")),
        ("http://localhost:8000/datasets/team/digits/commits/", Reference("team", "digits")),
        ("http://127.0.0.1:8000/datasets/team/digits/?ref=v1&path=a", Reference("team", "digits", "v1")),
        ("http://127.0.0.1:8000/api/v1/datasets/team/digits/commits/v1", Reference("team", "digits", "v1")),
        ("http://127.0.0.1:8000/api/v1/datasets/team/digits/commits/a%2Fb", Reference("team", "digits", "a/b")),
        ("http://127.0.0.1:8000/datasets/team/digits@v1", Reference("team", "digits", "v1")),
    ],
)
def test_a_dataset_is_named_by_reference_or_address(text, meant):
    assert parse_reference(text, project="mine", url=HERE) == meant


@pytest.mark.parametrize(
    "text",
    [
        *("", "/", "a/b/c", "a/", "@main", "a/b@", f"{HERE}/flows/a/b", f"{HERE}/datasets/a"),
        *("http://[", "http://[/datasets/a/b", "http://a:99999999/datasets/a/b", "http://a:b/datasets/a/b"),
    ],
)
def test_what_names_no_dataset_is_refused(text):
    with pytest.raises(InvalidRequest):
        parse_reference(text, project="mine", url=HERE)


def test_a_bare_name_needs_a_project():
    with pytest.raises(InvalidRequest, match="names no project"):
        parse_reference("digits")


def test_an_address_on_another_server_is_refused_with_the_way_there():
    with pytest.raises(InvalidRequest) as raised:
        parse_reference("https://other.example.org/datasets/a/b", url=HERE)

    assert "nearline login https://other.example.org" in raised.value.hint


def test_a_reference_reads_as_it_is_written():
    assert (str(Reference("a", "b")), str(Reference("a", "b", "c"))) == ("a/b", "a/b@c")


@pytest.mark.parametrize("address", [f"{HERE}/api/v1/datasets/a/b/commits/main", f"{HERE}/datasets/a/b?ref=main"])
def test_an_address_names_its_server(address):
    assert server_of(address) == HERE


def test_a_reference_names_no_server():
    with pytest.raises(InvalidRequest):
        server_of("a/b")


@pytest.mark.parametrize(
    ("text", "meant", "folder"),
    [
        ("run:run_1/train", OutputReference("run_1", "train"), "train"),
        ("run:run_1/train C=10", OutputReference("run_1", "train C=10"), "train-C=10"),
        ("run:run_1/train path=/a@b:c", OutputReference("run_1", "train path=/a@b:c"), "train-path=-a-b-c"),
        ("run:run_1/..", OutputReference("run_1", ".."), "output"),
        ("run:digits#1/train", OutputReference("digits#1", "train"), "train"),
        ("run:team/digits #1/train d=a/b", OutputReference("team/digits #1", "train d=a/b"), "train-d=a-b"),
        ("job:sweep-3", OutputReference("sweep-3"), "sweep-3"),
    ],
)
def test_an_output_is_named_by_its_step_or_job(text, meant, folder):
    assert parse_output(text) == meant
    assert (str(meant), meant.name) == (text, folder)


@pytest.mark.parametrize("text", ["run:", "run:run_1", "run:run_1/", "run:/train", "job:", "team/digits"])
def test_what_names_no_output_is_refused(text):
    with pytest.raises(InvalidRequest):
        parse_output(text)


def test_an_output_is_no_dataset():
    with pytest.raises(InvalidRequest, match="where a dataset is needed"):
        parse_reference("run:run_1/train", project="mine", url=HERE)


@given(text=st.text() | st.from_regex(r"(run|job):[a-z_0-9/ =@.]*", fullmatch=True))
def test_any_text_names_one_thing_or_is_refused(text):
    """What is read reads back as it was written, and its folder lies where the command runs."""
    try:
        output = parse_output(text)
    except InvalidRequest:
        return
    assert is_output(text)
    assert str(output) == text
    assert output.name not in {"", ".", ".."}
    assert "/" not in output.name
