"""Every route and every page, asked by every role: the answers are those of the table in `routes.py`.

A refusal also leaves the audit log as it was, and whatever is allowed to write leaves an entry in it.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from django.conf import settings
from django.http import HttpResponseBase
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from accounts.models import AuditEntry
from config.api import api
from tests.architecture import routes, world
from tests.architecture.world import ROLES, Asker, World
from tests.transactions import undone

API_ROOT = "/api/v1"


class Route(NamedTuple):
    """A line of the table."""

    method: str
    path: str
    expected: Mapping[str, str]

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


def read_table(table: str) -> list[Route]:
    head, *lines = [line.split() for line in table.strip().splitlines() if line.strip()]
    assert tuple(head) == ROLES
    return [Route(method, path, dict(zip(ROLES, answers, strict=True))) for method, path, *answers in lines]


API = read_table(routes.API)
PAGES = read_table(routes.PAGES)


def find_api_routes() -> set[tuple[str, str]]:
    return {
        (method, router.prefix.rstrip("/") + re.sub(r"\{(?:\w+:)(\w+)\}", r"{\1}", path))
        for router in api._get_bound_routers()
        for path, view in router.path_operations.items()
        for operation in view.operations
        for method in operation.methods
    }


def find_paths(patterns: list[URLPattern | URLResolver] | None = None, prefix: str = "/") -> Iterator[str]:
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        path = prefix + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(pattern.pattern))
        if isinstance(pattern, URLResolver):
            yield from find_paths(pattern.url_patterns, path)
        else:
            yield path


def test_every_route_of_the_api_is_in_the_table():
    from_ninja_itself = {("GET", "/openapi.json"), ("GET", "/docs"), ("GET", "/")}

    assert {(route.method, route.path) for route in API} == find_api_routes() | from_ninja_itself


def test_every_address_is_in_the_table():
    known = {route.path for route in PAGES} | {API_ROOT + route.path for route in API}

    assert known == set(find_paths())


def test_no_line_is_there_twice():
    names = [route.name for route in API] + [f"page {route.name}" for route in PAGES]

    assert sorted(set(names)) == sorted(names)


def test_the_api_answers_every_role_as_the_table_says(everything):
    surprises = list(find_surprises(everything, API, API_ROOT))

    assert not surprises, "\n".join(surprises)


def test_every_page_answers_every_role_as_the_table_says(everything):
    surprises = list(find_surprises(everything, PAGES, ""))

    assert not surprises, "\n".join(surprises)


def test_a_method_that_is_not_in_the_table_does_nothing(everything):
    """Even for a site admin: a page that only takes forms is not shown, and one that is shown takes no forms."""
    methods = {route.path: {other.method for other in PAGES if other.path == route.path} for route in PAGES}
    surprises = []
    for path, listed in methods.items():
        for method in {"GET", "POST"} - listed:
            route = Route(method, path, {})
            answer, entries = try_out(
                everything, route, "root", fill_in(route, everything.values, everything.askers["root"])
            )
            if entries or (method == "GET" and answer.status_code != 405):
                surprises.append(f"{route.name}: {answer.status_code}, {entries} entries in the audit log")

    assert surprises == []


def test_no_form_is_taken_from_another_site(everything):
    everything.client = Client(enforce_csrf_checks=True)
    surprises = []
    for route in PAGES:
        if route.method == "POST":
            url = fill_in(route, everything.values, everything.askers["root"])
            answer, entries = try_out(everything, route, "root", url)
            if answer.status_code != 403 or entries:
                surprises.append(f"{route.name}: {answer.status_code}, {entries} entries in the audit log")

    assert surprises == []


def test_no_write_of_the_api_is_taken_from_another_site_in_the_name_of_a_session(everything):
    client = Client(enforce_csrf_checks=True)
    root, surprises = everything.askers["root"], []
    for route in API:
        if route.method != "GET" and not route.path.startswith(
            ("/attempt/", "/copy/", "/import-job/")
        ):  # no session opens these
            client.cookies[settings.SESSION_COOKIE_NAME] = root.session
            url = API_ROOT + fill_in(route, everything.values, root)
            answer = client.generic(route.method, url, b"{}", content_type="application/json")
            if answer.status_code != 403 or "not made from one of our pages" not in answer.content.decode():
                surprises.append(f"{route.name}: {answer.status_code}")

    assert surprises == []


def find_surprises(everything: World, table: list[Route], prefix: str) -> Iterator[str]:
    queries, bodies = routes.queries(everything.values), routes.bodies(everything.values)
    for route in table:
        for role in ROLES:
            asker = everything.askers[role]
            url = f"{prefix}{fill_in(route, everything.values, asker)}?{queries.get(route.name, '')}"
            answer, entries = try_out(everything, route, role, url, bodies.get(route.name))
            told = tell(answer)
            if told != route.expected[role]:
                yield f"{route.name} by {role}: {told}, not {route.expected[role]} {excerpt(answer)}"
            is_write = route.method not in {"GET", "HEAD"} and route.name not in routes.WRITE_NOTHING
            if is_write and (entries > 0) != (told in {"200", "201", "202", "204", "302"}):
                yield f"{route.name} by {role}: {told}, with {entries} entries in the audit log"


def try_out(everything: World, route: Route, role: str, url: str, body: object = None) -> tuple[HttpResponseBase, int]:
    """Return the answer, and how many entries it left in the audit log; then undo what was done."""
    with undone():
        before = AuditEntry.objects.count()
        answer = ask(everything.client, everything.askers[role], route, url, body)
        entries = AuditEntry.objects.count() - before
    return answer, entries


def fill_in(route: Route, values: Mapping[str, str], asker: Asker) -> str:
    starts = (names for start, names in routes.PARAMETERS if route.path.startswith(start) or route.name == start)
    names = next(starts, {})

    def value_of(match: re.Match[str]) -> str:
        parameter = match[1]
        if parameter == "token_id":
            return asker.token_id or "none"
        return routes.WORDS.get(parameter) or values[names.get(parameter, parameter)]

    return re.sub(r"\{(\w+)\}", value_of, route.path)


def ask(client: Client, asker: Asker, route: Route, url: str, body: object) -> HttpResponseBase:
    client.cookies.clear()
    if url.startswith(API_ROOT):
        kind = "application/json"
        return client.generic(route.method, url, world.as_json(body), content_type=kind, headers=asker.headers)
    if asker.session:
        client.cookies[settings.SESSION_COOKIE_NAME] = asker.session
    return client.post(url, body or {}) if route.method == "POST" else client.generic(route.method, url)


def tell(answer: HttpResponseBase) -> str:
    is_sent_to_sign_in = answer.status_code == 302 and answer.headers["Location"].startswith("/accounts/login/")
    return "login" if is_sent_to_sign_in else str(answer.status_code)


def excerpt(answer: HttpResponseBase) -> str:
    if answer.streaming:
        return ""
    text = re.sub(r"<[^>]+>|\s+", " ", answer.content.decode(errors="replace"))
    return re.sub(r" +", " ", text)[:300]
