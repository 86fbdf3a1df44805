"""A list that is asked for by the name of a project, a pool or a site refuses a name that there is not."""

from urllib.parse import urlencode

import pytest

from config.api import api
from tests.factories.api import call

_CODES = {
    "project": "accounts.project_not_found",
    "pool": "scheduler.pool_not_found",
    "site": "datasets.cache_site_not_found",
}


def list_filters() -> list[tuple[str, str, dict[str, str]]]:
    """Return the lists that take such a name: path, the filter, and what else they must be given."""
    paths = api.get_openapi_schema()["paths"]
    return [
        (path.removeprefix("/api/v1"), each["name"], {other["name"]: "x" for other in given if other.get("required")})
        for path, operations in sorted(paths.items())
        if (given := operations.get("get", {}).get("parameters", []))
        for each in given
        if each["in"] == "query" and each["name"] in _CODES
    ]


@pytest.mark.parametrize(("path", "name", "others"), list_filters())
def test_a_list_of_what_there_is_not_is_refused(member, path, name, others):
    answer = call(member, "GET", f"{path}?{urlencode(others | {name: 'nope'})}")

    assert (answer.status, answer.body.get("code")) == (404, _CODES[name])


def test_a_project_of_others_is_told_like_one_that_there_is_not(member, project, make_actor):
    stranger = make_actor(None)
    paths = [path for path, name, others in list_filters() if name == "project" and not others]

    theirs = [call(stranger, "GET", f"{path}?project={project.name}") for path in paths]
    none = [call(stranger, "GET", f"{path}?project=nope") for path in paths]

    assert [(each.status, each.body["title"].replace(project.name, "nope")) for each in theirs] == [
        (404, each.body["title"]) for each in none
    ]
