"""Every page of the table in `routes.py`, as a site admin gets it: safe by policy, and no slower with more rows."""

import re
from collections.abc import Iterator

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.models import Membership, Project, User
from accounts.services import projects, tokens
from compute.models import Resource, Template
from datasets.models import CacheSite, Dataset
from datasets.services import caches
from flows.models import Run
from tests.architecture import routes
from tests.architecture.test_permission_matrix import PAGES, fill_in
from tests.architecture.world import World
from tests.factories.compute import submit
from tests.factories.datasets import commit_files, make_dataset
from tests.factories.scheduler import report, report_nodes

MORE = 7
MOST_QUERIES = 60
NO_PAGES = {"/live/", "/healthz", "/readyz", "/metrics"}
SHOWN = [
    route for route in PAGES if route.method == "GET" and route.expected["root"] == "200" and route.path not in NO_PAGES
]


@pytest.fixture
def browser(everything) -> Client:
    client = Client()
    client.cookies[settings.SESSION_COOKIE_NAME] = everything.askers["root"].session
    return client


def address_of(route, everything: World) -> str:
    query = routes.queries(everything.values).get(route.name, "")
    return f"{fill_in(route, everything.values, everything.askers['root'])}?{query or '_'}"


def count_queries(browser: Client, address: str) -> int:
    browser.get(address)  # what is read once per process is read before
    with CaptureQueriesContext(connection) as queries:
        answer = browser.get(address)
        if answer.streaming and not answer.is_async:
            b"".join(answer.streaming_content)
    assert answer.status_code in {200, 204}, address  # 204: a file that is no picture has no thumbnail
    return len(queries)


def test_no_page_asks_the_database_more_often_when_there_is_more_to_show(everything, browser):
    add_more(everything, range(1))
    few = {route.path: count_queries(browser, address_of(route, everything)) for route in SHOWN}
    add_more(everything, range(1, MORE))
    many = {route.path: count_queries(browser, address_of(route, everything)) for route in SHOWN}

    grown = {path: (few[path], many[path]) for path in few if many[path] > few[path]}
    assert grown == {}
    assert {path: count for path, count in many.items() if count > MOST_QUERIES} == {}


def test_no_page_holds_what_its_policy_forbids(everything, browser):
    wrong = [fault for route in SHOWN for fault in find_faults(browser.get(address_of(route, everything)), route.path)]

    assert wrong == []


def find_faults(answer, path: str) -> Iterator[str]:
    policy = answer.headers.get("Content-Security-Policy", "")
    if "default-src" not in policy or "unsafe" in policy or "*" in policy:
        yield f"{path}: its policy is '{policy}'"
    if answer.streaming or not answer.headers["Content-Type"].startswith("text/html"):
        return
    page = answer.content.decode()
    for script in re.findall(r"<script\b[^>]*>", page):
        if "src=" not in script and 'type="application/json"' not in script:
            yield f"{path}: a script in the page"
    for forbidden in re.findall(r"<style\b|<[a-z][^<>]*\sstyle=|<[a-z][^<>]*\son[a-z]+=|javascript:", page):
        yield f"{path}: {forbidden}"
    for address in re.findall(r'(?:src|href)="(https?:)?//[^"]*"', page):
        yield f"{path}: something from elsewhere: {address}"


def add_more(everything: World, numbers: range) -> None:
    """Add rows of every kind to what the pages show."""
    root, member = everything.askers["root"].actor, everything.askers["member"].actor
    project = Project.objects.get(name="team-a")
    for number in numbers:
        projects.create_project(actor=root, name=f"more-{number}")
        tokens.create_token(actor=root, name=f"more {number}", expires_at=None)
        person = User.objects.create_user(f"more-{number}", password=None)
        Membership.objects.create(project=project, user=person, role="viewer")
        add_datasets(member, project, number)
        Resource.objects.create(name=f"more-{number}", kind="simulated", is_simulated=True)
    template = Template.objects.get(resource__name="lab", name="small")
    submit(project, template, *[f"more-{number}" for number in numbers])
    report_nodes(*[report(f"more-{number}", 2) for number in range(numbers.stop)])
    run = Run.objects.get(pk=everything.values["ended"])
    for number in numbers:
        copy_with_children(run, number=100 + number)


def add_datasets(member, project, number: int) -> None:
    xrays = Dataset.objects.get(name="xrays")
    files = {f"{name}/{number}.txt": b"%d" % name for name in range(MORE)} | {"a.txt": b"x"}
    caches.request_cache(
        actor=member, commit=commit_files(member, xrays, files), site=CacheSite.objects.get(name="local")
    )
    commit_files(member, make_dataset(member, project, f"more-{number}"), {"a.txt": b"one"})


def copy_with_children(run: Run, *, number: int) -> None:
    """Make another run as this one is, with its steps and attempts."""
    children = [(step, list(step.attempts.all())) for step in run.steps.all()]
    copy = Run(**fields_of(run) | {"number": number})
    copy.save(force_insert=True)
    for step, attempts in children:
        new = type(step)(**fields_of(step) | {"run_id": copy.pk})
        new.save(force_insert=True)
        for attempt in attempts:
            type(attempt)(
                **fields_of(attempt)
                | {"run_id": copy.pk, "step_id": new.pk, "job_id": None, "job_name": f"copy-{number}"}
            ).save(force_insert=True)


def fields_of(row) -> dict[str, object]:
    return {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields if field.name != "id"}
