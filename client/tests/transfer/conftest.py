"""A server in a folder, and folders linked to it."""

import pytest

from client.tests.fake_server import FakeServer
from client.tests.transfer.folders import Folder


@pytest.fixture
def server(tmp_path):
    return FakeServer(tmp_path / "server")


@pytest.fixture
def make_folder(tmp_path, server):
    """Return a function that makes an empty folder linked to the dataset."""

    def make(name="folder"):
        return Folder(tmp_path / name, server)

    return make


@pytest.fixture
def folder(make_folder):
    return make_folder()
