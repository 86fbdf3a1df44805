"""The command line against a server that answers what the test says."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from nearline import _store
from nearline._http import Http, api_policy
from nearline.cli.main import app
from nearline.cli.session import Session
from nearline.client import Client

URL = "http://127.0.0.1:8000"


@dataclass
class Server:
    """Answers by method and path; what it was asked stays in `asked`."""

    answers: dict[tuple[str, str], Any] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)

    def on(self, method: str, path: str, answer: Any, *, status: int = 200) -> None:
        """Say what to answer; a list of answers is gone through, its last one repeated."""
        answers = answer if isinstance(answer, list) else [answer]
        self.answers[method, path] = [(status, one) for one in answers]

    def refuse(self, method: str, path: str, status: int, title: str = "No.", **rest: Any) -> None:
        """Answer with a problem."""
        problem = {"status": status, "code": "x.y", "title": title, "hint": "", "details": {}, **rest}
        self.on(method, path, problem, status=status)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1")
        is_json = request.headers.get("Content-Type") == "application/json"
        body = json.loads(request.content) if is_json else request.content or None
        self.asked.append((request.method, path, dict(request.url.params), body))
        script = self.answers.get((request.method, path))
        if script is None:
            raise AssertionError(f"The test did not expect {request.method} {path}")
        status, answer = script.pop(0) if len(script) > 1 else script[0]
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, bytes):
            return httpx.Response(status, content=answer)
        return httpx.Response(status) if answer is None else httpx.Response(status, json=answer)

    def bodies(self, method: str, path: str) -> list[Any]:
        """Return what was sent there."""
        return [body for its, route, _, body in self.asked if (its, route) == (method, path)]


@dataclass
class ScriptedStore:
    """A store behind the handler that answers for the API."""

    handler: Callable[[httpx.Request], httpx.Response]

    def send(self, method, url, headers, *parts):
        self._ask(method, url, headers, b"".join(parts))

    def receive(self, method, url, headers, allocate, *, byte_range=None):
        part = {"Range": f"bytes={byte_range[0]}-{sum(byte_range) - 1}"} if byte_range else {}
        content = self._ask(method, url, {**headers, **part}).content
        view = allocate(len(content))
        view[:] = content
        return view

    def _ask(self, method, url, headers, content=None):
        answer = self.handler(httpx.Request(method, url, headers=headers, content=content))
        if not answer.is_success:
            raise _store.read_problem(answer.status_code, answer.text)
        return answer

    def close(self):
        pass


@pytest.fixture
def server() -> Server:
    return Server()


Cli = Callable[..., Result]


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """An empty folder that the command line runs in, with a home of its own."""
    for name in ("NEARLINE_URL", "NEARLINE_TOKEN", "NEARLINE_PROJECT", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def cli(server, here) -> Cli:
    """Run the command line, signed in to `server`, and return how it ended."""
    return connect(server)


def connect(handler: Callable[[httpx.Request], httpx.Response]) -> Cli:
    """Return a function that runs the command line against a server."""

    def run(*arguments: str, stdin: str | None = None) -> Result:
        http = Http(
            URL,
            "secret",
            transport=httpx.MockTransport(handler),
            store=ScriptedStore(handler),
            policy=replace(api_policy(), max_elapsed_s=0),
            max_first_attempts=1,
        )
        session = Session(url=URL, token="secret", _client=Client(http=http))
        return CliRunner().invoke(app, list(arguments), obj=session, input=stdin)

    return run
