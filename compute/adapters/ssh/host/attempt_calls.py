"""What a job on a host asks of the platform, with a token of its own: the trees that it reads, and to keep its output.

With the standard library alone, as nothing else is sure to be on the host.
"""

import http.client
import json
import tarfile
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import quote

from compute.errors import StartRefused
from datasets.errors import HydrationStopped
from nearline.content import archives
from nearline.content.retry import Failure, RetryPolicy, Waiting, read_retry_after_s

T = TypeVar("T")

_TIMEOUT_S = 60
_PIECE_BYTES = 1 << 18
_WAITED_FOR = {429, 502, 503, 504}
_FAULT = 500
LIMIT_S = 600.0
"""So long is a platform tried that does not answer."""

ShouldStop = Callable[[], bool]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Never shows the token to another address."""

    def redirect_request(self, *_: Any) -> None:
        """Refuse."""


_opener = urllib.request.build_opener(_NoRedirects)


@dataclass(frozen=True)
class AttemptCalls:
    """Speaks for one run of one job."""

    url: str
    token: str

    def write_tree(self, name: str, target: Path, should_stop: ShouldStop) -> None:
        """Write a tree, known to the platform by its kind and name, into a folder.

        Raises StartRefused when the platform will not give it, OSError, and HydrationStopped once that is asked for.
        """

        def write() -> None:
            with self._open(f"/trees/{quote(name)}") as answer:
                archives.unpack(_pieces(answer, should_stop), target)

        self._repeat(write, should_stop)

    def store_output(self, folder: Path, should_stop: ShouldStop) -> str:
        """Send a folder and return the root under which it is stored; empty where it holds no file.

        Raises what `write_tree` raises.
        """

        def send() -> str:
            with self._open("/output", archives.pack(folder)) as answer:
                return str(json.load(answer)["root"])

        return self._repeat(send, should_stop)

    def _open(self, path: str, body: Iterator[bytes] | None = None) -> Any:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/x-tar"}
        address = f"{self.url}/api/v1/attempt{path}"
        request = urllib.request.Request(address, data=body, headers=headers)  # noqa: S310
        try:
            return _opener.open(request, timeout=_TIMEOUT_S)
        except HTTPError as error:
            if error.code in _WAITED_FOR or error.code >= _FAULT:
                error.retry_after_s = read_retry_after_s(error.headers.get("Retry-After"))  # type: ignore[attr-defined]
                raise
            raise StartRefused(f"The platform refuses ({error.code}): {_reason_of(error)}") from error

    def _repeat(self, deed: Callable[[], T], should_stop: ShouldStop) -> T:
        def attempt() -> T:
            try:
                return deed()
            except (http.client.HTTPException, tarfile.TarError) as error:
                raise ConnectionError(f"The answer of the platform broke off: {error!r}") from error

        def stop(_: Waiting) -> None:
            if should_stop():
                raise HydrationStopped("Stopped on request.")

        return RetryPolicy(_classify, max_elapsed_s=LIMIT_S, on_wait=stop).repeat(attempt)


def find_fault(url: str) -> str:
    """Return why the platform does not answer at an address; empty when it does."""
    try:
        with _opener.open(f"{url}/healthz", timeout=10):
            return ""
    except HTTPError as error:
        return f"it answers {error.code} {error.reason}. The setting NEARLINE_ALLOWED_HOSTS has to list its host name."
    except (OSError, http.client.HTTPException, ValueError) as error:
        return str(getattr(error, "reason", "") or error)


def _pieces(answer: Any, should_stop: ShouldStop) -> Iterator[bytes]:
    while piece := answer.read(_PIECE_BYTES):
        if should_stop():
            raise HydrationStopped("Stopped on request.")
        yield piece


def _classify(error: Exception) -> Failure:
    if isinstance(error, HTTPError):
        return Failure.UNAVAILABLE if error.code in _WAITED_FOR else Failure.SERVER_ERROR
    is_in_between = isinstance(error, URLError | ConnectionError | TimeoutError)
    return Failure.UNAVAILABLE if is_in_between else Failure.PERMANENT


def _reason_of(error: HTTPError) -> str:
    text = error.read(1 << 16).decode(errors="replace")
    try:
        problem = json.loads(text)
        return str(problem.get("title") or problem.get("message"))
    except (ValueError, AttributeError):
        return text[:300]
