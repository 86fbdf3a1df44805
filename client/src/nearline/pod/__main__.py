"""What the containers of ours in a pod do: `bring` writes its code and inputs, `keep` sends its output at its end.

`resume` makes a checkpoint folder hold what the job goes on from; `meet` waits for the other pods of a gang.
`python -m nearline.pod bring '{"code/code": "/scratch/work"}'`, `python -m nearline.pod meet '["replica-0.gang"]'` and
`python -m nearline.pod keep /scratch/output`, with the platform's address in NEARLINE_URL and the token of the attempt
in NEARLINE_ATTEMPT_TOKEN. What went wrong, and what was stored, is written to the container's termination message.
"""

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import httpx

from nearline.content import archives
from nearline.content.removals import remove_folder
from nearline.content.retry import Failure, RetryPolicy, read_retry_after_s

_MESSAGE = Path(os.environ.get("NEARLINE_TERMINATION_MESSAGE", "/dev/termination-log"))
_MOST_MESSAGE = 4000
_TIMEOUT = httpx.Timeout(60, connect=10)
_WAITED_FOR = {429, 502, 503, 504}
_FAULT = 500
_LOOK_EVERY_S = 0.1
_CONNECT_S = 5.0
_LONGEST_S = 24 * 3600.0


class Refused(Exception):
    """The platform answered that it will not do this."""


def main(arguments: list[str] | None = None) -> int:
    """Do one duty and return the exit code."""
    duty, task = arguments or sys.argv[1:]
    try:
        with httpx.Client(
            base_url=f"{os.environ['NEARLINE_URL']}/api/v1/attempt",
            headers={"Authorization": f"Bearer {os.environ['NEARLINE_ATTEMPT_TOKEN']}"},
            timeout=_TIMEOUT,
        ) as platform:
            _DUTIES[duty](platform, task)
    except (Refused, httpx.HTTPError, OSError) as error:
        _note(str(error) or type(error).__name__)
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _bring(platform: httpx.Client, task: str) -> None:
    """Write trees to their folders; `task` is JSON that says which goes where."""
    for name, target in json.loads(task).items():
        _repeat(partial(_write_tree, platform, name, Path(target)))


def _write_tree(platform: httpx.Client, name: str, folder: Path) -> None:
    with platform.stream("GET", f"/trees/{name}") as answer:
        _check(answer)
        archives.unpack(answer.iter_raw(), folder)


def _resume(platform: httpx.Client, task: str) -> None:
    """Let `files` of a volume be there, and hold a stored tree, unless they were made of that before.

    `task` is JSON: the `folder` of the volume, the `root` of the tree (empty: none), and whether this pod `is_first`;
    the others of a gang wait for the first one.
    """
    fields = json.loads(task)
    volume, root = Path(fields["folder"]), fields["root"]
    files, arriving, noted = volume / "files", volume / "arriving", volume / "root"
    if root and not fields["is_first"]:
        _wait_for({"The first replica has not brought the checkpoint.": lambda: _read(noted) == root})
    elif root and _read(noted) != root:
        remove_folder(arriving)
        arriving.mkdir()
        _repeat(lambda: _write_tree(platform, f"checkpoint/{root}", arriving))
        # A pod that ends in between is followed by one that finds another root noted, and begins anew.
        noted.unlink(missing_ok=True)
        remove_folder(files)
        arriving.rename(files)
        noted.write_text(root)
    files.mkdir(exist_ok=True)


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except FileNotFoundError:
        return ""


def _meet(_: httpx.Client, task: str) -> None:
    """Wait until all host names of a JSON list are known, and of `host:port` until something listens there.

    There is no timeout: a wait without an end is ended from outside.
    """
    places = [place.partition(":") for place in json.loads(task)]
    _wait_for(
        {f"No address of {host} was found.": partial(_has_address, host) for host, _, _ in places}
        | {f"Nothing listens on {host}:{port}.": partial(_listens, host, int(port)) for host, _, port in places if port}
    )


def _wait_for(conditions: Mapping[str, Callable[[], bool]]) -> None:
    """Wait until all conditions hold, which have names. Raises Refused with the name of one when told to end before."""
    is_over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    for name, holds in conditions.items():
        while not holds():
            if is_over.wait(_LOOK_EVERY_S):
                raise Refused(name)


def _has_address(host: str) -> bool:
    try:
        return bool(socket.getaddrinfo(host, None))
    except OSError:
        return False


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=_CONNECT_S).close()
    except OSError:
        return False
    return True


def _keep(platform: httpx.Client, task: str) -> None:
    """Wait until the command has ended; then send a folder.

    The node says so by SIGTERM, which the first process of a container misses until it has a handler. So the hook that
    runs before the signal writes a file.
    """
    is_over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    mark = Path(task).with_name("over")
    while not (is_over.wait(_LOOK_EVERY_S) or mark.exists()):
        pass

    def send() -> str:
        answer = platform.post("/output", content=archives.pack(Path(task)), timeout=httpx.Timeout(600, connect=10))
        _check(answer)
        return answer.text

    _note(_repeat(send))


def _check(answer: httpx.Response) -> None:
    if answer.is_success:
        return
    answer.read()
    if answer.status_code in _WAITED_FOR or answer.status_code >= _FAULT:
        error = httpx.HTTPStatusError(
            f"The platform answered {answer.status_code}.", request=answer.request, response=answer
        )
        error.retry_after_s = read_retry_after_s(answer.headers.get("Retry-After"))  # type: ignore[attr-defined]
        raise error
    try:
        message = answer.json()["title"]
    except (ValueError, KeyError, TypeError):
        message = answer.text[:300]
    raise Refused(f"The platform refuses ({answer.status_code}): {message}")


def _repeat(deed: Callable[[], str | None]) -> str:
    """Do something until it succeeds; the pod's own grace ends what takes too long."""
    return RetryPolicy(_classify, max_elapsed_s=_LONGEST_S).repeat(deed) or ""


def _classify(error: Exception) -> Failure:
    if isinstance(error, httpx.HTTPStatusError) and error.response.status_code not in _WAITED_FOR:
        return Failure.SERVER_ERROR
    return Failure.UNAVAILABLE if isinstance(error, httpx.HTTPError) else Failure.PERMANENT


def _note(message: str) -> None:
    _MESSAGE.write_text(message[:_MOST_MESSAGE])


_DUTIES: dict[str, Callable[[httpx.Client, str], None]] = {
    "bring": _bring,
    "resume": _resume,
    "meet": _meet,
    "keep": _keep,
}

if __name__ == "__main__":
    sys.exit(main())
