"""Files of a cluster that become a dataset where they lie: what a pod reads and says, and what others are told.

The pod's program runs here on a folder; tests/kubernetes has a cluster run it on a claim.
"""

from urllib.parse import urlsplit

import pytest
from django.test import Client

from accounts.permissions import Actor
from core.errors import InvalidInput
from datasets.adapters.copy_tokens import sign_copy, sign_import
from datasets.adapters.hydration import hydrate
from datasets.adapters.opening import open_dataset_store, open_manifests
from datasets.errors import SourceOnSite
from datasets.models import Branch, CacheSite, FileSource, ImportState, InPlaceImport, SourceKind
from datasets.selectors.trees import list_entries
from datasets.services import cache_sites, caches, in_place
from datasets.workers import in_place as worker
from nearline.errors import Conflict
from nearline.pod import imports
from nearline.pod.imports import FileChanged, ImportRoutes
from tests.factories.clusters import lab
from tests.factories.datasets import commit_files, read_tree
from tests.interleaving import happens_after

ROOT = Actor.system("test")
LARGE = bytes(range(256)) * (70 << 10)
"""Stored in several chunks."""
FILES = {"a/one": b"one" * 1000, "a/same": b"one" * 1000, "b/empty": b"", "large": LARGE, "text": b"text"}


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "volume"
    for name, content in FILES.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    return place


@pytest.fixture
def source(project):
    config = {"resource": "lab", "claim": "scans", "folder": "", "commit": "", "size_bytes": 1}
    CacheSite.objects.create(name="volume", kind="existing", root="claim://scans", config=config, capacity_bytes=1)
    row = FileSource.objects.create(name="scans", kind=SourceKind.SITE, location="site://volume")
    row.projects.add(project)
    return row


@pytest.fixture
def row(source, dataset, member) -> InPlaceImport:
    row = in_place.request_import(actor=member, dataset=dataset, source="scans", prefix=".")
    InPlaceImport.objects.update(state=ImportState.RUNNING)
    return row


class PodHttp:
    """Speaks with the platform as the client of a pod does."""

    def __init__(self, token: str) -> None:
        self._headers = {"Authorization": f"Bearer {token}"}
        self._client = Client()

    def with_long_retries(self) -> "PodHttp":
        return self

    def post(self, path: str, body: object, *, may_repeat: bool) -> dict:
        assert may_repeat
        answer = self._client.post(f"/api/v1{path}", body, content_type="application/json", headers=self._headers)
        if answer.status_code >= 400:
            raise Conflict(answer.json()["detail"], code=answer.json()["code"])
        return answer.json() if answer.content else {}

    def send_signed(self, _method: str, url: str, headers: dict, *parts: bytes) -> None:
        headers = {key: value for key, value in headers.items() if key.lower() != "content-length"}
        answer = self._client.put(
            urlsplit(url).path, b"".join(parts), content_type="application/octet-stream", headers=headers
        )
        assert answer.status_code == 200


def routes_of(row) -> ImportRoutes:
    return ImportRoutes(PodHttp(sign_import(row.pk)))  # type: ignore[arg-type]


def test_each_file_is_read_once_and_becomes_the_commit_and_none_is_copied(row, folder, dataset):
    said = imports.import_folder(folder, routes_of(row))

    row.refresh_from_db()
    size = sum(map(len, FILES.values()))
    assert said == {"files": 5, "read_bytes": size}
    assert (row.files, row.size_bytes, row.read_bytes, row.work_bytes) == (5, size, size, size)
    assert row.commit == Branch.objects.get(dataset=dataset, name="main").head
    row.commit.dataset = dataset
    assert {entry.path.decode(): entry.size for entry in list_entries(row.commit)} == {
        name: len(content) for name, content in FILES.items()
    }
    assert list(open_manifests(dataset).list_blobs("packs/")) == []
    assert sum(blob.size_bytes for blob in open_manifests(dataset).list_blobs("maps/")) == row.written_bytes


def test_maps_that_come_at_once_are_all_counted(row, folder, dataset):
    with happens_after('"datasets_pack"', lambda: InPlaceImport.objects.update(written_bytes=1000)):
        imports.import_folder(folder, routes_of(row))

    row.refresh_from_db()
    maps = open_manifests(dataset).list_blobs("maps/")
    assert row.written_bytes == 1000 + sum(blob.size_bytes for blob in maps)


def test_a_pod_that_follows_one_that_was_killed_makes_the_same_commit(row, folder, dataset):
    first = routes_of(row)
    first.begin(9, 9)
    files = imports.VolumeFiles(folder)

    imports.import_folder(folder, routes_of(row))

    row.refresh_from_db()
    row.commit.dataset = dataset
    assert [entry.path for entry in list_entries(row.commit)] == sorted(file.path for file in files.list())


