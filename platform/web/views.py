"""The pages that belong to the shell itself."""

from django.http import HttpResponse
from django.shortcuts import render

from accounts.web.requests import PageRequest, text
from web import navigation, search


def search_page(request: PageRequest) -> HttpResponse:
    """Show what the search box found, by kind."""
    wanted = text(request, "q")
    groups = search.search(request.actor, wanted) if wanted else []
    return render(request, "web/search.html", {"search_text": wanted or "", "groups": groups})


def activity(request: PageRequest) -> HttpResponse:
    """Answer with the top bar's numbers, which every page asks for now and then."""
    return render(request, "web/parts/activity.html", {"activity": navigation.activity(request.actor)})
