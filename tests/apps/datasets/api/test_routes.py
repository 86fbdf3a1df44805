"""The sync protocol as a client sees it, with exact shapes."""

import hashlib
import json
from urllib.parse import quote

import pytest
from django.test import Client

from accounts.permissions import Role
from datasets.services import branches
from tests.factories.api import bearer
from tests.factories.datasets import PackedTree, commit_files, make_dataset, upload_tree

D = "/api/v1/datasets/team-a/xrays"


class Api:
    """A client that speaks JSON with a token."""

    def __init__(self, actor):
        self._client = Client(headers=bearer(actor))

    def __call__(self, method, path, body=None, **headers):
        data = json.dumps(body) if body is not None else ""
        return self._client.generic(
            method, path if path.startswith("/") else f"{D}/{path}", data, "application/json", headers=headers
        )


@pytest.fixture
def api(dataset, member):
    return Api(member)


@pytest.fixture
def commit(dataset, member):
    return commit_files(member, dataset, {"a.txt": b"one", "b/c.png": b"two"}, message="first")


def send(request, body):
    response = Client().generic(
        request["method"],
        request["url"].split("8000", 1)[1],
        body,
        "application/octet-stream",
        headers={key: value for key, value in request["headers"].items() if key != "Content-Length"},
    )
    return response.status_code


def test_a_dataset_is_created_and_described(store_row, member, project, settings):
    api = Api(member)

    answer = api("POST", "/api/v1/datasets", {"project": "team-a", "name": "xrays", "kind": "images"})

    assert answer.status_code == 201
    body = answer.json()
    assert body.pop("id").startswith("ds_")
    assert body.pop("created_at").endswith("Z")
    assert body == {
        "project": "team-a",
        "name": "xrays",
        "reference": "team-a/xrays",
        "description": "",
        "kind": "images",
        "files": 0,
        "size_bytes": 0,
        "default_branch": "main",
        "idle_days": None,
        "newest_commit": None,
        "url": f"{settings.NEARLINE.url}/datasets/team-a/xrays/",
    }
    again = api("POST", "/api/v1/datasets", {"project": "team-a", "name": "xrays"})
    assert (again.status_code, again.json()["code"]) == (409, "datasets.exists")


def test_a_commit_is_described(api, commit):
    assert api("GET", "commits/main").json() == {
        "id": commit.id,
        "short": commit.id[:8],
        "parent": None,
        "merged": None,
        "root": commit.root,
        "message": "first",
        "author": "member",
        "source": "cli",
        "created_at": commit.created_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "files": 2,
        "size_bytes": 6,
        "added": 2,
        "removed": 0,
        "changed": 0,
        "branches": ["main"],
        "tags": [],
        "cached": [],
    }


def test_datasets_are_listed_with_their_newest_commit(api, commit):
    body = api("GET", "/api/v1/datasets?project=team-a&q=ray").json()

    assert [item["newest_commit"]["id"] for item in body["items"]] == [commit.id]
    assert (body["items"][0]["files"], body["items"][0]["size_bytes"], body["next_cursor"]) == (2, 6, None)


def test_a_dataset_is_changed_and_deleted(api, make_actor):
    assert api("PATCH", D, {"description": "Chests", "idle_days": 3}).json()["description"] == "Chests"
    assert api("PATCH", D, {"idle_days": None}).json()["idle_days"] is None
    assert api("DELETE", D).status_code == 403
    deleted = Api(make_actor(Role.ADMIN))("DELETE", D).json()
    assert (deleted["reference"], deleted["deleted_by"] is None, deleted["restore_ends_at"] is None) == (
        "team-a/xrays",
        False,
        False,
    )
    assert api("GET", D).json()["code"] == "datasets.not_found"


def test_a_deleted_dataset_is_listed_restored_and_deleted_for_good(dataset, commit, project, member, make_actor):
    admin = Api(make_actor(Role.ADMIN))
    admin("DELETE", D)
    place = f"/api/v1/deleted-datasets/{dataset.pk}"
    listed = admin("GET", "/api/v1/deleted-datasets?project=team-a").json()["items"]
    make_dataset(member, project, "xrays")

    taken = admin("POST", f"{place}/restore", {})
    restored = admin("POST", f"{place}/restore", {"name": "older"}).json()
    again = admin("POST", f"{place}/restore", {}).json()

    assert [(item["id"], item["stored_bytes"]) for item in listed] == [(dataset.pk, storage_of(dataset))]
    assert (taken.status_code, taken.json()["code"]) == (409, "datasets.restore_name_taken")
    assert (restored["reference"], restored["newest_commit"]["id"]) == ("team-a/older", commit.pk)
    assert again["code"] == "datasets.deleted_not_found"
    gone = admin("DELETE", "/api/v1/datasets/team-a/older?for_good=true").json()
    assert (gone["restore_ends_at"], admin("DELETE", place).status_code) == (None, 404)


