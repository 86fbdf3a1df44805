"""Who did what: to site admins everything, to the admins of a project what happened there."""

from django.http import HttpResponse
from django.shortcuts import render

from accounts import permissions, selectors
from accounts.web.requests import PageRequest, text
from core.pagination import paginate

_ROWS = 50
_AREAS = ("accounts", "compute", "datasets", "experiments", "flows", "scheduler")


def audit_page(request: PageRequest) -> HttpResponse:
    """List entries, newest first, by project, area and person."""
    actor = request.actor
    name, area, person = text(request, "project"), text(request, "area") or "", text(request, "person") or ""
    project = selectors.get_project(actor=actor, name=name) if name else None
    entries = selectors.list_audit_entries(actor=actor, project=project, area=area, person=person)
    visible = list(selectors.list_projects(actor=actor))
    least = permissions.VIEW_AUDIT_LOG.level
    names = {each.pk: each.name for each in visible}
    page = paginate(entries, cursor=text(request, "cursor"), limit=_ROWS)
    context = {
        "rows": [(entry, names.get(entry.project_id, "")) for entry in page.items],
        "next_cursor": page.next_cursor,
        "areas": _AREAS,
        "area": area,
        "person": person,
        "project": name,
        "projects": [each.name for each in visible if (actor.level_in(each.pk) or 0) >= least],
    }
    return render(request, "accounts/audit.html", context)
