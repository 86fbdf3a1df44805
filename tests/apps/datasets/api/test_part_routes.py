"""What a browser asks of the routes by which it brings files."""

import io
import json

import pytest
from django.test import Client

from datasets.api import part_schemas
from datasets.services import upload_parts, uploads
from tests.factories.browsers import browser_of

pytestmark = pytest.mark.django_db


def body_of(name: str) -> bytes:
    header = json.dumps({"files": [{"path": name, "size_bytes": 1, "mtime_ms": 5}]}).encode()
    return len(header).to_bytes(4, "big") + header + b"x"


@pytest.fixture
def upload(member, dataset):
    return uploads.start_upload(actor=member, dataset=dataset, branch="main", client_id="browser").upload


@pytest.fixture
def browser(member) -> Client:
    return browser_of(member)


def test_what_arrived_is_told_page_by_page(browser, member, upload, monkeypatch):
    for number in range(5):
        read = io.BytesIO(body_of(f"{number}.txt")).read
        upload_parts.receive_part(actor=member, upload=upload, number=number, read=read)
    monkeypatch.setattr(part_schemas, "PARTS_IN_A_PAGE", 2)

    seen, cursor = [], ""
    while cursor is not None:
        page = browser.get(f"/api/v1/uploads/{upload.id}/parts?cursor={cursor}").json()
        seen += page["items"]
        cursor = page["next_cursor"]

    assert seen == [{"path": f"{number}.txt", "size_bytes": 1, "mtime_ms": 5} for number in range(5)]
    assert page["next_number"] == 5


def test_a_damaged_page_link_is_refused(browser, upload):
    answer = browser.get(f"/api/v1/uploads/{upload.id}/parts?cursor=IngI")

    assert (answer.status_code, answer.json()["code"]) == (400, "core.invalid_input")


def test_a_part_comes_and_becomes_a_commit_over_http(browser, upload):
    kind = "application/octet-stream"
    part = browser.put(f"/api/v1/uploads/{upload.id}/parts/0", body_of("a.txt"), content_type=kind)
    made = browser.post(
        f"/api/v1/uploads/{upload.id}/parts/commit",
        {"expected_head": None, "message": "By hand"},
        content_type="application/json",
    )

    assert part.json() == {"files": 1, "size_bytes": 1, "next_offset": None}
    assert (made.status_code, made.json()["message"], made.json()["files"]) == (201, "By hand", 1)


def test_a_cancelled_upload_is_closed(browser, upload):
    assert browser.delete(f"/api/v1/uploads/{upload.id}").status_code == 204

    answer = browser.put(f"/api/v1/uploads/{upload.id}/parts/0", body_of("a"), content_type="application/octet-stream")
    assert (answer.status_code, answer.json()["code"]) == (409, "datasets.upload_closed")
