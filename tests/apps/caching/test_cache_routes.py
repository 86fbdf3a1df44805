"""Caching through the API: who may do what, and what it answers."""

import pytest

from accounts.permissions import Role
from datasets.models import CachedCommit, CacheSite
from datasets.services import caches
from tests.factories.api import call

pytestmark = pytest.mark.django_db(transaction=True)

COPY = "/datasets/team-a/xrays/commits/latest/cache"


def test_one_call_caches_and_a_second_changes_nothing(member, commit, site, worker):
    first = call(member, "POST", COPY, {"site": "local"})
    second = call(member, "POST", COPY)
    worker.work()
    shown = call(member, "GET", f"/cache/commits/{first.body['id']}")

    assert (first.status, second.status, first.body["id"]) == (202, 202, second.body["id"])
    assert (shown.body["state"], shown.body["percent"], shown.body["dataset"]) == ("ready", 100, "team-a/xrays")
    assert shown.body["path"] == f"{site.root}/team-a/xrays/{commit.id}"
    assert shown.body["evicts_at"] is not None
    assert CachedCommit.objects.count() == 1


def test_the_site_shows_its_room(viewer, ready, site):
    answer = call(viewer, "GET", "/cache/sites")

    [shown] = answer.body["items"]
    size = ready.bytes_total
    assert (shown["capacity_bytes"], shown["committed_bytes"], shown["used_bytes"], shown["free_bytes"]) == (
        10_000_000, size, size, 10_000_000 - size
    )  # fmt: skip


def test_clearing_pinning_and_scrubbing(member, ready, worker):
    one = f"/cache/commits/{ready.pk}"
    assert call(member, "POST", f"{one}/pin", {"pinned": True}).body["pinned"] is True
    assert call(member, "DELETE", COPY).body["code"] == "datasets.cache_pinned"
    assert call(member, "POST", f"{one}/pin", {"pinned": False}).body["pinned"] is False
    assert call(member, "POST", f"{one}/scrub").status == 202
    cleared = call(member, "DELETE", f"{COPY}?site=local")
    worker.work()

    assert (cleared.status, cleared.body["state"]) == (202, "evicting")
    assert call(member, "GET", "/cache/commits").body["items"] == []
    assert [event["state"] for event in call(member, "GET", f"{one}/events").body["items"]][-2:] == ["evicting", "gone"]
    assert call(member, "DELETE", COPY).body["code"] == "datasets.cached_commit_not_found"


def test_a_viewer_sees_everything_and_changes_nothing(viewer, ready):
    one = f"/cache/commits/{ready.pk}"
    for path in ("/cache/commits?site=local", one, f"{one}/events", "/cache/plan?need_bytes=5", "/cache/sites"):
        assert call(viewer, "GET", path).status == 200
    for method, path, body in (
        ("POST", COPY, {}),
        ("DELETE", COPY, None),
        ("POST", f"{one}/pin", {"pinned": True}),
        ("POST", f"{one}/scrub", None),
    ):
        assert call(viewer, method, path, body).status == 403

    ready.refresh_from_db()
    assert (ready.state, ready.is_pinned) == ("ready", False)


def test_a_stranger_learns_nothing(make_actor, ready):
    stranger = make_actor(None)

    assert call(stranger, "GET", f"/cache/commits/{ready.pk}").status == 404
    assert call(stranger, "POST", f"/cache/commits/{ready.pk}/pin", {"pinned": True}).status == 404
    assert call(stranger, "GET", "/cache/commits").body["items"] == []
    assert call(stranger, "POST", COPY).status == 404


@pytest.mark.parametrize("role", list(Role))
def test_only_a_site_admin_makes_and_changes_sites(make_actor, site, tmp_path, role):
    actor = make_actor(role)

    assert call(actor, "POST", "/cache/sites", {"name": "new", "root": str(tmp_path / "new")}).status == 403
    assert call(actor, "PATCH", "/cache/sites/local", {"idle_days": 9}).status == 403
    assert CacheSite.objects.get().idle_days == 1
    assert not (tmp_path / "new").exists()


def test_a_site_admin_makes_and_changes_sites(site_admin, tmp_path):
    made = call(site_admin, "POST", "/cache/sites", {"name": "fast", "root": str(tmp_path / "fast")})
    changed = call(site_admin, "PATCH", "/cache/sites/fast", {"capacity_bytes": 5000, "idle_days": 0.5})
    again = call(site_admin, "POST", "/cache/sites", {"name": "fast", "root": str(tmp_path / "other")})
    nested = call(site_admin, "POST", "/cache/sites", {"name": "in", "root": str(tmp_path / "fast" / "in")})
    relative = call(site_admin, "POST", "/cache/sites", {"name": "rel", "root": "cache"})

    assert (made.status, made.body["idle_days"]) == (201, 1)
    assert made.body["capacity_bytes"] > 0
    assert (changed.body["capacity_bytes"], changed.body["idle_days"]) == (5000, 0.5)
    assert (again.status, again.body["code"]) == (409, "datasets.cache_site_exists")
    assert not (tmp_path / "other").exists()
    assert (nested.body["code"], relative.body["code"]) == ("datasets.invalid_cache_site",) * 2


def test_a_full_site_answers_422_with_what_is_in_the_way(member, ready, commit, dataset, site_admin):
    from tests.factories.datasets import commit_files

    caches.set_pinned(actor=member, cached_commit_id=ready.pk, is_pinned=True)
    call(site_admin, "PATCH", "/cache/sites/local", {"capacity_bytes": ready.bytes_total})
    commit_files(member, dataset, {"other": b"o" * 100})

    answer = call(member, "POST", COPY)

    assert (answer.status, answer.body["code"]) == (422, "datasets.cache_full")
    assert answer.body["details"]["obstacles"][0]["reason"] == "pinned"
    assert answer.body["hint"]


def test_the_plan_names_victims_and_obstacles(member, ready):
    answer = call(member, "GET", "/cache/plan?site=local&need_bytes=9999999")

    assert answer.body["victims"][0]["id"] == ready.pk
    assert (answer.body["missing_bytes"], answer.body["obstacles"]) == (0, [])


def test_an_unknown_site_is_named(member, commit, site):
    answer = call(member, "POST", COPY, {"site": "moon"})

    assert (answer.status, answer.body["code"]) == (404, "datasets.cache_site_not_found")
    assert CachedCommit.objects.count() == 0
