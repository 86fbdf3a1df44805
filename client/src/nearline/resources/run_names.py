"""Which run a name means: its id, or what pages and commands show of it, `flow #1` or `project/flow #1`."""

import re

from nearline._http import Http, quoted
from nearline.errors import InvalidRequest, NotFound

SHOWN = r"(?:[^/#\s]+/)?[^/#\s]+ ?#[0-9]{1,9}"
"""What a run is called where it is shown, as a regular expression."""

_PARTS = re.compile(r"(?:(?P<project>[^/#\s]+)/)?(?P<flow>[^/#\s]+) ?#(?P<number>[0-9]{1,9})")
_MOST_NAMED = 10


def find_run_id(http: Http, name: str) -> str:
    """Return the id of the run that a name means.

    Raises NotFound, and InvalidRequest where flows of several projects are called so.
    """
    match = _PARTS.fullmatch(name.strip())
    if match is None:
        return name
    number = int(match["number"])
    listed = http.list_items(
        "/runs", project=match["project"], flow=match["flow"], number=number, limit=_MOST_NAMED + 1
    )
    runs = [run for run in listed if run["number"] == number]
    if not runs:
        raise NotFound(
            f"There is no run '{name}', or you are not a member of its project.",
            code="flows.run_not_found",
            hint="`nearline run list` shows runs.",
        )
    if len(runs) > 1:
        names = [f"'{run['project']}/{run['flow']} #{number}'" for run in runs[:_MOST_NAMED]]
        more = " and more" if len(runs) > _MOST_NAMED else ""
        raise InvalidRequest(
            f"Flows of several projects have a run '{name}'.", hint=f"Name one: {', '.join(names)}{more}."
        )
    return str(runs[0]["id"])


def run_path(http: Http, name: str) -> str:
    """Return the path of a run in the API. Raises what `find_run_id` raises."""
    return "/runs" + quoted(find_run_id(http, name))