def storage_of(dataset):
    return sum(dataset.packs.values_list("size_bytes", flat=True))


def test_another_branch_becomes_the_default(api, dataset, commit, make_actor):
    api("POST", "branches", {"name": "trial", "at": "main"})
    viewer = Api(make_actor(Role.VIEWER))

    assert viewer("PATCH", D, {"default_branch": "trial"}).status_code == 403
    assert api("PATCH", D, {"default_branch": "none"}).json()["code"] == "core.invalid_input"
    assert api("GET", D).json()["default_branch"] == "main"
    assert api("PATCH", D, {"default_branch": "trial"}).json()["default_branch"] == "trial"
    assert api("DELETE", "branches/trial").json()["code"] == "datasets.default_branch_kept"
    assert api("DELETE", "branches/main").status_code == 204


def test_a_listing_says_which_commit_changed_what(api, dataset, member, commit):
    second = commit_files(member, dataset, {"a.txt": b"one", "b/c.png": b"edited"}, message="edit c")

    plain = api("GET", "files").json()["items"]
    items = {item["path"]: item["changed_in"] for item in api("GET", "files?changed_in=true").json()["items"]}

    assert [item["changed_in"] for item in plain] == [None, None]
    assert items["a.txt"]["id"] == commit.id
    assert {key: items["b"][key] for key in ("id", "short", "message", "author")} == {
        "id": second.id,
        "short": second.short,
        "message": "edit c",
        "author": member.name,
    }


def test_branches_and_tags_come_and_go(api, commit):
    made = api("POST", "branches", {"name": "trial", "at": "main"})
    tagged = api("POST", "tags", {"name": "v1", "commit": "main"})

    assert (made.status_code, made.json()["name"], made.json()["head"]) == (201, "trial", commit.id)
    assert (tagged.status_code, tagged.json()["name"], tagged.json()["commit"]) == (201, "v1", commit.id)
    assert [item["name"] for item in api("GET", "branches").json()["items"]] == ["main", "trial"]
    assert [item["name"] for item in api("GET", "tags").json()["items"]] == ["v1"]
    assert api("DELETE", "branches/trial").status_code == 204
    assert api("DELETE", "tags/v1").status_code == 204
    assert api("DELETE", "branches/main").json()["code"] == "datasets.default_branch_kept"
    assert len(api("GET", "branches").json()["items"]) == 1


