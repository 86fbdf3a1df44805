"""The page of sources, the page of what a dataset imported in place, and the mark on commits that read from a source."""

import html
from datetime import timedelta

import pytest

from core import clock
from datasets.models import FileSource, InPlaceImport
from datasets.services import in_place, sources
from datasets.workers import in_place as worker
from tests.factories.browsers import browser_of
from tests.factories.datasets import commit_files, make_dataset
from tests.markup import read_form

pytestmark = pytest.mark.django_db

IMPORTS = "/datasets/team-a/xrays/imports/"


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "nfs"
    (place / "set").mkdir(parents=True)
    (place / "set" / "one.bin").write_bytes(b"one" * 1000)
    (place / "set" / "two.bin").write_bytes(b"two" * 1000)
    (place / "set" / "out").symlink_to("/etc/passwd")
    return place


@pytest.fixture
def admin(site_admin):
    return browser_of(site_admin)


@pytest.fixture
def source(site_admin, folder, project, store_row) -> FileSource:
    return sources.set_source(actor=site_admin, name="nfs", location=str(folder), projects=[project])


@pytest.fixture
def xrays(member, project, store_row):
    return make_dataset(member, project, "xrays")


@pytest.fixture
def imported(source, xrays, member) -> InPlaceImport:
    row = in_place.request_import(actor=member, dataset=xrays, source="nfs", prefix="set")
    worker.work_on(row.pk)
    row.refresh_from_db()
    return row


def words(response) -> str:
    return " ".join(html.unescape(response.content.decode()).split())


def test_an_admin_registers_a_folder_permits_it_and_removes_it(admin, folder, project, store_row):
    empty = words(admin.get("/settings/sources/"))
    asked = {"kind": "folder", "name": "nfs", "folder": str(folder), "projects": "team-a"}

    page = words(admin.post("/settings/sources/set/", asked, follow=True))

    assert "No source yet" in empty
    assert "nfs can be read, and is a source now." in page
    assert 'Permitted to <a href="/datasets/?project=team-a">team-a</a>.' in page
    withdrawn = words(admin.post("/settings/sources/nfs/projects/", {"projects": ""}, follow=True))
    assert "no project may import from nfs." in withdrawn
    assert "Permitted to no project." in withdrawn
    assert "No source yet" in words(admin.post("/settings/sources/nfs/remove/", follow=True))


def test_a_project_that_is_not_there_is_told_in_the_dialog_with_what_was_typed(admin, source):
    answer = admin.post("/settings/sources/nfs/projects/", {"projects": "team-a\nteem-b"})

    page = answer.content.decode()
    assert answer.status_code == 422
    assert f'<dialog id="permit-{source.pk}" data-opens-now' in page
    typed, errors = read_form(page, "/settings/sources/nfs/projects/")
    assert typed == {"projects": "team-a\nteem-b"}
    assert errors["projects"].startswith("There is no project called 'teem-b'")


def test_projects_are_withdrawn_from_a_source_that_is_away(admin, source, folder):
    folder.rename(folder.with_name("away"))

    page = words(admin.post("/settings/sources/nfs/projects/", {"projects": ""}, follow=True))

    assert "no project may import from nfs." in page
    assert not source.projects.exists()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"kind": "folder", "name": "nfs", "folder": "/no/such/place"}, "is no folder of this machine"),
        ({"kind": "folder", "name": "nfs", "folder": ""}, "This field is required"),
        ({"kind": "folder", "name": "N F S", "folder": "/tmp"}, "A name has 1 to 63 small letters"),
        ({"kind": "folder", "name": "nfs", "folder": "/tmp", "projects": "none"}, "There is no project called"),
        ({"kind": "s3", "name": "lake", "bucket": "lake"}, "Give the keys of the bucket"),
        ({"kind": "s3", "name": "lake", "bucket": "la ke"}, "cannot be the name of a bucket"),
    ],
)
def test_what_cannot_be_a_source_is_refused_in_the_form_that_keeps_what_was_typed(admin, store_row, asked, said):
    response = admin.post("/settings/sources/set/", asked)

    assert response.status_code == 422
    assert said in words(response)
    assert f'value="{asked["name"]}"' in words(response)
    assert not FileSource.objects.exists()


def test_a_source_tells_who_reads_it_is_checked_and_is_not_removed(admin, imported, folder):
    page = words(admin.get("/settings/sources/"))
    refused = admin.post("/settings/sources/nfs/remove/")
    (folder / "set" / "two.bin").write_bytes(b"bad" * 1000)
    checked = words(admin.post("/settings/sources/nfs/check/", follow=True))
    worker.work_on(imported.pk)

    assert "6.0 kB imported, 6.1 kB not in the store" in page
    assert 'Read by <a href="/datasets/team-a/xrays/imports/">team-a/xrays</a>.' in page
    assert "<b>nfs</b> cannot be removed: 6.1 kB of these datasets lie in it and nowhere else." in page
    assert refused.status_code == 409
    assert "nfs can be listed and read. 1 import from it are compared with it now." in checked
    assert "1 file changed since they were imported" in words(admin.get("/settings/sources/"))


