"""What the pods that fill a cached copy may do with their token: read its dataset, say how far it is, nothing else."""

from datetime import timedelta

import pytest

from core import clock
from datasets.adapters.copy_tokens import LIFETIME, sign_copy
from datasets.engine.cache_states import CacheState
from datasets.models import CachedCommit
from datasets.services import cache_sites
from datasets.signals import cached_commit_changed
from tests.factories.api import call
from tests.factories.datasets import commit_files, make_dataset, make_store

PROGRESS = {
    "files_done": 1,
    "bytes_done": 3,
    "bytes_shared": 1,
    "bytes_copied": 0,
    "bytes_moved": 2,
    "rate_bytes_s": 1.5,
}


@pytest.fixture
def copy(db, tmp_path, member, project, site_admin):
    make_store(tmp_path / "store")
    commit = commit_files(member, make_dataset(member, project, "xrays"), {"a": b"one"})
    site = cache_sites.create_site(actor=site_admin, name="near", root=tmp_path / "near")
    return CachedCommit.objects.create(
        site=site,
        dataset=commit.dataset,
        commit=commit,
        state=CacheState.HYDRATING,
        location="x",
        requested_by="test",
        files_total=1,
        bytes_total=3,
        reserved_bytes=3,
    )


def ask(copy, method, path, body=None, *, token=None):
    secret = sign_copy(copy.pk) if token is None else token
    return call(None, method, f"/copy{path}", body, Authorization=f"Bearer {secret}")


def test_a_pod_learns_the_root_of_its_commit_and_signs_reads_of_its_dataset(copy):
    told = ask(copy, "GET", "")
    signed = ask(copy, "POST", "/downloads", {"objects": [{"kind": "root", "id": copy.commit.root}]})

    assert told.body == {"commit": copy.commit_id, "root": copy.commit.root, "files": 1, "size_bytes": 3}
    ((item,),) = (signed.body["items"],)
    assert item["request"]["method"] == "GET"
    assert item["request"]["url"].startswith("/store/")


def test_progress_is_what_the_cache_page_shows(copy):
    assert ask(copy, "POST", "/progress", PROGRESS).body == {"next_packs": []}

    copy.refresh_from_db()
    assert {name: getattr(copy, name) for name in PROGRESS} == PROGRESS


def test_where_several_pods_fill_a_copy_it_is_as_far_as_they_are_together(copy):
    for share, bytes_done in ((0, 1), (1, 1), (0, 2)):
        report = {**PROGRESS, "bytes_done": bytes_done, "share": share, "shares": 3}
        assert ask(copy, "POST", "/progress", report).status == 200

    copy.refresh_from_db()
    sums = {name: 2 * value for name, value in PROGRESS.items()} | {"bytes_done": 3}
    assert {name: getattr(copy, name) for name in PROGRESS} == sums


def test_reports_of_another_number_of_pods_do_not_count_any_more(copy):
    ask(copy, "POST", "/progress", {**PROGRESS, "share": 1, "shares": 2})
    ask(copy, "POST", "/progress", {**PROGRESS, "share": 1, "shares": 3})

    copy.refresh_from_db()
    assert {name: getattr(copy, name) for name in PROGRESS} == PROGRESS


@pytest.mark.parametrize("part", [{"share": 3, "shares": 3}, {"share": -1, "shares": 3}, {"share": 0, "shares": 65}])
def test_a_share_that_is_not_there_changes_nothing(copy, part):
    ask(copy, "POST", "/progress", {**PROGRESS, **part})

    copy.refresh_from_db()
    assert (copy.bytes_done, copy.share_reports) == (0, [])


def test_it_is_told_what_jobs_that_read_the_copy_need_next(copy):
    CachedCommit.objects.filter(pk=copy.pk).update(next_packs=["a" * 64])

    assert ask(copy, "POST", "/progress", PROGRESS).body == {"next_packs": ["a" * 64]}


def test_the_first_bytes_are_told_at_once_and_later_ones_with_the_next_look(copy, django_capture_on_commit_callbacks):
    told = []
    cached_commit_changed.connect(lambda cached_commit_id, **_: told.append(cached_commit_id), weak=False)

    for bytes_done in (0, 1, 3):
        with django_capture_on_commit_callbacks(execute=True):
            ask(copy, "POST", "/progress", {**PROGRESS, "bytes_done": bytes_done})

    assert told == [copy.pk]


def test_of_a_ready_copy_progress_changes_nothing(copy):
    CachedCommit.objects.filter(pk=copy.pk).update(state=CacheState.READY, bytes_done=7)

    assert ask(copy, "POST", "/progress", PROGRESS).status == 200

    copy.refresh_from_db()
    assert (copy.bytes_done, copy.rate_bytes_s) == (7, None)


@pytest.mark.parametrize("state", [CacheState.EVICTING, CacheState.GONE, CacheState.FAILED, CacheState.QUEUED])
def test_a_token_is_good_for_nothing_once_nobody_makes_or_has_the_copy(copy, state):
    CachedCommit.objects.filter(pk=copy.pk).update(state=state)

    assert ask(copy, "GET", "").status == 401
    assert ask(copy, "POST", "/progress", PROGRESS).status == 401
    copy.refresh_from_db()
    assert copy.bytes_done == 0


@pytest.mark.parametrize("token", ["", "nonsense", "ImNjX3gi:1vM:x"])
def test_what_we_have_not_signed_is_no_token(copy, token):
    assert ask(copy, "GET", "", token=token).status == 401


def test_a_token_is_good_for_a_day(copy, monkeypatch):
    token = sign_copy(copy.pk)
    later = (clock.now() + LIFETIME + timedelta(seconds=5)).timestamp()
    monkeypatch.setattr("django.core.signing.time.time", lambda: later)

    assert ask(copy, "GET", "", token=token).status == 401


def test_a_token_of_a_copy_opens_no_route_of_people(copy):
    answer = call(None, "GET", "/datasets", Authorization=f"Bearer {sign_copy(copy.pk)}")

    assert answer.status == 401
