"""Whatever people write into the client's own JSON files, it is read, or refused in a sentence that names the file."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.tests.transfer.folders import LINK
from nearline.errors import NearlineError
from nearline.settings import profile_path, read_profile
from nearline.transfer.local.workspace import Workspace

KEYS = ("url", "project", "dataset", "branch", "commit", "root", "tokens")
TEXTS = st.text() | st.sampled_from(["a" * 64, "http://server", "../a"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
DOCUMENTS = st.dictionaries(st.sampled_from(KEYS), VALUES) | VALUES
CONTENTS = st.binary() | DOCUMENTS.map(lambda document: json.dumps(document).encode())
READERS = {
    "config.json": lambda workspace: workspace.link,
    "state.json": lambda workspace: workspace.state,
    "clone.json": lambda workspace: workspace.cloned_root,
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return Workspace.create(tmp_path_factory.mktemp("linked"), LINK)


def refusal_of(read, *arguments):
    """Return how reading was refused; None where it was not."""
    try:
        read(*arguments)
    except NearlineError as error:
        return error
    return None


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=50)
@given(content=CONTENTS)
def test_files_of_a_linked_folder_are_read_or_refused_by_name(workspace, name, content):
    (workspace.home / name).write_bytes(content)

    refusal = refusal_of(READERS[name], workspace)

    assert refusal is None or refusal.message.startswith(f"'{workspace.home / name}' cannot be read: ")


@settings(max_examples=50)
@given(content=CONTENTS)
def test_the_profile_is_read_or_refused_by_name(workspace, content):
    environ = {"HOME": str(workspace.root)}
    path = profile_path(environ)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)

    refusal = refusal_of(read_profile, environ)

    assert refusal is None or refusal.message.startswith(f"The profile {path} cannot be read: ")
