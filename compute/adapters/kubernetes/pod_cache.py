"""The pods of a cluster as this process knows them: listed once, then watched, and listed anew now and then.

The watch runs in a thread that ends when nobody has asked for a while. It is never trusted alone: when it breaks off,
the next reader lists.
"""

import threading
import time
from collections.abc import Callable, Collection

import structlog

from compute.adapters.kubernetes import states
from compute.adapters.kubernetes.gateway import Expired, Gateway, Json, Refusal
from compute.errors import ResourceUnreachable

log = structlog.get_logger(__name__)

_IDLE_S = 120.0
_PAUSE_S = 1.0


class PodCache:
    """The pods under one path that fit a selector, by their names."""

    def __init__(self, gateway: Gateway, path: str, selector: str, now: Callable[[], float] = time.monotonic) -> None:
        self._gateway, self._path, self._selector = gateway, path, selector
        self._now = now
        self._changed = threading.Condition()
        self._pods: dict[str, Json] = {}
        self._version = ""
        self._is_synced = False
        self._is_watched = False
        self._has_news = False
        self._used_at = now()

    def list(self) -> Collection[Json]:
        """Return all pods. Raises ResourceUnreachable and Refusal."""
        with self._changed:
            self._used_at = self._now()
            if self._is_synced:
                return list(self._pods.values())
        self._list()
        self._watch_in_background()
        with self._changed:
            return list(self._pods.values())

    def find(self, name: str) -> Json | None:
        """Return a pod if it is known."""
        with self._changed:
            return self._pods.get(name) if self._is_synced else None

    def put(self, pod: Json) -> None:
        """Learn of a pod that the cluster has just answered with."""
        with self._changed:
            self._put(pod)

    def drop(self, name: str) -> None:
        """Learn that a pod is listed no more."""
        with self._changed:
            self._pods.pop(name, None)

    def wait(self, timeout_s: float) -> bool:
        """Wait until a pod begins or ends, at most so long; say whether one has since the last call."""
        with self._changed:
            self._used_at = self._now()
            is_synced = self._is_synced
        if not is_synced:
            self.list()
        with self._changed:
            has_news = self._changed.wait_for(lambda: self._has_news, timeout_s)
            self._has_news = False
        return has_news

    def _list(self) -> None:
        listed = self._gateway.list(self._path, labelSelector=self._selector)
        with self._changed:
            known, self._pods = self._pods, {pod["metadata"]["name"]: pod for pod in listed.items}
            self._version = listed.version
            if {_state(pod) for pod in known.values()} != {_state(pod) for pod in self._pods.values()}:
                self._tell()

    def _watch_in_background(self) -> None:
        with self._changed:
            if self._is_watched:
                return
            self._is_watched = self._is_synced = True
        threading.Thread(target=self._watch_while_used, name=f"watch {self._path}", daemon=True).start()

    def _watch_while_used(self) -> None:
        try:
            while self._now() - self._used_at < _IDLE_S:
                try:
                    self._watch()
                except Expired:
                    pass
                except (ResourceUnreachable, Refusal) as error:
                    log.warning("watch.interrupted", path=self._path, error=error.message)
                    self._set_synced(is_synced=False)
                    time.sleep(_PAUSE_S)
                self._relist()
        finally:
            with self._changed:
                self._is_watched = self._is_synced = False

    def _relist(self) -> None:
        try:
            self._list()
        except (ResourceUnreachable, Refusal):
            self._set_synced(is_synced=False)
            time.sleep(_PAUSE_S)
        else:
            self._set_synced(is_synced=True)

    def _watch(self) -> None:
        for kind, pod in self._gateway.watch(self._path, self._version, labelSelector=self._selector):
            with self._changed:
                self._version = pod["metadata"]["resourceVersion"]
                if kind == "DELETED":
                    self._pods.pop(pod["metadata"]["name"], None)
                    self._tell()
                elif kind != "BOOKMARK":
                    self._put(pod)

    def _put(self, pod: Json) -> None:
        name = pod["metadata"]["name"]
        known = self._pods.get(name)
        if (
            known is not None
            and _version(known) >= _version(pod)
            and known["metadata"]["uid"] == pod["metadata"]["uid"]
        ):
            return
        self._pods[name] = pod
        if known is None or _state(known) != _state(pod):
            self._tell()

    def _tell(self) -> None:
        self._has_news = True
        self._changed.notify_all()

    def _set_synced(self, *, is_synced: bool) -> None:
        with self._changed:
            self._is_synced = is_synced


def _state(pod: Json) -> tuple[str, str]:
    return pod["metadata"]["uid"], states.report_of(pod).state


def _version(pod: Json) -> int:
    return int(pod["metadata"]["resourceVersion"])
