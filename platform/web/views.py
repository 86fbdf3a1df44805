"""The pages that belong to the shell itself."""

from django.http import HttpResponse
from django.shortcuts import render

from accounts.web.requests import PageRequest, text
from core.leases import find_standstill
from web import navigation, search


def search_page(request: PageRequest) -> HttpResponse:
    """Show what the search box found, by kind; htmx asks for the short list below the box while somebody types."""
    query = text(request, "q")
    groups = search.search(request.actor, query) if query else []
    template = "web/parts/found.html" if request.htmx else "web/search.html"
    return render(request, template, {"search_text": query or "", "groups": groups})


def projects_page(request: PageRequest) -> HttpResponse:
    """List the projects that have the text in their names; htmx asks for those in the switcher while somebody types."""
    part = text(request, "q") or ""
    context = {
        "part": part,
        "projects": navigation.find_projects(request.actor, part, text(request, "cursor")),
        "chosen": navigation.chosen_project(request),
        "section_url": navigation.list_url(text(request, "from") or "/"),
    }
    return render(request, "web/parts/project_links.html" if request.htmx else "web/projects.html", context)


def activity(request: PageRequest) -> HttpResponse:
    """Answer with the top bar's numbers, which every page asks for now and then, and whether they are of now."""
    context = {"activity": navigation.activity(request.actor), "standstill": find_standstill(), "is_news": True}
    return render(request, "web/parts/activity.html", context)
