"""The space of a storage array is read with an account that nobody sees again, and told with its source and age.

The array is a small HTTPS server that stands in for ONTAP's REST API.
"""

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from accounts.permissions import Actor
from client.tests.loopback import Answer, Request, serve, write_certificate
from core import clock
from datasets.errors import ArrayUnreadable, InvalidCacheSite
from datasets.models import SiteArray
from datasets.services import cache_sites
from datasets.workers import site_checks as workers
from tests.factories.api import call
from tests.factories.browsers import browser_of
from tests.markup import read_form

pytestmark = pytest.mark.django_db(transaction=True)

SYSTEM = Actor.system("test")
TB = 10**12


class Array:
    """An array with two volumes of an SVM, listed one a page."""

    def __init__(self) -> None:
        self.password = "secret"
        self.is_cluster_account = True
        self.fault = 0
        self.queries: dict[str, dict[str, list[str]]] = {}

    def answer(self, request: Request) -> Answer:
        said = base64.b64encode(f"reader:{self.password}".encode()).decode()
        if request.headers.get("Authorization") != f"Basic {said}":
            return Answer(401, b"{}")
        if self.fault:
            return Answer(self.fault, b"{}")
        path = urlsplit(request.target).path
        query = parse_qs(urlsplit(request.target).query)
        self.queries[path] = query
        return getattr(self, path.rpartition("/")[2])(query)

    def aggregates(self, _) -> Answer:
        space = {"block_storage": {"size": 9 * TB, "used": 4 * TB, "available": 5 * TB, "physical_used": 3 * TB}}
        return _page([{"name": "aggr1", "space": space}]) if self.is_cluster_account else Answer(403, b"{}")

    def svms(self, query) -> Answer:
        svm = {"name": "svm1", "aggregates": [{"name": "aggr1", "available_size": 5 * TB}]}
        svm["storage"] = {"limit": 6 * TB, "allocated": 2 * TB}
        return _page([svm] if query["name"] == ["svm1"] else [])

    def volumes(self, query) -> Answer:
        space = {"size": TB, "used": 300, "available": 700, "snapshot": {"used": 20}, "logical_space": {"used": 500}}
        if "start" not in query:
            return _page([{"space": {**space, "physical_used": 100}}], "/api/storage/volumes?start=2")
        return _page([{"space": space}])


def _page(records: list, following: str = "") -> Answer:
    links = {"_links": {"next": {"href": following}}} if following else {}
    return Answer(200, json.dumps({"records": records, "num_records": len(records), **links}).encode())


@pytest.fixture
def array():
    return Array()


@pytest.fixture
def account(array, tmp_path):
    certificate = write_certificate(tmp_path / "array.pem", "127.0.0.1")
    with serve(array.answer, certificate=certificate) as running:
        trusted = certificate.read_text().partition("-----BEGIN CERTIFICATE-----")
        login = {"user": "reader", "password": "secret", "certificate": "".join(trusted[1:])}
        yield {"url": running.url, "svm": "svm1", "volumes": "trident_*", **login}


def space_of(what: str, source: str, **numbers: int) -> dict:
    names = ("size", "used", "available", "snapshot", "logical", "physical")
    return {"what": what, "source": source, **{f"{name}_bytes": numbers.get(name) for name in names}} | {
        "count": numbers.get("count")
    }


AGGREGATE = space_of(
    "aggregate aggr1", "/api/storage/aggregates", size=9 * TB, used=4 * TB, available=5 * TB, physical=3 * TB
)
SVM = [
    space_of("SVM svm1 on aggr1", "/api/svm/svms", available=5 * TB),
    space_of("limit of SVM svm1", "/api/svm/svms", size=6 * TB, used=2 * TB, available=4 * TB),
    space_of(
        "volumes trident_* of SVM svm1",
        "/api/storage/volumes",
        size=2 * TB,
        used=600,
        available=1400,
        snapshot=40,
        logical=1000,
        physical=100,
        count=2,
    ),
]


