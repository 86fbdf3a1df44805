"""The running product as tests see it: real processes on loopback, started, killed and stopped by process id.

It runs embedded (one process on SQLite, a folder as store), or in full when `NEARLINE_TEST_POSTGRES`,
`NEARLINE_TEST_REDIS` and `NEARLINE_TEST_S3` name servers: then web, worker and controller are processes of their own.
`TwoHosts` is a full one with each of them twice, in two home folders that share nothing; requests go to both in turn.
"""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from tests.balancer import Balancer
from tests.ports import reserve_port

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
START_LIMIT_S = 600  # a few seconds, unless other tests keep the machine busy
OF_ONE_MACHINE = {
    "test_docker_host.py": "the socket of a daemon is one host's",
    "test_interactive_jobs.py": "a job of a machine is reached by web processes of its host alone (decision 0018)",
    "test_up.py": "`up` is the embedded product",
}
"""Journeys that are not passed on two hosts in full, each with its reason."""


def is_full() -> bool:
    """Whether this test run uses PostgreSQL, Redis and S3."""
    return "NEARLINE_TEST_POSTGRES" in os.environ


@dataclass
class Product:
    """One installation with a home of its own, or one more host of the installation that it `joins`."""

    home: Path
    environment: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=reserve_port)
    processes: dict[str, subprocess.Popen] = field(default_factory=dict)
    joins: "Product | None" = None
    is_set_up: bool = False

    def __post_init__(self) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("NEARLINE_")}
        clean.pop("DATABASE_URL", None)
        self.environment = {
            **clean,
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in (".", "platform", "client/src")),
            "NEARLINE_HOME": str(self.home),
            "NEARLINE_JOB_WRITABLE_PATHS": str(self.home.parent),  # where jobs leave traces for a test
            "PORT": str(self.port),
            "SAMPLE": "0",
            **(_shared_environment(self.joins) if is_full() else {}),
            **self.environment,
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        return ((self.joins or self).home / "admin.token").read_text()

    def start(self) -> "Product":
        """Start every process and wait until the product is ready to serve."""
        python = str(BIN / "python")
        if is_full():
            if self.joins is None and not self.is_set_up:
                self.manage("setup")
                self.is_set_up = True
            self.spawn("web", [python, "manage.py", "web"])
            self.spawn(
                "worker",
                [
                    python,
                    "-m",
                    "celery",
                    "-A",
                    "config.worker",
                    "worker",
                    "-Q",
                    "advance,cache,watch,notify,tidy",
                    "-P",
                    "threads",
                    "-c",
                    "4",
                    "--without-gossip",
                    "--without-mingle",
                    "--loglevel",
                    "WARNING",
                ],
            )
            self.spawn("controller", [python, "manage.py", "controller"])
        else:
            self.spawn("up", [python, "manage.py", "up"])
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def manage(self, *arguments: str) -> None:
        """Run `manage.py` to its end."""
        command = [str(BIN / "python"), "manage.py", *arguments]
        done = subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(f"`manage.py {arguments[0]}` ended with {done.returncode}:\n{done.stderr[-4000:]}")

    def spawn(self, name: str, command: list[str]) -> None:
        """Start a process of this installation; its output goes to a log beside the home folder."""
        log = (self.home.parent / f"{self.home.name}.{name}.log").open("ab")
        self.processes[name] = subprocess.Popen(command, cwd=ROOT, env=self.environment, stdout=log, stderr=log)

    def log_of(self, name: str) -> str:
        return (self.home.parent / f"{self.home.name}.{name}.log").read_text(errors="replace")

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            for name, process in self.processes.items():
                if process.poll() is not None:
                    raise AssertionError(f"{name} ended with {process.returncode}:\n{self.log_of(name)[-4000:]}")
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=60) as answer:
                    if json.load(answer)["checks"]["leader"] == "ok":
                        return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                pass
            time.sleep(0.05)
        raise AssertionError(
            "The product did not become ready:\n"
            + "\n".join(self.log_of(n)[-2000:] for n in self.processes)
            + "".join(log.read_text(errors="replace")[-4000:] for log in self.home.glob("nearline.log"))
        )

    def kill(self, *names: str) -> None:
        """SIGKILL some processes (all by default): no chance to tidy up."""
        for name in names or tuple(self.processes):
            process = self.processes.pop(name)
            process.send_signal(signal.SIGKILL)
            process.wait()

    def stop(self) -> None:
        """End every process in an orderly way, and by force after 15 seconds."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()

    def cli(
        self, *arguments: str, cwd: Path, check: bool = True, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run `nearline` as the admin, or as whoever `NEARLINE_TOKEN` in `environment` names."""
        done = subprocess.run(
            [str(BIN / "nearline"), *arguments],
            cwd=cwd,
            env={
                **self.environment,
                "NEARLINE_URL": self.url,
                "NEARLINE_TOKEN": self.token,
                "HOME": str(self.home),
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if check and done.returncode != 0:
            raise AssertionError(
                f"nearline {' '.join(arguments)} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
            )
        return done

    def cli_json(self, *arguments: str, cwd: Path) -> dict:
        """Run `nearline ... --json` and return what it printed."""
        return json.loads(self.cli(*arguments, "--json", cwd=cwd).stdout)

    def api(self, method: str, path: str, body: dict | None = None) -> dict:
        """Call the API as the admin."""
        request = urllib.request.Request(
            f"{self.url}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")

    def wait_for(self, read, is_done, *, limit_s: float = 600):
        """Call `read` until `is_done` holds for what it returns, and return that."""
        deadline = time.monotonic() + limit_s
        while True:
            value = read()
            if is_done(value):
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"This did not come about in {limit_s} s. Last seen: {value}")
            time.sleep(0.1)


@dataclass
class TwoHosts(Product):
    """A full installation on two hosts. Each request goes to the web process after the one of the last request."""

    def __post_init__(self) -> None:
        self.balancer_port = reserve_port()
        shared = {"NEARLINE_PUBLIC_URL": self.url, **self.environment}
        self.environment = {**shared, "NEARLINE_HOST_ID": "host-a"}
        super().__post_init__()
        home = self.home.with_name(f"{self.home.name}-b")
        self.second = Product(home, {**shared, "NEARLINE_HOST_ID": "host-b"}, joins=self)
        self.balancer: Balancer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.balancer_port}"

    def start(self) -> "TwoHosts":
        super().start()
        try:
            self.second.start()
        except BaseException:
            self.stop()
            raise
        if self.balancer is None:
            self.balancer = Balancer(self.balancer_port, [self.port, self.second.port])
        return self

    def kill(self, *names: str) -> None:
        super().kill(*names)
        if not names:
            self.second.kill()
            self._stop_balancer()

    def stop(self) -> None:
        super().stop()
        self.second.stop()
        self._stop_balancer()

    def _stop_balancer(self) -> None:
        if self.balancer is not None:
            self.balancer.stop()
            self.balancer = None