def test_a_whole_sync_goes_by_signed_addresses(api, dataset):
    tree = PackedTree({"a": b"1", "b/c": b"2"})
    started = api("POST", "uploads", {"branch": "main", "client_id": "laptop"})
    upload = started.json()
    assert started.status_code == 201
    assert upload["pack_size_bytes"] == 33554432
    assert upload["chunking"] == {"min": 1 << 20, "avg": 4 << 20, "max": 16 << 20, "threshold": 16 << 20}
    assert (upload["head"], upload["root"], upload["put_proof"]) == (None, None, "payload-sha256")
    u = f"/api/v1/uploads/{upload['id']}"

    ((sha256, data),) = tree.packs.items()
    (wanted,) = api("POST", f"{u}/packs", {"packs": [{"sha256": sha256, "size_bytes": len(data)}]}).json()["items"]
    assert wanted["state"] == "wanted"
    assert send(wanted["request"], data) == 200
    done = api("POST", f"{u}/packs/complete", {"packs": [sha256]}).json()
    assert done == {"items": [{"sha256": sha256, "state": "complete", "request": None}]}

    objects = {tree.root_id: ("root", tree.tree.root)}
    objects.update((name, ("range", body)) for name, body in tree.tree.objects.items())
    offered = [
        {"kind": kind, "id": name, "size_bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
        for name, (kind, body) in objects.items()
    ]
    for item in api("POST", f"{u}/manifests", {"objects": offered}).json()["items"]:
        assert send(item["request"], objects[item["id"]][1]) == 200

    body = {"root": tree.root_id, "expected_head": None, "message": "m", "source": "cli", "idempotency_key": "k"}
    made = api("POST", f"{u}/commit", body)
    assert made.status_code == 201
    assert api("POST", f"{u}/commit", body).json()["id"] == made.json()["id"]
    assert b"".join(api("GET", "content?path=b/c")) == b"2"

    stale = api("POST", f"{u}/commit", {**body, "idempotency_key": ""})
    assert stale.json()["code"] == "datasets.upload_closed"


def test_names_that_collide_are_refused_as_groups_and_committed_when_allowed(api, dataset, member):
    tree = PackedTree(dict.fromkeys(["A", "a", "\u00e9", "e\u0301"], b"x"))
    upload = upload_tree(member, dataset, tree)
    body = {"root": tree.root_id, "expected_head": None}

    refused = api("POST", f"/api/v1/uploads/{upload.id}/commit", body)
    branches = api("GET", "branches").json()["items"]
    allowed = api("POST", f"/api/v1/uploads/{upload.id}/commit", {**body, "allow_collisions": True})

    assert (refused.status_code, refused.json()["code"]) == (400, "datasets.name_collision")
    assert refused.json()["details"]["groups"] == [["A", "a"], [r"e\u0301", r"\u00e9"]]
    assert [branch["head"] for branch in branches] == [None]
    assert (allowed.status_code, allowed.json()["files"]) == (201, 4)


def test_a_lost_race_says_where_the_branch_is_now(api, commit):
    tree = PackedTree({"x": b""})
    upload = api("POST", "uploads", {"branch": "main", "client_id": "c"}).json()

    answer = api("POST", f"/api/v1/uploads/{upload['id']}/commit", {"root": tree.root_id, "expected_head": "0" * 64})

    assert answer.status_code == 409
    assert answer.json()["code"] == "datasets.stale_parent"
    assert answer.json()["details"]["head"] == commit.id


def test_packs_that_are_missing_are_named(api):
    upload = api("POST", "uploads", {"branch": "main", "client_id": "c"}).json()

    answer = api("POST", f"/api/v1/uploads/{upload['id']}/packs/complete", {"packs": ["0" * 64]})

    assert (answer.status_code, answer.json()["code"]) == (409, "datasets.pack_missing")
    assert answer.json()["details"]["packs"] == ["0" * 64]


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("packs", {"packs": [{"sha256": "xyz", "size_bytes": 1}]}),
        ("packs", {"packs": [{"sha256": "0" * 64, "size_bytes": 0}]}),
        ("packs", {"packs": [{"sha256": f"{number:064x}", "size_bytes": 1} for number in range(33)]}),
        ("packs", {"packs": []}),
        ("manifests", {"objects": [{"kind": "root", "id": "../x", "size_bytes": 1, "sha256": "0" * 64}]}),
        ("manifests", {"objects": [{"kind": "pack", "id": "0" * 64, "size_bytes": 1, "sha256": "0" * 64}]}),
        ("commit", {"root": "short", "expected_head": None}),
    ],
)
def test_malformed_requests_are_refused(api, route, body):
    upload = api("POST", "uploads", {"branch": "main", "client_id": "c"}).json()

    answer = api("POST", f"/api/v1/uploads/{upload['id']}/{route}", body)

    assert (answer.status_code, answer.json()["code"]) == (400, "core.malformed_request")


def test_downloads_are_signed_for_this_dataset_alone(api, commit, dataset):
    body = {"objects": [{"kind": "root", "id": commit.root}]}

    (item,) = api("POST", "downloads", body).json()["items"]

    assert (item["kind"], item["id"], item["request"]["method"]) == ("root", commit.root, "GET")
    response = Client().get(item["request"]["url"].split("8000", 1)[1], headers={"Range": "bytes=0-3"})
    assert (response.status_code, b"".join(response)) == (206, b"NLRT")


def test_files_are_listed_by_folder_and_by_pattern(api, commit):
    top = api("GET", "files").json()
    matching = api("GET", "files?glob=**/*.png").json()

    assert [(item["path"], item["kind"], item["size_bytes"], item["files"]) for item in top["items"]] == [
        ("a.txt", "file", 3, None),
        ("b", "folder", 3, 1),
    ]
    assert top["items"][0]["mtime"] == "2023-11-14T22:13:20.000Z"
    assert [(item["name"], item["path"]) for item in matching["items"]] == [("c.png", "b/c.png")]


def test_names_that_are_no_text_come_and_go_unharmed(api, dataset, member):
    name = "odd\udcff\n +ü.txt"
    commit_files(member, dataset, {f"folder/{name}": b"odd"})
    raw = name.encode("utf-8", "surrogateescape")

    (item,) = api("GET", "files?path=folder").json()["items"]
    content = api("GET", f"content?path={quote(b'folder/' + raw)}")

    assert item["name"] == name
    assert item["path"] == f"folder/{name}"
    assert b"".join(content) == b"odd"


def test_content_is_sent_so_that_no_browser_runs_it(api, dataset, member):
    commit_files(member, dataset, {"evil.html": b"<script>", "a.png": b"PNG", "evil.svg": b"<svg>"})

    html, png, svg = (api("GET", f"content?path={name}") for name in ("evil.html", "a.png", "evil.svg"))

    assert html["Content-Type"] == svg["Content-Type"] == "application/octet-stream"
    assert html["Content-Disposition"].startswith("attachment")
    assert (png["Content-Type"], png["Content-Disposition"].split(";")[0]) == ("image/png", "inline")


