"""Observes a resource as soon as its driver has news, so that a job's end is known within milliseconds.

Each attached resource of this host has a thread of its own. Which ones are attached is read when the leader's question
about work finds that it has changed (`find_changed`), so that watching asks the database nothing while nothing happens.
"""

import threading
import time
from dataclasses import dataclass
from functools import reduce
from operator import or_

import structlog
from django.db import Error as DatabaseError
from django.db.models import BinaryField, Q, QuerySet
from django.db.models.functions import Substr

from compute.adapters import drivers
from compute.engine.ports import ComputeDriver, ReportState
from compute.errors import ResourceUnreachable
from compute.models import Resource
from compute.workers import observe
from core import clock, connections, hosts, tasks
from core.encryption import CredentialsUnreadable
from core.outages import log_failure

log = structlog.get_logger(__name__)

_TIMEOUT_S = 1.0
_PAUSE_S = 1.0
_STEP_S = 1.0
# That a job has begun can wait a moment: it may have ended by then.
_BEGUN_AFTER_S = 0.1
# So long news gathers for each job that runs, up to the most: a poll costs about the same for one job as for fifty.
_GATHER_S, _GATHER_MOST_S = 0.003, 0.03
# A poll of thousands takes about a tenth of a millisecond for each, which is to be a small part of the time.
_GATHER_OF_MANY_S = 0.0006

# Whatever is encrypted anew begins with other bytes.
_HEAD_BYTES = 64
_HEAD = Substr("credentials", 1, _HEAD_BYTES, output_field=BinaryField())


@dataclass(frozen=True, eq=False)
class _Watcher:
    """A thread that watches a resource, and how the credentials begin with which it does."""

    thread: threading.Thread
    head: bytes


_watchers: dict[str, _Watcher] = {}
"""Those of this process by the resource that they watch. One that is not among them any more ends."""

_is_stale = threading.Event()
"""Set while `_watchers` may not fit what is attached."""


def find_changed() -> list[QuerySet[Resource]]:
    """Return the resources of this host that nobody watches here, and those watched that are not attached any more.

    One whose credentials were replaced has to be watched with the new ones, and is among them.
    """
    heads = {resource_id: watcher.head for resource_id, watcher in sorted(_watchers.items())}
    ours = _find_attached()
    same = reduce(or_, (Q(pk=resource_id, head=head) for resource_id, head in heads.items()), Q())
    watched = Resource.objects.alias(head=_HEAD).filter(pk__in=list(heads))
    return [ours.exclude(pk__in=list(heads)), watched.exclude(Q(pk__in=ours.values("pk")) & same)]


def read_attached() -> None:
    """Have `watch_forever` read within a second which resources are attached."""
    _is_stale.set()


def watch_forever(stop: threading.Event) -> None:
    """Watch the attached resources of this host, each in a thread, until `stop` is set; then return within a second."""
    _is_stale.set()
    while not stop.is_set():
        if _is_stale.is_set():
            _is_stale.clear()
            try:
                _start_missing(stop)
            except DatabaseError as error:
                log_failure(log, "watch.database_away", error)
                _is_stale.set()
        stop.wait(_STEP_S)
    connections.close_all()
    for watcher in list(_watchers.values()):
        watcher.thread.join(_TIMEOUT_S * 2)


def _find_attached() -> QuerySet[Resource]:
    return Resource.objects.filter(detached_at=None, host__in=hosts.here())


def _start_missing(stop: threading.Event) -> None:
    """Start a thread for each attached resource that has none with its credentials; have the others end."""
    connections.keep_usable()
    present = {resource.pk: resource for resource in _find_attached()}
    heads = {resource_id: _head_of(resource) for resource_id, resource in present.items()}
    for resource_id, watcher in list(_watchers.items()):
        if heads.get(resource_id) != watcher.head:
            _watchers.pop(resource_id, None)
    for resource_id in sorted(present.keys() - _watchers.keys()):
        name = f"watch-{resource_id}"
        thread = threading.Thread(target=_watch, args=(present[resource_id], stop), name=name, daemon=True)
        _watchers[resource_id] = _Watcher(thread, heads[resource_id])
        thread.start()
    tasks.ask_anew()


def _head_of(resource: Resource) -> bytes:
    return bytes(resource.credentials)[:_HEAD_BYTES]


def _is_watching(resource_id: str) -> bool:
    watcher = _watchers.get(resource_id)
    return watcher is not None and watcher.thread is threading.current_thread()


def _watch(resource: Resource, stop: threading.Event) -> None:
    """Watch a resource until it is detached or `stop` is set. Another thread follows one that ends with an error."""
    try:
        _watch_on(resource, stop)
    finally:
        if _is_watching(resource.pk):
            del _watchers[resource.pk]
        tasks.ask_anew()
        connections.close_all()


def _watch_on(resource: Resource, stop: threading.Event) -> None:
    resource_id = resource.pk
    while _is_watching(resource_id) and not stop.is_set():
        try:
            if _wait_for_news(drivers.driver_of(resource)):
                connections.keep_usable()
                # Whoever had waited for a job that has ended goes on in this thread, up to the start of the next job.
                with tasks.hand_over():
                    observe.observe_each([resource_id])
        except (ResourceUnreachable, CredentialsUnreadable):
            stop.wait(_PAUSE_S)  # the ticks of `observe` and `probe` note it
        except Exception as error:  # noqa: BLE001 (what nobody anticipated is logged, and watching goes on)
            log_failure(log, "watch.failed", error, resource=resource.name)
            connections.keep_usable()  # a driver may ask the database itself, before all else
            stop.wait(_PAUSE_S)


def _wait_for_news(driver: ComputeDriver) -> bool:
    """Wait until a job has ended, or one has begun a moment ago; say whether that may be so."""
    if not driver.wait_for_news(_TIMEOUT_S):
        return False
    until = clock.monotonic() + _BEGUN_AFTER_S
    reports = driver.list_jobs()
    while all(report.state is ReportState.RUNNING for report in reports):
        rest_s = until - clock.monotonic()
        if rest_s <= 0 or not driver.wait_for_news(rest_s):
            return True
        reports = driver.list_jobs()
    running = sum(report.state is ReportState.RUNNING for report in reports)
    time.sleep(max(min(running * _GATHER_S, _GATHER_MOST_S), len(reports) * _GATHER_OF_MANY_S))
    return True
