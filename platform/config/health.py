"""Whether this process lives, whether it can serve, and its numbers."""

from django.conf import settings
from django.db import Error as DatabaseError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from accounts.api.auth import authenticate
from accounts.permissions import require_site_admin
from accounts.web.requests import PageRequest
from config import dependencies
from core import outages
from core.errors import PlatformError
from core.leases import has_leader
from web.problems import problem_of

_TIMEOUT_S = 3.0
_BROKER, _STORE = "broker", "store "


def healthz(_request: HttpRequest) -> HttpResponse:
    """Answer that the process lives. Asks nothing of other systems."""
    return JsonResponse({"status": "ok"})


def readyz(_request: HttpRequest) -> HttpResponse:
    """Answer 200 when pages and API can be served, else 503 with what is missing.

    Redis and the stores are told and do not count: all web processes share them, so taking these out of service would
    only make pages and reads fail that go on without. Who may ask is everybody: why they are away is told to admins,
    and why the database is away to the log.
    """
    checks = {"database": "ok", "migrations": "ok", "leader": "ok", "storage": _check_storage()}
    try:
        if outages.has_pending_migrations():
            checks["migrations"] = "some are not applied: run `python manage.py setup`"
            checks["leader"] = "not asked: migrations are pending"
        else:
            if not has_leader():
                checks["leader"] = "no controller is running: background work waits"
            checks |= _tell_shared()
    except DatabaseError as error:
        outages.tell("database.unavailable", error)
        checks["database"] = "does not answer"
    is_ready = checks["database"] == checks["migrations"] == checks["storage"] == "ok"
    return JsonResponse(
        {"status": "ok" if is_ready else "unavailable", "checks": checks}, status=200 if is_ready else 503
    )


def health_page(request: PageRequest) -> HttpResponse:
    """Show site admins what the installation depends on, and what is wrong with it."""
    require_site_admin(request.actor, "look at the health of the installation")
    faults = dependencies.find_faults(wait_s=_TIMEOUT_S)
    stores = {name.removeprefix(_STORE): fault for name, fault in faults.items() if name.startswith(_STORE)}
    context = {
        "has_leader": has_leader(),
        "full": storage_fault if (storage_fault := _check_storage()) != "ok" else "",
        "has_broker": _BROKER in faults,
        "broker_fault": faults.get(_BROKER),
        "stores": stores,
    }
    return render(request, "config/health.html", context)


def _tell_shared() -> dict[str, str]:
    """Say whether Redis and all stores answer, without naming a store."""
    checks: dict[str, str] = {}
    for name, fault in dependencies.find_faults().items():
        kind = _BROKER if name == _BROKER else _STORE.strip()
        if fault:
            checks[kind] = "does not answer"
        else:
            checks.setdefault(kind, "not asked yet" if fault is None else "ok")
    return checks


def _check_storage() -> str:
    """Say whether the disk of the home folder is full. A web process of the full installation may have no home."""
    try:
        outages.probe_disk(settings.NEARLINE.home)
    except OSError as error:
        if (full := outages.find_full(error)) is not None:
            return full.message
    return "ok"


def metrics(request: HttpRequest) -> HttpResponse:
    """Answer with counters and timers in the Prometheus format, to this machine itself or who is signed in."""
    try:
        if not _is_from_this_machine(request):
            authenticate(request)
    except PlatformError as error:
        return problem_of(error)
    return HttpResponse(generate_latest(), content_type=CONTENT_TYPE_LATEST)


def _is_from_this_machine(request: HttpRequest) -> bool:
    """Whether no proxy stands between; one that the settings do not name shows itself by its header."""
    is_forwarded = "X-Forwarded-For" in request.headers or "Forwarded" in request.headers
    return request.META.get("REMOTE_ADDR") in {"127.0.0.1", "::1"} and not is_forwarded
