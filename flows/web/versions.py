"""The versions of a flow, and what changed between two of them."""

from django.http import HttpResponse
from django.shortcuts import render

from accounts.permissions import Level
from accounts.web.requests import PageRequest, text
from core.pagination import paginate
from flows.engine.spec_diff import compare
from flows.selectors import flows as selectors
from flows.selectors.specs import spec_of
from flows.web.diff_view import compare_texts, draw_difference

_ROWS = 50


def versions_page(request: PageRequest, project: str, name: str) -> HttpResponse:
    """List the versions; with `?base=` and `?version=` show what changed: as a picture, in words, as text."""
    flow = selectors.get_flow(actor=request.actor, project=project, name=name)
    versions = selectors.list_versions(actor=request.actor, flow=flow)
    page = paginate(versions, cursor=text(request, "cursor"), limit=_ROWS)
    after = selectors.get_version(actor=request.actor, flow=flow, version=text(request, "version"))
    base = text(request, "base") or str(max(1, after.number - 1))
    before = selectors.get_version(actor=request.actor, flow=flow, version=base)
    context: dict[str, object] = {
        "flow": flow,
        "project_name": project,
        "versions": page.items,
        "next_cursor": page.next_cursor,
        "before": before,
        "after": after,
        "may_write": (request.actor.level_in(flow.project_id) or 0) >= Level.WRITE,
    }
    if before.pk != after.pk:
        old, new = spec_of(before.pk), spec_of(after.pk)
        difference = compare(old, new)
        context |= {
            "difference": difference,
            "graph": draw_difference(old, new, difference),
            "lines": compare_texts(before.text, after.text),
        }
    return render(request, "flows/versions.html", context)