def test_a_check_of_a_source_that_is_away_says_so(admin, source, folder):
    folder.rename(folder.with_name("away"))

    page = words(admin.post("/settings/sources/nfs/check/", follow=True))

    assert "The source 'nfs' cannot be read: No such file or directory." in page


def test_a_member_previews_and_imports_a_folder_and_sees_what_it_made(browser, source, xrays, folder):
    form = words(browser.get(IMPORTS))
    preview = words(browser.get(f"{IMPORTS}preview/?source=nfs&folder=set", headers={"HX-Request": "true"}))
    started = words(browser.post(f"{IMPORTS}start/", {"source": "nfs", "folder": "set"}, follow=True))
    worker.work_on(InPlaceImport.objects.get().pk)
    page = words(browser.get(IMPORTS))

    assert "Nothing imported in place" in form
    assert str(folder) not in form
    assert '2 files, 6.0 kB <span class="sub">to be read once</span>' in preview
    assert "1 left out" in preview
    assert "It begins as soon as a worker is free." in started
    assert "sse" in started or "data-live" in started or "hx-get" in started
    assert "2 files, 6.0 kB. 6.1 kB lie in the source, and not in the store." in page
    assert "Promote 6.1 kB" in page


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("source=nfs&folder=none", "is not in the source 'nfs'."),
        ("source=nfs&folder=../..", "cannot be a folder"),
        ("source=other", "There is no source called 'other'"),
    ],
)
def test_a_preview_says_what_is_wrong(browser, source, xrays, query, said):
    assert said in words(browser.get(f"{IMPORTS}preview/?{query}"))


def test_a_folder_that_is_not_there_is_refused_beside_its_field_and_what_was_typed_stays(browser, source, xrays):
    typed = {"source": "nfs", "folder": "none", "directory": "raw", "branch": "main", "message": "The first scans"}

    response = browser.post(f"{IMPORTS}start/", typed)

    page = words(response)
    assert response.status_code == 422
    assert "'none' is not in the source 'nfs'." in page.partition('name="folder"')[2].partition("</div>")[0]
    assert 'value="none"' in page
    assert 'value="raw"' in page
    assert 'value="The first scans"' in page
    assert not InPlaceImport.objects.exists()


def test_how_far_an_import_and_a_promotion_are_is_shown_with_the_time_left(browser, imported):
    started_at = clock.now()
    begun = {"state": "running", "started_at": started_at, "work_bytes": 40_000_000, "read_bytes": 10_000_000}
    InPlaceImport.objects.update(**begun, commit=None)
    with clock.frozen_at(started_at + timedelta(seconds=10)):
        reading = words(browser.get(IMPORTS, headers={"HX-Request": "true"}))
        InPlaceImport.objects.update(state="promoting", work_bytes=24_000)
        copying = words(browser.get(IMPORTS, headers={"HX-Request": "true"}))

    assert "25 %" in reading
    assert "10.0 MB of 40.0 MB read, 2 files in all" in reading
    assert "1.0 MB/s" in reading
    assert "about 30 s left" in reading
    assert "of 24.0 kB copied into the store" in copying
    assert "<h1>" not in reading


def test_what_an_open_page_asks_for_brings_the_counts_above_it_up_to_date(browser, member, imported, xrays):
    commit_files(member, xrays, {"new": b"1"})

    answer = browser.get(IMPORTS, headers={"HX-Request": "true"})
    page = answer.content.decode()

    assert 'id="commits-count" hx-swap-oob="true">2</span>' in page
    assert 'id="imports-count" hx-swap-oob="true">1</span>' in page
    assert "1 file · 1 B" in words(answer)
    assert "data-live=" in page


def test_changed_files_are_listed_and_content_is_promoted_by_a_click(browser, imported, folder):
    (folder / "set" / "two.bin").write_bytes(b"bad" * 1000)
    browser.post(f"{IMPORTS}{imported.pk}/check/")
    worker.work_on(imported.pk)
    changed = words(browser.get(IMPORTS))
    (folder / "set" / "two.bin").write_bytes(b"two" * 1000)
    browser.post(f"{IMPORTS}{imported.pk}/check/")
    worker.work_on(imported.pk)
    browser.post(f"{IMPORTS}{imported.pk}/promote/")
    worker.work_on(imported.pk)

    assert "1 file changed in the source" in changed
    assert "set/two.bin" in changed
    assert "Nothing needs the source any more." in words(browser.get(IMPORTS))


def test_only_commits_that_read_from_a_source_are_marked(browser, member, imported, xrays):
    mark = "reads from a source"
    before = words(browser.get("/datasets/team-a/xrays/commits/")).count(mark)
    commit_files(member, xrays, {"new": b"1"})
    kept = words(browser.get("/datasets/team-a/xrays/commits/")).count(mark)
    in_place.promote(actor=member, row=imported)
    worker.work_on(imported.pk)

    assert (before, kept) == (1, 1)
    assert mark not in words(browser.get("/datasets/team-a/xrays/commits/"))


def test_a_viewer_sees_imports_and_no_form(make_actor, imported):
    page = words(browser_of(make_actor("viewer", name="watcher")).get(IMPORTS))

    assert "2 files, 6.0 kB." in page
    assert "Promote" not in page
    assert 'action="/datasets/team-a/xrays/imports/start/"' not in page
