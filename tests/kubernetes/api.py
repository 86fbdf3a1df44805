"""The HTTP interface of a test cluster's API server, as an admin uses it: JSON in and out, waiting by watches."""

import json
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

import httpx

Manifest = dict
LIMIT_S = 600
"""So long is waited: a few seconds, unless other tests keep the machine busy."""
ANSWER_S = 60
"""So long may the API server take for an answer where a test is not about that; the product's own limit is shorter."""


class Api:
    """Calls as cluster admin. Paths are those of the API server, such as `/api/v1/nodes`."""

    def __init__(self, server: str, certificate: Path, token: str) -> None:
        self._client = httpx.Client(
            base_url=server,
            verify=ssl.create_default_context(cafile=str(certificate)),
            headers={"Authorization": f"Bearer {token}"},
            timeout=120,
            trust_env=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def is_ready(self) -> bool:
        try:
            return self._client.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def get(self, path: str) -> Manifest:
        """Return an object or a list; raise httpx.HTTPStatusError when it is refused or not there."""
        return self._json("GET", path)

    def list(self, path: str, **parameters: str) -> list[Manifest]:
        return self._json("GET", path, params=parameters)["items"]

    def exists(self, path: str) -> bool:
        response = self._client.get(path)
        return response.status_code != 404 and bool(response.raise_for_status())

    def create(self, path: str, manifest: Manifest) -> Manifest:
        return self._json("POST", path, json=manifest)

    def patch(self, path: str, changes: Manifest) -> Manifest:
        """Merge changes into an object (null removes a field)."""
        return self._json("PATCH", path, content=json.dumps(changes), headers={"Content-Type": MERGE_PATCH})

    def delete(self, path: str) -> None:
        """Delete an object; its dependents follow in the background. Nothing happens where none is."""
        response = self._client.delete(path, params={"propagationPolicy": "Background"})
        if response.status_code != 404:
            response.raise_for_status()

    def watch(self, path: str, *, timeout_s: float, **parameters: str) -> Iterator[tuple[str, Manifest]]:
        """Yield what is there as ADDED, then each change, until `timeout_s` passed."""
        # Whole seconds, as the server wants them; 0 would mean its own default of minutes.
        limit = {"watch": "true", "timeoutSeconds": str(max(1, round(timeout_s)))}
        with self._client.stream("GET", path, params={**limit, **parameters}, timeout=timeout_s + 10) as response:
            response.raise_for_status()
            for line in response.iter_lines():
                event = json.loads(line)
                yield event["type"], event["object"]

    def wait(self, path: str, holds: Callable[[Manifest], bool], *, timeout_s: float = LIMIT_S) -> Manifest:
        """Return the object at a path as soon as `holds` says yes to it; it need not exist yet."""
        collection, name = path.rsplit("/", 1)
        newest: Manifest = {}
        for kind, newest in self._watch_again(collection, timeout_s, fieldSelector=f"metadata.name={name}"):
            if kind != "DELETED" and holds(newest):
                return newest
        raise AssertionError(f"{path} did not become what was waited for in {timeout_s} s: {newest.get('status')}")

    def wait_until_there(self, path: str, *, timeout_s: float = LIMIT_S) -> None:
        """Wait until something is at a path, of a kind that the server may not know yet, or not serve yet."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            with suppress(httpx.HTTPStatusError):
                if self.exists(path):
                    return
            time.sleep(0.05)
        raise AssertionError(f"{path} is not there after {timeout_s} s.")

    def wait_until_gone(self, path: str, *, timeout_s: float = LIMIT_S) -> None:
        """Wait until no object is at a path."""
        collection, name = path.rsplit("/", 1)
        deadline = time.monotonic() + timeout_s
        while self.exists(path):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise AssertionError(f"{path} is still there after {timeout_s} s.")
            # A watch tells nothing of what went before it began, so it is a short one.
            for kind, _ in self.watch(collection, timeout_s=min(left_s, 5), fieldSelector=f"metadata.name={name}"):
                if kind == "DELETED":
                    break

    def _watch_again(self, path: str, timeout_s: float, **parameters: str) -> Iterator[tuple[str, Manifest]]:
        deadline = time.monotonic() + timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            yield from self.watch(path, timeout_s=left_s, **parameters)

    def _json(self, method: str, path: str, **arguments) -> Manifest:
        response = self._client.request(method, path, **arguments)
        if response.is_error:
            raise httpx.HTTPStatusError(response.text, request=response.request, response=response)
        return response.json()


MERGE_PATCH = "application/merge-patch+json"