def show(actor: Actor) -> Callable[[str], str]:
    """Return what gives the pages that an actor sees."""
    browser = browser_of(actor)
    return lambda path: browser.get(path).content.decode()


def test_an_array_tells_the_space_of_aggregates_svm_and_volumes_and_nobody_the_account(
    array, account, site, site_admin, member
):
    path = f"/cache/sites/{site.name}/array"

    answer = call(site_admin, "PUT", path, account)

    assert (answer.status, answer.body["space"]) == (200, [AGGREGATE, *SVM])
    assert array.queries["/api/storage/volumes"] == {"start": ["2"]}
    told = call(member, "GET", path)
    assert told == answer
    assert (told.body["unknown_since"], told.body["svm"]) == (None, "svm1")
    assert not {"user", "password", "certificate"} & set(told.body)
    assert b"secret" not in bytes(SiteArray.objects.get().credentials)
    for page in map(show(site_admin), ("/cache/", "/settings/cache/")):
        assert "aggregate aggr1" in page
        assert "secret" not in page
    assert call(site_admin, "DELETE", path).status == 204
    assert call(member, "GET", path).status == 404


def test_an_account_of_an_svm_tells_what_it_sees(array, account, site):
    array.is_cluster_account = False

    assert cache_sites.set_array(actor=SYSTEM, site=site, **account).space == SVM


def test_an_array_that_does_not_answer_keeps_its_last_numbers_and_since_when(array, account, site, site_admin):
    read_at = datetime(2026, 11, 25, 12, tzinfo=UTC)
    first, later, back = (read_at + timedelta(hours=hours) for hours in (1, 2, 3))
    with clock.frozen_at(read_at) as move:
        cache_sites.set_array(actor=SYSTEM, site=site, **account)
        array.fault = 503
        move(first)
        workers.read_arrays()
        move(later)
        workers.read_arrays()
        row = SiteArray.objects.get()
        assert (row.read_at, row.failed_at, row.space) == (read_at, first, [AGGREGATE, *SVM])
        assert row.error == "The array answers 503 at /api/svm/svms."
        assert "Unknown since" in show(site_admin)("/cache/")
        array.fault = 0
        move(back)
        workers.read_arrays()

    row.refresh_from_db()
    assert (row.read_at, row.failed_at, row.error) == (back, None, "")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "This field is required."),
        ("http://filer.test", "An array is reached at https://HOST, unlike 'http://filer.test'."),
    ],
)
def test_a_refused_array_is_told_at_its_field_and_all_but_the_password_stays(site, site_admin, url, words):
    account = {"url": url, "svm": "svm1", "volumes": "trident_*", "user": "reader", "certificate": ""}
    address = f"/settings/cache/{site.name}/array/"

    answer = browser_of(site_admin).post(address, account | {"password": "hush"})

    assert answer.status_code == 422
    assert read_form(answer.content.decode(), address) == (account | {"password": ""}, {"url": words})


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"url": "http://filer.test"}, InvalidCacheSite, "An array is reached at https://HOST, unlike"),
        ({"url": "https://127.0.0.1:1"}, ArrayUnreadable, "The array does not answer"),
        ({"password": "other"}, ArrayUnreadable, "The array does not know this user and password."),
        ({"svm": "svm2"}, ArrayUnreadable, "The account sees no SVM 'svm2'."),
        ({"certificate": "none"}, ArrayUnreadable, "The certificate cannot be read: it is no PEM."),
        ({"certificate": ""}, ArrayUnreadable, "The array does not answer"),
    ],
)
def test_what_cannot_be_read_is_told_and_nothing_is_kept(account, site, change, error, message):
    with pytest.raises(error) as refusal:
        cache_sites.set_array(actor=SYSTEM, site=site, **account | change)

    assert message in refusal.value.message
    assert SiteArray.objects.count() == 0
