"""What folders refuse before any server is asked."""

import pytest

from nearline.client import Client
from nearline.errors import InvalidRequest


def test_a_client_tells_its_server_and_no_token():
    assert repr(Client("http://127.0.0.1:9", "token")) == "Client('http://127.0.0.1:9')"


@pytest.fixture
def folders():
    return Client("http://127.0.0.1:9", "token").folders


def test_a_tool_that_is_not_known_is_refused(folders, tmp_path):
    with pytest.raises(InvalidRequest, match="'zip' is none of dvc, hf, lfs"):
        folders.export("team/digits", "zip", tmp_path / "out")
    with pytest.raises(InvalidRequest, match="'zip' is none of dvc, hf, lfs"):
        folders.adopt("team/digits", "zip", tmp_path)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("parallel", [0, -1])
def test_less_than_one_transfer_at_a_time_is_refused(folders, tmp_path, parallel):
    with pytest.raises(InvalidRequest, match="`parallel` is 1 or more"):
        folders.put("team/digits@main", [tmp_path], parallel=parallel)
