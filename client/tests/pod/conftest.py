"""A platform's routes for the pods of one copy, and a pod that asks them."""

import json
import shutil

import httpx
import pytest

from client.tests.cli.dataset_server import DatasetServer
from client.tests.loopback import Answer, serve
from client.tests.transfer.folders import Folder
from nearline.pod import copies

FILES = {"a/one": b"1" * 9000, "a/two": b"2" * 9000, "b": b"3"}


class CopyServer:
    """The platform's routes for one copy, in front of a dataset `team/digits`."""

    def __init__(self, folder) -> None:
        self.dataset = DatasetServer(folder / "server")
        self.source = Folder(folder / "source", self.dataset.store)
        self.reports: list[dict] = []
        self.is_wanted = True
        self.next_packs: list[str] = []

    def commit(self, files) -> None:
        for path in self.source.root.iterdir():
            if path.name != ".nearline":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.source.write(files).sync()
        self.files = files

    def answer(self, request) -> Answer:
        path = request.target.removeprefix("/api/v1/copy")
        if not self.is_wanted:
            return Answer(401, json.dumps({"code": "accounts.not_signed_in", "title": "No.", "hint": ""}).encode())
        if path == "":
            newest = self.dataset.store.commits[-1]
            size_bytes = sum(map(len, self.files.values()))
            task = {
                "commit": newest["id"],
                "root": newest["root"],
                "files": len(self.files),
                "size_bytes": size_bytes,
            }
            return Answer(200, json.dumps(task).encode())
        if path == "/progress":
            self.reports.append(json.loads(request.body))
            return Answer(200, json.dumps({"next_packs": self.next_packs}).encode())
        target = request.target.replace("/copy/", "/datasets/team/digits/")
        said = self.dataset(
            httpx.Request(request.method, f"http://server{target}", headers=request.headers, content=request.body)
        )
        return Answer(said.status_code, said.content)


@pytest.fixture
def server(tmp_path):
    return CopyServer(tmp_path)


@pytest.fixture
def pod(server, tmp_path, monkeypatch):
    """Run a pod's command and return its exit code and what it noted."""
    (tmp_path / "token").write_text("secret\n")
    message = tmp_path / "message"
    monkeypatch.setattr(copies, "_MESSAGE", message)
    monkeypatch.setenv("NEARLINE_COPY_TOKEN_FILE", str(tmp_path / "token"))
    with serve(server.answer) as running:
        monkeypatch.setenv("NEARLINE_URL", running.url)

        def run(*arguments):
            code = copies.main([str(argument) for argument in arguments])
            return code, json.loads(message.read_text())

        yield run


@pytest.fixture
def volume(tmp_path):
    folder = tmp_path / "volume"
    folder.mkdir()
    return folder


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def counts(noted):
    return tuple(noted[f"bytes_{name}"] for name in ("done", "shared", "copied", "moved"))
