"""Observes a resource as soon as its driver has news, so that a job's end is known within milliseconds."""

import threading
import time
from collections.abc import Collection

import structlog
from django.db import Error as DatabaseError

from compute.adapters import drivers
from compute.engine.ports import ComputeDriver, ReportState
from compute.errors import ResourceUnreachable
from compute.models import Resource
from compute.workers import observe
from core import clock, connections, hosts, tasks

log = structlog.get_logger(__name__)

_PATIENCE_S = 1.0
_PAUSE_S = 1.0
_ATTACHED_EVERY_S = 5.0
# That a job has begun can wait a moment: it may have ended by then.
_BEGUN_AFTER_S = 0.1
# So long news gathers for each job that runs, up to the most: a look costs about the same for one job as for fifty.
_GATHER_S, _GATHER_MOST_S = 0.003, 0.03


def watch_forever(stop: threading.Event) -> None:
    """Watch the attached resources of this host, each in a thread, until `stop` is set; then return within a second."""
    watchers: dict[str, threading.Thread] = {}
    attached: set[str] = set()
    while not stop.is_set():
        try:
            _start_missing(watchers, attached, stop)
        except DatabaseError:
            log.exception("watch.database_away")
        stop.wait(_ATTACHED_EVERY_S)
    connections.close_all()
    for thread in watchers.values():
        thread.join(_PATIENCE_S * 2)


def _start_missing(watchers: dict[str, threading.Thread], attached: set[str], stop: threading.Event) -> None:
    """Update `attached`, and start a thread for each attached resource that has none or whose own has ended.

    The threads read `attached` too, and end when their resource is not in it any more.
    """
    connections.keep_usable()
    ours = Resource.objects.filter(detached_at=None, host__in=hosts.here())
    present = set(ours.values_list("pk", flat=True))
    attached.intersection_update(present)
    attached.update(present)
    for resource_id in sorted(present):
        if resource_id not in watchers or not watchers[resource_id].is_alive():
            name = f"watch-{resource_id}"
            thread = threading.Thread(target=_watch, args=(resource_id, attached, stop), name=name, daemon=True)
            thread.start()
            watchers[resource_id] = thread


def _watch(resource_id: str, attached: Collection[str], stop: threading.Event) -> None:
    resource = Resource.objects.get(pk=resource_id)
    driver = drivers.driver_of(resource)
    while resource_id in attached and not stop.is_set():
        try:
            if _wait_for_news(driver):
                connections.keep_usable()
                # Whoever had waited for a job that has ended goes on in this thread, up to the start of the next job.
                with tasks.hand_over():
                    observe.observe_each([resource_id])
        except ResourceUnreachable:
            stop.wait(_PAUSE_S)  # the tick of `observe` notes it
        except Exception:  # what nobody anticipated is logged once, and watching goes on
            log.exception("watch.failed", resource=resource.name)
            stop.wait(_PAUSE_S)
    connections.close_all()


def _wait_for_news(driver: ComputeDriver) -> bool:
    """Wait until a job has ended, or one has begun a moment ago; say whether that may be so."""
    if not driver.wait_for_news(_PATIENCE_S):
        return False
    until = clock.monotonic() + _BEGUN_AFTER_S
    reports = driver.list_jobs()
    while all(report.state is ReportState.RUNNING for report in reports):
        rest_s = until - clock.monotonic()
        if rest_s <= 0 or not driver.wait_for_news(rest_s):
            return True
        reports = driver.list_jobs()
    running = sum(report.state is ReportState.RUNNING for report in reports)
    time.sleep(min(running * _GATHER_S, _GATHER_MOST_S))
    return True
