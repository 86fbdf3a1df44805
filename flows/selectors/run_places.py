"""Where the steps of a run may go: to the templates that they name, or to what was found for a size of their own.

For the platform itself.
"""

from collections.abc import Mapping
from typing import Any

from compute.selectors import made_templates, templates
from core import tasks
from flows.models import Run
from flows.selectors import specs


def find_templates(run: Run) -> dict[str, Any]:
    """Return the templates of a run's steps by what they are called there; those that are gone are left out."""
    records = run.places.get("known", {})
    names = specs.graph_of_run(run).templates - records.keys()
    known = tasks.recently(("templates", *names), lambda: templates.find_templates(names)) if names else {}
    if len(known) < len(names):  # one may have been made since
        known = templates.find_templates(names)
    if not records:
        return known
    return {**known, **tasks.recently(("places", run.pk, str(records)), lambda: made_templates.recall(records))}


def pools_of(run: Run, key: str) -> tuple[str, ...]:
    """Return the pools in which places were found for a step, the best first; none where it named its place."""
    place = run.places.get("steps", {}).get(key)
    return tuple(place["pools"]) if place else ()


def names_by_place(run: Run, key: str) -> Mapping[tuple[str, str], str]:
    """Return what the places that were found for a step are called, by resource and pool."""
    names = run.places["steps"][key]["choices"] if run.places else ()
    records = {name: run.places["known"][name] for name in names}
    return {(place["resource_name"], place["pool"]): name for name, place in records.items()}
