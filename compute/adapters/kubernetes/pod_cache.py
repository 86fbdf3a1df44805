"""The pods of a cluster as this process knows them: listed once, then watched, and listed anew now and then.

Of each only the fields are kept that are read (`fields.py`).

The watch runs in a thread that ends when nobody has asked for a while, or when it breaks off: then the next reader
lists and has another one watch. What was known before the cluster was away is listed anew as well.
"""

import threading
import time
from collections.abc import Callable, Collection

import structlog

from compute.adapters.kubernetes import fields, gpu_shares, states
from core.kubernetes.errors import ClusterUnreachable
from core.kubernetes.gateway import Expired, Gateway, Json, Refusal

log = structlog.get_logger(__name__)

_IDLE_S = 120.0
# Should a watch ever miss something, a list finds it.
_LIST_EVERY_S = 600.0


class PodCache:
    """The pods under one path that fit a selector, by their names."""

    def __init__(self, gateway: Gateway, path: str, selector: str, now: Callable[[], float] = time.monotonic) -> None:
        self._gateway, self._path, self._selector = gateway, path, selector
        self._now = now
        self._changed = threading.Condition()
        self._listing = threading.Lock()
        self._pods: dict[str, Json] = {}
        self._version = ""
        # The number of the present watch: the events of an earlier one, which may hang, count no more.
        self._watch_number = 0
        self._is_synced = False
        self._outages = 0
        self._has_news = False
        self._used_at = now()

    def list(self) -> Collection[Json]:
        """Return all pods. Raises ClusterUnreachable and Refusal."""
        self._sync()
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
        self._sync()
        with self._changed:
            has_news = self._changed.wait_for(lambda: self._has_news, timeout_s)
            self._has_news = False
        return has_news

    def _sync(self) -> None:
        """Have the pods listed and watched."""
        self._gateway.check()
        with self._listing:
            with self._changed:
                self._used_at = self._now()
                if self._is_synced and self._outages == self._gateway.outages:
                    return
                self._watch_number += 1
                number = self._watch_number
            outages = self._gateway.outages
            self._list(number)
            with self._changed:
                self._is_synced, self._outages = True, outages
            threading.Thread(
                target=self._watch_while_used, args=(number,), name=f"watch {self._path}", daemon=True
            ).start()

    def _list(self, number: int) -> None:
        listed = self._gateway.list(self._path, keep=_trim, labelSelector=self._selector)
        with self._changed:
            if number != self._watch_number:
                return
            known, self._pods = self._pods, {pod["metadata"]["name"]: pod for pod in listed.items}
            self._version = listed.version
            if {_state(pod) for pod in known.values()} != {_state(pod) for pod in self._pods.values()}:
                self._tell()

    def _watch_while_used(self, number: int) -> None:
        list_at = self._now() + _LIST_EVERY_S
        try:
            while number == self._watch_number and self._now() - self._used_at < _IDLE_S:
                try:
                    self._watch(number)
                except Expired:
                    list_at = self._now()
                if self._now() >= list_at:
                    self._list(number)
                    list_at = self._now() + _LIST_EVERY_S
        except (ClusterUnreachable, Refusal) as error:
            log.warning("watch.interrupted", path=self._path, error=error.message)
        finally:
            with self._changed:
                self._is_synced = self._is_synced and number != self._watch_number

    def _watch(self, number: int) -> None:
        for kind, pod in self._gateway.watch(self._path, self._version, labelSelector=self._selector):
            with self._changed:
                if number != self._watch_number:
                    return
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
        self._pods[name] = pod = _trim(pod)
        if known is None or _state(known) != _state(pod):
            self._tell()

    def _tell(self) -> None:
        self._has_news = True
        self._changed.notify_all()


def _trim(pod: Json) -> Json:
    return fields.trim(pod, fields.OURS)


def _state(pod: Json) -> tuple[str, str, str]:
    return pod["metadata"]["uid"], states.report_of(pod).state, gpu_shares.told_device(pod)


def _version(pod: Json) -> int:
    return int(pod["metadata"]["resourceVersion"])