def test_a_part_of_a_file_can_be_asked_for(api, commit):
    part = api("GET", "content?path=a.txt", Range="bytes=1-")
    beyond = api("GET", "content?path=a.txt", Range="bytes=9-")

    assert (part.status_code, b"".join(part), part["Content-Range"]) == (206, b"ne", "bytes 1-2/3")
    assert (beyond.status_code, beyond["Content-Range"]) == (416, "bytes */3")


def test_a_diff_has_counts_and_paths(api, commit, dataset, member):
    commit_files(member, dataset, {"a.txt": b"longer", "new": b""})

    assert api("GET", f"diff?base={commit.id[:8]}&ref=main").json() == {
        "added": 1,
        "removed": 1,
        "changed": 1,
        "items": [
            {"path": "a.txt", "change": "changed", "size_before": 3, "size_after": 6},
            {"path": "b/c.png", "change": "removed", "size_before": 3, "size_after": None},
            {"path": "new", "change": "added", "size_before": None, "size_after": 0},
        ],
        "next_cursor": None,
    }


def test_going_back_is_a_new_commit(api, commit, dataset, member):
    commit_files(member, dataset, {"other": b""})

    answer = api("POST", "revert", {"commit": commit.short, "branch": "main"})

    assert answer.status_code == 201
    assert (answer.json()["root"], answer.json()["source"]) == (commit.root, "revert")
    assert [item["source"] for item in api("GET", "commits").json()["items"]] == ["revert", "cli", "cli"]


def test_history_comes_in_pages(api, dataset, member):
    made = [commit_files(member, dataset, {"a": str(number).encode()}).id for number in range(3)]

    first = api("GET", "commits?limit=2").json()
    rest = api("GET", f"commits?limit=2&cursor={first['next_cursor']}").json()

    assert [item["id"] for item in (*first["items"], *rest["items"])] == list(reversed(made))
    assert rest["next_cursor"] is None


WRITES = [
    ("POST", "/api/v1/datasets", {"project": "team-a", "name": "other"}),
    ("PATCH", D, {"description": "x"}),
    ("DELETE", D, None),
    ("POST", f"{D}/branches", {"name": "x"}),
    ("DELETE", f"{D}/branches/trial", None),
    ("POST", f"{D}/tags", {"name": "x", "commit": "main"}),
    ("DELETE", f"{D}/tags/v1", None),
    ("POST", f"{D}/uploads", {"branch": "main"}),
    ("POST", f"{D}/revert", {"commit": "v1", "branch": "main"}),
]
READS = [
    ("GET", D, None),
    ("GET", f"{D}/branches", None),
    ("GET", f"{D}/tags", None),
    ("GET", f"{D}/commits", None),
    ("GET", f"{D}/commits/main", None),
    ("GET", f"{D}/files", None),
    ("GET", f"{D}/content?path=a.txt", None),
    ("GET", f"{D}/diff?base=main", None),
    ("POST", f"{D}/downloads", {"objects": [{"kind": "root", "id": "0" * 64}]}),
]


@pytest.fixture
def named(dataset, member, commit):
    branches.create_branch(actor=member, dataset=dataset, name="trial", at="main")
    branches.create_tag(actor=member, dataset=dataset, name="v1", commit=commit)
    commit_files(member, dataset, {"second": b""})


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
def test_a_viewer_changes_nothing(named, viewer, method, path, body):
    assert Api(viewer)(method, path, body).status_code == 403


@pytest.mark.parametrize(("method", "path", "body"), READS[:6] + READS[7:])
def test_a_viewer_reads_everything(named, viewer, method, path, body):
    assert Api(viewer)(method, path, body).status_code == 200


@pytest.mark.parametrize(("method", "path", "body"), [*WRITES, *READS])
def test_a_stranger_finds_nothing(named, make_actor, method, path, body):
    assert Api(make_actor(None))(method, path, body).status_code == 404


@pytest.mark.parametrize(("method", "path", "body"), [*WRITES, *READS])
def test_nobody_gets_in_without_a_name(named, method, path, body):
    response = Client().generic(method, path, json.dumps(body) if body else "", "application/json")

    assert response.status_code == 401


def test_an_upload_of_someone_else_is_not_found(api, dataset, make_actor, project):
    upload = api("POST", "uploads", {"branch": "main", "client_id": "c"}).json()
    other = Api(make_actor(name="other"))

    answer = other("POST", f"/api/v1/uploads/{upload['id']}/packs/complete", {"packs": ["0" * 64]})

    assert (answer.status_code, answer.json()["code"]) == (404, "datasets.upload_not_found")


def test_listing_datasets_takes_as_many_queries_for_many_as_for_one(
    store_row, member, project, django_assert_num_queries
):
    api = Api(member)
    for _ in range(6):
        commit_files(member, make_dataset(member, project), {"a": b"1"})

    with django_assert_num_queries(8):
        assert len(api("GET", "/api/v1/datasets").json()["items"]) == 6
