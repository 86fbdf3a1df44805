"""Whether this process lives, whether it can serve, and its numbers."""

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from core import clock
from core.models import Lease

_LEADER_LATE_S = 30


def healthz(_request: HttpRequest) -> HttpResponse:
    """Answer that the process lives. Asks nothing of other systems."""
    return JsonResponse({"status": "ok"})


def readyz(_request: HttpRequest) -> HttpResponse:
    """Answer 200 when pages and API can be served, else 503 with what is missing."""
    checks = {"database": "ok", "migrations": "ok", "leader": "ok"}
    try:
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            checks["migrations"] = "some are not applied: run `python manage.py setup`"
        lease = Lease.objects.filter(pk="leader").first()
        if lease is None or (clock.now() - lease.expires_at).total_seconds() > _LEADER_LATE_S:
            checks["leader"] = "no controller is running: background work waits"
    except DatabaseError as error:
        checks["database"] = str(error).strip()
    is_ready = checks["database"] == checks["migrations"] == "ok"
    return JsonResponse(
        {"status": "ok" if is_ready else "unavailable", "checks": checks}, status=200 if is_ready else 503
    )


def metrics(request: HttpRequest) -> HttpResponse:
    """Answer with counters and timers in the Prometheus format, to the loopback interface or a bearer of a token."""
    if settings.NEARLINE.is_embedded or request.META.get("REMOTE_ADDR") in {"127.0.0.1", "::1"}:
        return HttpResponse(generate_latest(), content_type=CONTENT_TYPE_LATEST)
    return HttpResponse(status=403)