def new_product(home: Path, environment: dict[str, str] | None = None) -> Product:
    """Return an installation that is not started yet: one of two hosts in full, else one process."""
    return (TwoHosts if is_full() else Product)(home, environment or {})


def _shared_environment(joins: Product | None) -> dict[str, str]:
    """Return the servers and keys of a new installation, or those of the one that a host joins."""
    if joins is None:
        return _full_environment()
    shared = ("DATABASE_URL", "BROKER_URL", "NEARLINE_STORE_", "NEARLINE_SECRET_KEY", "NEARLINE_SECRETS_KEY")
    return {name: value for name, value in joins.environment.items() if name.startswith(shared)}


def _full_environment() -> dict[str, str]:
    name = f"journey_{uuid.uuid4().hex[:12]}"
    server = os.environ["NEARLINE_TEST_POSTGRES"]
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    bucket = os.environ["NEARLINE_TEST_BUCKET"]
    return {
        "DATABASE_URL": server.rsplit("/", 1)[0] + f"/{name}",
        "BROKER_URL": os.environ["NEARLINE_TEST_REDIS"] + f"/{_next_redis_database()}",
        "NEARLINE_STORE_URL": f"s3://{bucket}/{name}?endpoint={os.environ['NEARLINE_TEST_S3']}",
        "NEARLINE_STORE_ACCESS_KEY": os.environ["NEARLINE_TEST_S3_ACCESS_KEY"],
        "NEARLINE_STORE_SECRET_KEY": os.environ["NEARLINE_TEST_S3_SECRET_KEY"],
        "NEARLINE_SECRET_KEY": "the same in web, worker and controller",
        "NEARLINE_SECRETS_KEY": "b25seSBmb3IgdGVzdHM6IDMyIGJ5dGVzIGFzIGtleSE=",
    }


_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
# Each product has a database of its own in the Redis that `tests/services.py` starts: it has a thousand.
_redis_databases = itertools.count(1 + 100 * _WORKER)


def _next_redis_database() -> int:
    return next(_redis_databases)
