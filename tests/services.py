"""Start PostgreSQL, Redis and an S3 server on loopback, pass the tests on them, and stop them by process id.

Run by `make services`. Needs `postgres` and `initdb`, `redis-server`, and `versitygw` (or NEARLINE_TEST_VERSITYGW).
"""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.folders import open_folder  # noqa: E402 (the path must be set first)
from tests.ports import reserve_port  # noqa: E402

SUITES = ["tests/apps", "tests/fuzz", "tests/contracts", "tests/journeys", "tests/drills", "tests/upgrade"]
BUCKET = "nearline-tests"


def main() -> int:
    tools = find_tools()
    missing = [name for name, path in tools.items() if path is None]
    if missing:
        print(f"`make services` needs {', '.join(missing)}; see CONTRIBUTING.md.", file=sys.stderr)  # noqa: T201
        return 1
    with open_folder() as base, started(tools, base) as names:
        environment = {**os.environ, **names}
        options = ["-q", "-p", "tests.on_services", "-n", "4", "--dist", "loadfile"]
        command = [sys.executable, "-m", "pytest", *options, *(sys.argv[1:] or SUITES)]
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


@contextlib.contextmanager
def started(tools: Mapping[str, Path | None], base: Path) -> Iterator[dict[str, str]]:
    """All of them, below a folder; yield the variables that name them."""
    with contextlib.ExitStack() as stack:
        yield {
            **stack.enter_context(postgres(tools["postgres"].parent, base)),
            **stack.enter_context(redis(tools["redis-server"], base)),
            **stack.enter_context(s3(tools["versitygw"], base)),
        }


def find_tools() -> dict[str, Path | None]:
    """Return where the servers are; None for one that is not there."""
    return {
        "postgres": _find("postgres", *sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), reverse=True)),
        "redis-server": _find("redis-server"),
        "versitygw": _find("versitygw", Path(os.environ.get("NEARLINE_TEST_VERSITYGW", "/nowhere"))),
    }


def _find(name: str, *candidates: Path) -> Path | None:
    on_path = shutil.which(name)
    return next((path for path in (*candidates, *([Path(on_path)] if on_path else [])) if path.exists()), None)


@contextlib.contextmanager
def postgres(binaries: Path, base: Path) -> Iterator[dict[str, str]]:
    """A cluster of its own, without durability, owned by the user `postgres` when we are root (it refuses root)."""
    data, port = base / "postgres", reserve_port()
    data.mkdir()
    user = None
    if os.geteuid() == 0:
        user = "postgres"
        shutil.chown(data, user, user)
    subprocess.run(
        [binaries / "initdb", "-D", data, "-U", "nearline", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"],
        user=user,
        cwd="/",
        check=True,
        stdout=subprocess.DEVNULL,
    )
    options = [
        "-c",
        "fsync=off",
        "-c",
        "synchronous_commit=off",
        "-c",
        "full_page_writes=off",
        "-c",
        "max_connections=600",
        "-c",
        "listen_addresses=127.0.0.1",
        "-c",
        f"unix_socket_directories={data}",
    ]
    process = subprocess.Popen(
        [binaries / "postgres", "-D", data, "-p", str(port), *options],
        user=user,
        cwd="/",
        stdout=subprocess.DEVNULL,
        stderr=(base / "postgres.log").open("wb"),
    )
    url = f"postgresql://nearline@127.0.0.1:{port}"
    with stopped_at_the_end(process):
        import psycopg

        def answers() -> bool:
            with contextlib.suppress(psycopg.OperationalError), psycopg.connect(f"{url}/postgres"):
                return True
            return False

        wait_until(answers, process)
        yield {"DATABASE_URL": f"{url}/nearline", "NEARLINE_TEST_POSTGRES": f"{url}/postgres"}


@contextlib.contextmanager
def redis(binary: Path, base: Path) -> Iterator[dict[str, str]]:
    port = reserve_port()
    process = subprocess.Popen(
        [binary, "--port", str(port), "--bind", "127.0.0.1", "--databases", "1000", "--save", "", "--dir", base],
        stdout=subprocess.DEVNULL,
    )
    with stopped_at_the_end(process):
        wait_until(lambda: listens(port), process)
        yield {"NEARLINE_TEST_REDIS": f"redis://127.0.0.1:{port}"}


@contextlib.contextmanager
def s3(binary: Path, base: Path) -> Iterator[dict[str, str]]:
    port, folder = reserve_port(), base / "s3"
    (folder / BUCKET).mkdir(parents=True)
    process = subprocess.Popen(
        [
            binary,
            "--access",
            "test-access",
            "--secret",
            "test-secret-key",
            "--port",
            f"127.0.0.1:{port}",
            "posix",
            folder,
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with stopped_at_the_end(process):
        wait_until(lambda: listens(port), process)
        yield {
            "NEARLINE_TEST_S3": f"http://127.0.0.1:{port}",
            "NEARLINE_TEST_BUCKET": BUCKET,
            "NEARLINE_TEST_S3_ACCESS_KEY": "test-access",
            "NEARLINE_TEST_S3_SECRET_KEY": "test-secret-key",
            "NEARLINE_TEST_VERSITYGW": str(binary),
        }


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(holds, process: subprocess.Popen, *, limit_s: float = 120) -> None:
    deadline = time.monotonic() + limit_s
    while not holds():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"{process.args[0]} did not start.")
        time.sleep(0.05)


@contextlib.contextmanager
def stopped_at_the_end(process: subprocess.Popen) -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
