"""Caching from the pages: the dialog, its forecast, asking for a copy, clearing and pinning one."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from accounts.permissions import Level
from accounts.web.requests import PageRequest, go_to, text
from datasets.selectors import cache_plans, caches
from datasets.services import caches as services
from datasets.web.commits import commit_of


def cache_dialog(request: PageRequest, project: str, name: str, commit_id: str) -> HttpResponse:
    """Show what caching a commit would mean: which site, how much space. Without script it is a page of its own."""
    commit = commit_of(request, project, name, commit_id)
    context = {
        "commit": commit,
        "dataset": commit.dataset,
        "project_name": project,
        "sites": [
            {"site": site, "capacity": caches.measure_capacity(site)} for site in caches.list_sites(actor=request.actor)
        ],
        "may_write": (request.actor.level_in(commit.dataset.project_id) or 0) >= Level.WRITE,
    }
    return render(request, "datasets/cache_dialog.html" if request.htmx else "datasets/cache_page.html", context)


def cache_forecast(request: PageRequest, project: str, name: str, commit_id: str) -> HttpResponse:
    """Say how many bytes really move to a site, and how long that takes at the last known or an assumed rate."""
    commit = commit_of(request, project, name, commit_id)
    site = caches.get_site(actor=request.actor, name=text(request, "site") or "")
    present = caches.get_cached(commit.id, site.id)
    plan = None if present else cache_plans.plan_hydration(commit, site)
    rate = cache_plans.expect_rates([site])[site.pk]
    context = {
        "site": site,
        "present": present,
        "plan": plan,
        "capacity": caches.measure_capacity(site),
        "eta_s": plan.write_bytes / rate.bytes_s if plan else None,
        "rate": rate,
        "commit": commit,
    }
    return render(request, "datasets/cache_forecast.html", context)


@require_POST
def cache(request: PageRequest, project: str, name: str, commit_id: str) -> HttpResponse:
    """Ask for a cached copy and go where its progress shows."""
    commit = commit_of(request, project, name, commit_id)
    site = caches.get_site(actor=request.actor, name=request.POST.get("site", ""))
    services.request_cache(actor=request.actor, commit=commit, site=site)
    return go_to(request, reverse("datasets:commits", args=[project, name]))


def clear(request: PageRequest, cached_commit_id: str) -> HttpResponse:
    """Ask whether a cached copy shall leave, and say what that means; a POST lets it leave now."""
    if request.method != "POST":
        return _ask_to_clear(request, cached_commit_id)
    copy = services.uncache(actor=request.actor, cached_commit_id=cached_commit_id)
    messages.success(request, f"{caches.label_of(copy)} leaves {copy.site.name}.")
    return go_to(request, _back(request))


@require_POST
def pin(request: PageRequest, cached_commit_id: str) -> HttpResponse:
    """Pin a cached copy, or unpin it."""
    is_pinned = request.POST.get("pinned") == "1"
    copy = services.set_pinned(actor=request.actor, cached_commit_id=cached_commit_id, is_pinned=is_pinned)
    words = "stays until it is unpinned" if is_pinned else "may leave again"
    messages.success(request, f"{caches.label_of(copy)} {words}.")
    return go_to(request, _back(request))


@require_POST
def scrub(request: PageRequest, cached_commit_id: str) -> HttpResponse:
    """Have every file of a copy read and compared."""
    copy = services.scrub(actor=request.actor, cached_commit_id=cached_commit_id)
    messages.success(request, f"Every file of {caches.label_of(copy)} is being read and compared.")
    return go_to(request, _back(request))


def _ask_to_clear(request: PageRequest, cached_commit_id: str) -> HttpResponse:
    copy = caches.get_cached_commit(actor=request.actor, cached_commit_id=cached_commit_id)
    context = {
        "copy": copy,
        "label": caches.label_of(copy),
        "users": sorted(hold.why or hold.holder for hold in copy.holds.all()),
        "may_write": (request.actor.level_in(copy.dataset.project_id) or 0) >= Level.WRITE,
        "back": text(request, "back") or "",
    }
    return render(request, "datasets/clear_dialog.html" if request.htmx else "datasets/clear_page.html", context)


def _back(request: HttpRequest) -> str:
    target = request.POST.get("back", "")
    is_ours = url_has_allowed_host_and_scheme(target, allowed_hosts=None)
    return target if target and is_ours else reverse("datasets:caches")
