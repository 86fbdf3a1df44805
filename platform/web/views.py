"""The pages that belong to the shell itself."""

from django.http import HttpResponse
from django.shortcuts import render

from accounts.web.requests import PageRequest, text
from core.leading import find_standstill
from web import navigation, search


def search_page(request: PageRequest) -> HttpResponse:
    """Show what the search box found, by kind; htmx asks for the short list below the box while somebody types."""
    query = text(request, "q")
    groups = search.search(request.actor, query) if query else []
    template = "web/parts/found.html" if request.htmx else "web/search.html"
    return render(request, template, {"search_text": query or "", "groups": groups})


def activity(request: PageRequest) -> HttpResponse:
    """Answer with the top bar's numbers, which every page asks for now and then, and whether they are of now."""
    context = {"activity": navigation.activity(request.actor), "standstill": find_standstill(), "is_news": True}
    return render(request, "web/parts/activity.html", context)
