"""What every page's template finds: who is signed in, the rail, the projects to switch between."""

from django.http import HttpRequest

from accounts.actor import Actor
from accounts.selectors import list_projects
from core.leading import find_standstill
from web import navigation, project_choice

MAX_PROJECTS = 200


def frame(request: HttpRequest) -> dict[str, object]:
    """Return the shell's values. A part of a page, which htmx asked for, has no shell and needs none."""
    actor: Actor | None = getattr(request, "actor", None)
    if actor is None or getattr(request, "htmx", False):
        return {}
    entries = navigation.entries()
    current = next((entry for entry in entries if entry.is_current(request.path)), None)
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
            "section_url": current.url if current and current.lists_by_project else "/",
            "activity": navigation.activity(actor),
            "standstill": find_standstill(),
            "project": project_choice.chosen_project(request),
            "projects": [project.name for project in list_projects(actor=actor)[:MAX_PROJECTS]],
        }
    }
