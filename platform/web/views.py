"""The pages that belong to the shell itself."""

from django.http import HttpResponse
from django.shortcuts import render

from accounts.web.requests import PageRequest, text
from web import search


def search_page(request: PageRequest) -> HttpResponse:
    """Show what the search box found, by kind."""
    wanted = text(request, "q")
    groups = search.search(request.actor, wanted) if wanted else []
    return render(request, "web/search.html", {"search_text": wanted or "", "groups": groups})
