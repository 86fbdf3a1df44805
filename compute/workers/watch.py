"""Observes a resource as soon as its driver has news, so that a job's end is known within milliseconds.

Each attached resource of this host has a thread of its own. Which ones are attached is read when the leader's question
about work finds that it has changed (`find_changed`), so that watching asks the database nothing while nothing happens.
"""

import threading
import time

import structlog
from django.db import Error as DatabaseError
from django.db.models import QuerySet

from compute.adapters import drivers
from compute.engine.ports import ComputeDriver, ReportState
from compute.errors import ResourceUnreachable
from compute.models import Resource
from compute.workers import observe
from core import clock, connections, hosts, tasks
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

_watchers: dict[str, threading.Thread] = {}
"""The threads of this process by the resource that they watch. One that is not among them any more ends."""

_is_stale = threading.Event()
"""Set while `_watchers` may not fit what is attached."""


def find_changed() -> list[QuerySet[Resource]]:
    """Return the resources of this host that nobody watches here, and those watched that are not attached any more."""
    watched = sorted(_watchers)
    ours = _find_attached()
    return [ours.exclude(pk__in=watched), Resource.objects.filter(pk__in=watched).exclude(pk__in=ours.values("pk"))]


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
    for thread in list(_watchers.values()):
        thread.join(_TIMEOUT_S * 2)


def _find_attached() -> QuerySet[Resource]:
    return Resource.objects.filter(detached_at=None, host__in=hosts.here())


def _start_missing(stop: threading.Event) -> None:
    """Start a thread for each attached resource that has none; have those of others end."""
    connections.keep_usable()
    present = set(_find_attached().values_list("pk", flat=True))
    for resource_id in _watchers.keys() - present:
        _watchers.pop(resource_id, None)
    for resource_id in sorted(present - _watchers.keys()):
        name = f"watch-{resource_id}"
        thread = threading.Thread(target=_watch, args=(resource_id, stop), name=name, daemon=True)
        _watchers[resource_id] = thread
        thread.start()
    tasks.ask_anew()


def _watch(resource_id: str, stop: threading.Event) -> None:
    """Watch a resource until it is detached or `stop` is set. Another thread follows one that ends with an error."""
    try:
        _watch_on(resource_id, stop)
    finally:
        if _watchers.get(resource_id) is threading.current_thread():
            del _watchers[resource_id]
        tasks.ask_anew()
        connections.close_all()


def _watch_on(resource_id: str, stop: threading.Event) -> None:
    resource = Resource.objects.get(pk=resource_id)
    driver = drivers.driver_of(resource)
    while _watchers.get(resource_id) is threading.current_thread() and not stop.is_set():
        try:
            if _wait_for_news(driver):
                connections.keep_usable()
                # Whoever had waited for a job that has ended goes on in this thread, up to the start of the next job.
                with tasks.hand_over():
                    observe.observe_each([resource_id])
        except ResourceUnreachable:
            stop.wait(_PAUSE_S)  # the tick of `observe` notes it
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