def test_what_an_admin_changes_of_the_site_while_an_import_ends_stays(row, folder):
    imports.import_folder(folder, routes_of(row))

    with lab(), happens_after('FROM "datasets_cachesite"', lambda: CacheSite.objects.update(capacity_bytes=10**12)):
        worker.work_on(row.pk)

    row.refresh_from_db()
    site = CacheSite.objects.get()
    assert (row.state, row.error) == ("referenced", "")
    assert (site.capacity_bytes, site.config["commit"]) == (10**12, row.commit_id)


def test_others_are_told_where_the_bytes_lie_until_they_are_promoted(row, folder, dataset, member, tmp_path):
    imports.import_folder(folder, routes_of(row))
    row.refresh_from_db()
    row.commit.dataset = dataset
    site = cache_sites.create_site(actor=ROOT, name="near", root=tmp_path / "near", capacity_bytes=10**9)
    store = open_dataset_store(dataset)

    with pytest.raises(SourceOnSite, match=r"lie only on volume: promote them first\.$"):
        caches.request_cache(actor=member, commit=row.commit, site=site)
    with pytest.raises(SourceOnSite, match=r"^The bytes of the source 'scans' lie only on volume: promote"):
        hydrate(store, list_entries(row.commit), tmp_path / "clone", keep_existing=True)
    InPlaceImport.objects.update(state=ImportState.PROMOTING)
    sent = imports.promote_folder(folder, routes_of(row))

    hydrate(open_dataset_store(dataset), list_entries(row.commit), tmp_path / "promoted")
    assert read_tree(tmp_path / "promoted") == FILES
    assert sent["sent_bytes"] == sum(blob.size_bytes for blob in open_manifests(dataset).list_blobs("packs/"))
    assert list(open_manifests(dataset).list_blobs("maps/")) == []
    assert caches.request_cache(actor=member, commit=row.commit, site=site).state == "queued"


def test_a_file_that_was_written_to_is_not_promoted_and_is_named(row, folder, dataset):
    imports.import_folder(folder, routes_of(row))
    InPlaceImport.objects.update(state=ImportState.PROMOTING)
    (folder / "a" / "one").write_bytes(b"bad" * 1000)

    with pytest.raises(FileChanged, match="'a/one' is not what it was when it was imported"):
        imports.promote_folder(folder, routes_of(row))

    assert list(open_manifests(dataset).list_blobs("packs/")) == []


def test_what_no_dataset_can_carry_is_named_and_nothing_is_imported(row, folder):
    (folder / "out").symlink_to("/etc/passwd")

    with pytest.raises(Conflict, match="No dataset can carry this: 'out'"):
        imports.import_folder(folder, routes_of(row))

    row.refresh_from_db()
    assert row.commit is None


def test_a_token_is_good_for_its_import_alone_and_as_long_as_that_is_under_way(row, folder):
    imports.import_folder(folder, routes_of(row))
    client = Client()

    def ask(token: str) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        return client.post("/api/v1/import-job/next", {"after": ""}, "application/json", headers=headers).status_code

    during = ask(sign_import(row.pk)), ask(sign_import("imp_other")), ask(sign_copy(row.pk)), ask("x")
    InPlaceImport.objects.update(state=ImportState.REFERENCED)

    assert during == (200, 401, 401, 401)
    assert ask(sign_import(row.pk)) == 401


@pytest.mark.parametrize("data", ["%%", "é", "AAA"])
def test_what_is_no_base64_is_refused_in_words(row, data):
    body = {"upload_id": "up_1", "name": "0" * 64, "map": data}
    headers = {"Authorization": f"Bearer {sign_import(row.pk)}"}

    answer = Client().post("/api/v1/import-job/maps", body, "application/json", headers=headers)

    assert (answer.status_code, answer.json()["title"]) == (400, "This is not base64.")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"prefix": "inner"}, "is imported as a whole"),
        ({"prefix": "", "directory": "below"}, "is imported as a whole"),
    ],
)
def test_a_part_of_a_volume_is_refused(source, dataset, member, asked, said):
    with pytest.raises(InvalidInput, match=said):
        in_place.request_import(actor=member, dataset=dataset, source="scans", **asked)


def test_a_branch_with_a_commit_is_refused(source, dataset, member):
    commit_files(member, dataset, {"a": b"1"})

    with pytest.raises(InvalidInput, match="main has a commit"):
        in_place.request_import(actor=member, dataset=dataset, source="scans", prefix="")
