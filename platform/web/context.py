"""What every page's template finds: who is signed in, the rail, the projects to switch between."""

from django.http import HttpRequest

from accounts.actor import Actor
from core.leading import find_standstill
from web import navigation, project_choice


def frame(request: HttpRequest) -> dict[str, object]:
    """Return the shell's values. A part of a page, which htmx asked for, has no shell and needs none."""
    actor: Actor | None = getattr(request, "actor", None)
    if actor is None or getattr(request, "htmx", False):
        return {}
    entries = navigation.entries()
    current = navigation.find_current(request.path)
    return {
        "frame": {
            "actor": actor,
            "entries": [
                {
                    "entry": entry,
                    "is_current": entry is current,
                    "count": entry.count(actor) if entry.count else "",
                    "starts_group": position > 0 and entry.group != entries[position - 1].group,
                }
                for position, entry in enumerate(entries)
            ],
            "section_url": project_choice.list_url(request.path),
            "activity": navigation.activity(actor),
            "standstill": find_standstill(),
            "project": project_choice.chosen_project(request),
            "projects": project_choice.find_projects(actor),
        }
    }
